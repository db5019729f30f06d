//! Live test: the host's clock is set forward and back while a gateway follows the policies of a
//! server.
//!
//! All hosts of a test bed share the clock of the kernel, which must not be changed. So the gateway
//! and the LDAP server load a library before the C library (`stepped_clock.c`). The library shifts
//! the time of day that they read. etcd does not read the clock through the C library. Its clock is
//! never shifted, as if it ran on another machine.
//!
//! After a step of the clock, certificates may be invalid, so these servers use none.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_e2e::{Process, Testbed, pause, witnessed_beside_others};

use crate::faults::in_force_at_once;
use crate::site::{Kind, LIMIT, PASSWORD, Site, ask, in_state, prepare};
use crate::stream::{Stream, classified};

/// The shifts of the clock in seconds, one after another. The steps are: an hour ahead, two hours
/// back, ten years ahead, ten years back.
const STEPS: [i64; 4] = [3_600, -3_600, 10 * 365 * 86_400, 0];

/// Time without a further generation that is required after a step or a commit. It is longer than
/// the wait for further commit markers (200 ms), and longer than a poll of the LDAP server (1 s).
const QUIET: Duration = Duration::from_millis(1_300);

#[test]
fn etcd() {
    if Kind::Etcd.is_here() {
        witnessed_beside_others(|bed| steps(bed, Kind::Etcd));
    }
}

#[test]
fn ldap() {
    if Kind::Ldap.is_here() {
        witnessed_beside_others(|bed| steps(bed, Kind::Ldap));
    }
}

/// Catches: a wait until a time of day, which a step makes very long; an age or a deadline computed
/// from the time of day; a revision that depends on the time of day.
fn steps(bed: &Testbed, kind: Kind) {
    prepare(bed);
    let [of_server, of_gateway] = ["server", "gateway"].map(|name| Clock::new(bed, name));
    let mut site = Site::start_with(bed, kind, &of_server.variables());
    site.write_first("30 Mbit/s");
    site.commit();
    let to = Stdio::from(fs::File::create(bed.folder.join("gateway.log")).unwrap());
    let source = site.source(PASSWORD);
    let variables = of_gateway.variables();
    let gateway = bed.gateway_among(&variables, "af-packet", &source, &["--verbose"], to);
    in_state(bed, "central", "in force");
    let before = ask(bed, "status");
    let stream = Stream::start(bed);
    for (step, mean) in STEPS.into_iter().zip([31, 33, 35, 37]) {
        in_force_at_once(&mut site, mean);
        let readings = of_gateway.readings();
        of_server.step(step);
        of_gateway.step(step);
        let generation = ask(bed, "status")["generation"].as_u64();
        pause(QUIET);
        stays(bed, generation, step);
        in_force_at_once(&mut site, mean + 1);
        pause(QUIET);
        stays(bed, generation.map(|it| it + 1), step);
        assert!(of_gateway.readings() > readings, "the gateway read the clock after the step");
    }
    assert_eq!(kind == Kind::Ldap, of_server.readings() > 0, "only etcd has a clock of its own");
    let (sent, received) = stream.finish();
    let after = ask(bed, "status");
    assert_eq!((received, classified(&after) - classified(&before)), (sent, sent), "{after}");
    assert_eq!(after["hangs"], before["hangs"], "{after}");
    drop(gateway);
}

/// Asserts that `generation` stays in force, without an alarm.
fn stays(bed: &Testbed, generation: Option<u64>, step: i64) {
    let status = ask(bed, "status");
    assert_eq!(status["generation"].as_u64(), generation, "{step} s: {status}");
    assert_eq!(status["alarms"].as_array().map(Vec::len), Some(0), "{step} s: {status}");
    let source = in_state(bed, "central", "in force");
    assert!(source["failing_s"].is_null(), "{step} s: {source}");
    assert!(source["delivered_s"].as_u64() <= Some(LIMIT.as_secs()), "{step} s: {source}");
}

/// The clock of a process. The test can shift it.
struct Clock {
    library: PathBuf,
    page: PathBuf,
}

impl Clock {
    /// A clock that is not shifted.
    fn new(bed: &Testbed, name: &str) -> Self {
        let library = bed.folder.join("stepped_clock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sources/stepped_clock.c");
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        let made = Process::start(&mut compile).finish(LIMIT);
        assert!(made.status.success(), "{made:?}");
        let page = bed.folder.join(format!("clock-of-{name}"));
        fs::write(&page, [0; 16]).unwrap();
        Self { library, page }
    }

    /// The environment variables of a process that gets this clock.
    fn variables(&self) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", self.library.clone()), ("CLOCK_STEPS", self.page.clone())]
    }

    /// Sets the shift in seconds. The count of readings stays.
    fn step(&self, shift: i64) {
        use std::os::unix::fs::FileExt;
        let page = fs::OpenOptions::new().write(true).open(&self.page).unwrap();
        page.write_all_at(&shift.to_ne_bytes(), 0).unwrap();
    }

    /// How many times the process has read the time of day.
    fn readings(&self) -> i64 {
        let page = fs::read(&self.page).unwrap();
        i64::from_ne_bytes(page[8..16].try_into().unwrap())
    }
}
