//! Live test: the demonstration runs, prints its figures, and leaves nothing behind. This also
//! holds without root and after an interrupt.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Only root can change to the user nobody.
fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t0"));
    if !root {
        eprintln!("SKIPPED: needs root");
    }
    root
}

fn namespaces(demo: u32) -> usize {
    let names = Command::new("ip").arg("netns").output().unwrap();
    String::from_utf8(names.stdout).unwrap().matches(&format!("tidegate-demo-{demo}-")).count()
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs the demonstration until its figures are plausible, at most three times. On an overloaded
/// machine, frames bypass the gateway and the figures show no effect.
fn check(run: impl Fn() -> Value) {
    let mut runs: Vec<Value> = Vec::new();
    while runs.len() < 3 && !runs.last().is_some_and(makes_sense) {
        runs.push(run());
    }
    assert!(runs.last().is_some_and(makes_sense), "{runs:?}");
}

fn makes_sense(figures: &Value) -> bool {
    let phases = figures["phases"].as_array().unwrap();
    let named = |name: &str| phases.iter().find(|phase| phase["name"] == name);
    let number = |of: &Value| of.as_f64().unwrap();
    let each = phases.iter().map(|phase| {
        assert_eq!(phase["flows"].as_array().unwrap().len(), 4);
        assert!((0.25..=1.0).contains(&number(&phase["jain"])), "{phase}");
        number(&phase["rate_bps"]) > 4e6 && number(&phase["ping_ms"]["p50"]) >= 50.0
    });
    let each: Vec<bool> = each.collect();
    let jain = |name| named(name).map(|phase| number(&phase["jain"]));
    let added = |name| named(name).map(|phase| number(&phase["ping_ms"]["added"]));
    let drops = |name| named(name).map(|phase| phase["drops"].as_u64().unwrap());
    let fair = jain("sequential") < jain("logical-partitions");
    let short = added("inbound-fq-codel") < added("inbound-fifo");
    let shaped = drops("inbound-policed") > Some(0) && drops("inbound-postack") == Some(0);
    !each.contains(&false)
        && fair
        && short
        && shaped
        && number(&figures["inbound"]["of_profile"]) > 0.8
}

/// Measures the effect of held ACKs on downloads, compared with a run without a gateway. The
/// downloads' bottleneck is upstream of the gateway.
fn inbound(seconds: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["demo", "--json", "--seconds", seconds]);
    let child = start(command.args(["--phase", "unmanaged", "--phase", "inbound-postack"]));
    let output = child.wait_with_output().unwrap();
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["phases"].as_array().unwrap().len(), 2, "{figures}");
    figures["inbound"].clone()
}

/// Downloads get nearly their whole profile, and the gateway drops no packet. The added delay is at
/// most a quarter of the delay without a gateway.
#[test]
fn held_acks_control_downloads_whose_bottleneck_is_upstream() {
    if !is_root() {
        return;
    }
    let good = |it: &Value| {
        let number = |name: &str| it[name].as_f64().unwrap();
        number("of_profile") >= 0.95 && number("added_of_unmanaged") <= 0.25 && it["drops"] == 0
    };
    // On an overloaded machine, frames bypass the gateway. One of three runs must be undisturbed.
    let mut runs = Vec::new();
    while runs.len() < 3 && !runs.last().is_some_and(good) {
        runs.push(inbound("12"));
    }
    assert!(runs.last().is_some_and(good), "{runs:?}");
}

#[test]
fn the_demo_prints_its_figures_and_leaves_nothing_behind() {
    if !is_root() {
        return;
    }
    check(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let child = start(command.args(["demo", "--json", "--seconds", "6"]));
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("mean 8 Mbit/s") && !said.contains('\x1b'), "{said}");
        assert_eq!(namespaces(pid), 0);
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
        let phases = figures["phases"].as_array().unwrap();
        let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
        let here = ["unmanaged", "sequential", "fcfs", "logical-partitions"];
        let upstream = ["fifo", "fq-codel", "policed", "postack"].map(|it| format!("inbound-{it}"));
        assert_eq!(names, [here.map(str::to_owned), upstream].concat());
        figures
    });
}

#[test]
fn without_root_the_demo_runs_in_a_user_namespace() {
    if !is_root() {
        return;
    }
    let program = Copied::new("figures");
    let run = || {
        let mut command = program.as_nobody();
        command.args(["demo", "--json", "--seconds", "6"]);
        // The phases that `makes_sense` compares.
        for name in WITHOUT_ROOT {
            command.args(["--phase", name]);
        }
        start(&mut command).wait_with_output().unwrap()
    };
    let first = run();
    if String::from_utf8_lossy(&first.stderr).contains("unshare failed") {
        eprintln!("SKIPPED: this kernel has no user namespaces for ordinary users");
        return;
    }
    let first = std::cell::Cell::new(Some(first));
    check(|| {
        let output = first.take().unwrap_or_else(run);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).unwrap()
    });
}

/// The phases that need no root.
const WITHOUT_ROOT: [&str; 7] = [
    "unmanaged",
    "sequential",
    "logical-partitions",
    "inbound-fifo",
    "inbound-fq-codel",
    "inbound-policed",
    "inbound-postack",
];

/// A copy of the program at a path that every user can reach.
struct Copied(PathBuf);

impl Copied {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()));
        fs::copy(env!("CARGO_BIN_EXE_tidegate"), &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    fn as_nobody(&self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&self.0);
        command
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // The result is ignored: a file left in the folder for temporary files does no harm.
        let _ = fs::remove_file(&self.0);
    }
}

/// A running demonstration. Dropping the value ends the process.
struct Running(Child);

impl Running {
    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The results are ignored: if the test succeeded, the process has ended by now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a demonstration by `program`, and waits until it shows figures in the middle of a phase.
/// If it ends before that, returns its output as the error.
fn try_in_the_middle(program: &mut Command) -> Result<Running, String> {
    let mut child = Running(start(program.args(["demo", "--seconds", "60"])));
    let (mut said, mut piece) = (String::new(), [0; 256]);
    let stderr = child.0.stderr.as_mut().unwrap();
    while !said.contains("Jain") {
        let read = stderr.read(&mut piece).unwrap();
        if read == 0 {
            return Err(said);
        }
        said += &String::from_utf8_lossy(&piece[..read]);
    }
    Ok(child)
}

fn in_the_middle() -> Running {
    let child = try_in_the_middle(&mut Command::new(env!("CARGO_BIN_EXE_tidegate")));
    let child = child.unwrap_or_else(|said| panic!("{said}"));
    assert!(namespaces(child.0.id()) > 0);
    child
}

#[test]
fn an_interrupted_demo_cleans_up_and_does_not_disturb_another() {
    if !is_root() {
        return;
    }
    let (mut first, mut second) = (in_the_middle(), in_the_middle());
    for (name, child) in [("-INT", &mut first), ("-TERM", &mut second)] {
        assert!(child.0.try_wait().unwrap().is_none());
        child.signal(name);
        assert_eq!(child.0.wait().unwrap().code(), Some(1));
        assert_eq!(namespaces(child.0.id()), 0);
    }
}

/// The processes of the demonstration whose process number is `demo`.
fn processes(demo: u32) -> Vec<String> {
    let hosts = ["client", "server-1", "server-4", "the-network-between-all-the-hosts"];
    let inside = |host: &str| {
        let name = format!("tidegate-demo-{demo}-{host}");
        let pids = Command::new("ip").args(["netns", "pids", &name]).output().unwrap();
        String::from_utf8(pids.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    hosts.into_iter().flat_map(inside).collect()
}

fn runs(pid: &str) -> bool {
    Path::new("/proc").join(pid).join("exe").exists()
}

/// Waits, for a limited time, until `left` returns an empty list.
fn until(left: impl Fn() -> Vec<String>) {
    for _ in 0..100 {
        if left().is_empty() {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "processes live in real time")]
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("left behind: {:?}", left());
}

/// The processes in the user namespace `space`.
fn inside(space: &Path) -> Vec<String> {
    let all = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    all.filter(|pid| fs::read_link(format!("/proc/{pid}/ns/user")).is_ok_and(|it| it == space))
        .collect()
}

/// Without root, the lab's namespaces have no names, so they end with their last process.
///
/// Catches: processes of the lab that survive the demonstration.
#[test]
fn a_killed_demo_without_root_leaves_nothing_behind() {
    if !is_root() {
        return;
    }
    let program = Copied::new("killed");
    let mut child = match try_in_the_middle(&mut program.as_nobody()) {
        Err(said) if said.contains("unshare failed") => {
            eprintln!("SKIPPED: this kernel has no user namespaces for ordinary users");
            return;
        }
        child => child.unwrap_or_else(|said| panic!("{said}")),
    };
    let space = fs::read_link(format!("/proc/{}/ns/user", child.0.id())).unwrap();
    assert_ne!(space, fs::read_link("/proc/self/ns/user").unwrap());
    assert!(inside(&space).len() >= 5, "{:?}", inside(&space));
    child.signal("-KILL");
    child.0.wait().unwrap();
    until(|| inside(&space));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.lines().any(|line| line.starts_with("tidegate ")), "{mounts}");
}

/// Catches: processes of the lab that survive the demonstration.
#[test]
fn a_killed_demo_leaves_no_process_and_the_next_lab_removes_its_namespaces() {
    if !is_root() {
        return;
    }
    let mut child = in_the_middle();
    let pid = child.0.id();
    let left = processes(pid);
    assert!(left.len() >= 4, "{left:?}");
    child.signal("-KILL");
    child.0.wait().unwrap();
    until(|| left.iter().filter(|pid| runs(pid)).cloned().collect());
    let mut next = in_the_middle();
    assert_eq!(namespaces(pid), 0);
    next.signal("-TERM");
    next.0.wait().unwrap();
}
