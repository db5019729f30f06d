//! Live tests of changes and faults of policy repositories under traffic. Each datagram must be
//! treated by its policy, and none may be lost.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{Gateway, Testbed, now, pause, program, until, witnessed_beside_others};

use crate::site::{KINDS, Kind, LIMIT, PASSWORD, Site, ask, in_state, policy_of, prepare};
use crate::stream::{Stream, classified, touch};

/// Longest time until a commit is in force.
const IN_FORCE: Duration = Duration::from_secs(2);

/// A password that the server refuses.
const WRONG: &str = "wrong-password";

/// Time for which commit markers are written without a pause.
const FLOOD: Duration = Duration::from_secs(3);

/// Ports in the test with many policies. Each port has a policy.
const PORTS: std::ops::Range<u16> = 20_000..23_000;

/// Longest time in microseconds for which the data plane may work on a change without forwarding
/// packets.
const OCCUPIED_US: u64 = 1_000;

/// Maximum number of generations during [`FLOOD`]: one each second, one for the last marker, and
/// some more on a slow machine. A pause of the flood allows one more.
const FEW: u64 = 8;

#[test]
fn files() {
    witnessed_beside_others(|bed| all(bed, Kind::Directory));
}

#[test]
fn etcd() {
    if Kind::Etcd.is_here() {
        witnessed_beside_others(|bed| all(bed, Kind::Etcd));
    }
}

#[test]
fn ldap() {
    if Kind::Ldap.is_here() {
        witnessed_beside_others(|bed| all(bed, Kind::Ldap));
    }
}

/// A gateway with a policy source whose policy is in force.
struct Case<'a> {
    bed: &'a Testbed,
    site: Site<'a>,
    gateway: Gateway<'a>,
}

/// A fault, the gateway's report of the fault, and the repair.
struct Row {
    fault: &'static str,
    /// The kinds of repositories in which this fault can occur.
    kinds: &'static [Kind],
    begin: fn(&mut Case<'_>),
    /// The state of the source during the fault. In the state `in force` there is no alarm.
    state: &'static [&'static str],
    /// Words that the alarm contains, in addition to the name of the source and the time.
    says: fn(&Case<'_>) -> Vec<String>,
    mend: fn(&mut Case<'_>),
}

const SERVERS: [Kind; 2] = [Kind::Etcd, Kind::Ldap];

const TABLE: &[Row] = &[
    Row {
        fault: "the server is down",
        kinds: &KINDS,
        begin: |case| case.site.kill(),
        state: &["unreachable", "unusable"],
        says: |case| match case.site.kind {
            Kind::Directory => vec!["site".to_owned()],
            _ => vec!["look whether".to_owned()],
        },
        mend: |case| case.site.run(),
    },
    Row {
        fault: "half a change has no marker",
        kinds: &KINDS,
        begin: |case| {
            case.site.write("41 Mbit/s");
            pause(Duration::from_millis(600));
        },
        state: &["in force"],
        says: |_| Vec::new(),
        mend: |case| case.commit(41),
    },
    Row {
        fault: "a policy does not compile",
        kinds: &KINDS,
        begin: |case| {
            case.site.write("fast");
            case.site.commit();
        },
        state: &["refused", "malformed"],
        says: |case| vec![case.site.entry_name().to_owned(), "fast".to_owned()],
        mend: |case| {
            case.site.write("42 Mbit/s");
            case.commit(42);
        },
    },
    Row {
        fault: "the password is wrong",
        kinds: &SERVERS,
        begin: |case| case.apply(&case.with_users(WRONG)),
        state: &["refused"],
        says: |_| vec!["`user`".to_owned()],
        mend: |case| case.apply(&case.site.source(PASSWORD)),
    },
    Row {
        fault: "another source has the same name",
        kinds: &KINDS,
        begin: |case| {
            let other = case.other();
            let set = "[[policy]]\nname = \"stream\"\naction = \"pass\"\n";
            fs::write(case.bed.folder.join("other/copy.toml"), set).unwrap();
            fs::write(case.bed.folder.join("other/COMMIT"), "1\n").unwrap();
            case.apply(&(case.site.source(PASSWORD) + &other));
        },
        state: &["in force"],
        says: |case| {
            vec!["`other`".to_owned(), "copy.toml".to_owned(), case.site.entry_name().to_owned()]
        },
        mend: |case| case.apply(&case.site.source(PASSWORD)),
    },
];

impl Case<'_> {
    /// Applies a policy file with these sources.
    fn apply(&self, sources: &str) {
        self.gateway.apply("af-packet", sources);
    }

    /// Commits the source's set, and waits until the mean rate of its policy, `mean` Mbit/s, is in
    /// force.
    fn commit(&mut self, mean: u64) {
        self.site.commit();
        until(&format!("{mean} Mbit/s"), LIMIT, || {
            (mean_of(&ask(self.bed, "status")) == Some(mean * 1_000_000)).then_some(())
        });
    }

    /// The configuration of the source with a user who has this password.
    fn with_users(&self, password: &str) -> String {
        let source = self.site.source(password);
        if self.site.kind != Kind::Etcd {
            return source;
        }
        // An etcd without users refuses every login.
        let file = self.site.password_file(password).display().to_string();
        source + &format!("user = \"gateway\"\npassword_file = \"{file}\"\n")
    }

    /// The configuration of another source, a directory.
    fn other(&self) -> String {
        let path = self.bed.folder.join("other");
        fs::create_dir_all(&path).unwrap();
        format!(
            "[[source]]\nname = \"other\"\nkind = \"directory\"\npath = \"{}\"\n",
            path.display()
        )
    }
}

/// Catches: a change that takes effect only at the next poll; a packet that is lost, or to which no
/// policy applies, during a change or while the server is down; an alarm without its reason, or
/// that never ends; a set of policies in force that is not complete.
fn all(bed: &Testbed, kind: Kind) {
    prepare(bed);
    let mut site = Site::start(bed, kind);
    site.write_first("30 Mbit/s");
    site.commit();
    let log = bed.folder.join("gateway.log");
    let to = Stdio::from(fs::File::create(&log).unwrap());
    let gateway = bed.gateway_with("af-packet", &site.source(PASSWORD), &["--verbose"], to);
    in_state(bed, "central", "in force");
    let mut case = Case { bed, site, gateway };
    let before = ask(bed, "status");
    let stream = Stream::start(bed);
    changes_are_in_force_at_once(&mut case);
    for row in TABLE.iter().filter(|row| row.kinds.contains(&kind)) {
        goes_through(&mut case, row);
    }
    markers_without_end(&mut case);
    let (sent, received) = stream.finish();
    let after = ask(bed, "status");
    assert_eq!((received, classified(&after) - classified(&before)), (sent, sent), "{after}");
    assert!(sent > 1_000 && after["hangs"] == before["hangs"], "{sent} sent, {after}");
    assert_eq!(after["up"]["bypassed"], before["up"]["bypassed"], "{after}");

    starts_without_its_server(&mut case);
    let said =
        format!("{}{}{}", ask(bed, "status"), ask(bed, "source"), fs::read_to_string(log).unwrap());
    assert!(said.contains("central"), "{said}");
    assert!(!said.contains(PASSWORD) && !said.contains(WRONG), "{said}");
}

fn changes_are_in_force_at_once(case: &mut Case<'_>) {
    (31..34).for_each(|mean| in_force_at_once(&mut case.site, mean));
}

/// Commits a policy with this mean rate in Mbit/s, and waits until it is in force.
pub(crate) fn in_force_at_once(site: &mut Site<'_>, mean: u64) {
    let generation = ask(site.bed, "status")["generation"].as_u64();
    site.write(&format!("{mean} Mbit/s"));
    site.commit();
    let committed = now();
    let status = until("the next generation", LIMIT, || {
        let status = ask(site.bed, "status");
        (status["generation"].as_u64() > generation).then_some(status)
    });
    let time = committed.elapsed();
    println!("{}: in force after {time:?}", site.kind.name());
    assert!(time < IN_FORCE, "{time:?}, {status}");
    assert_eq!(mean_of(&status), Some(mean * 1_000_000), "{status}");
}

/// The mean rate of the policy for the stream of datagrams.
fn mean_of(status: &Value) -> Option<u64> {
    let stream = status["aggregates"].as_array()?.iter().find(|it| it["policy"] == "stream");
    stream?["mean_bps"].as_u64()
}

fn goes_through(case: &mut Case<'_>, row: &Row) {
    let mean = mean_of(&ask(case.bed, "status"));
    (row.begin)(case);
    let fault = format!("{} {}", case.site.kind.name(), row.fault);
    let words = (row.says)(case);
    let alarms = until(&fault, LIMIT, || {
        let state = ask(case.bed, "source")["sources"]
            .as_array()?
            .iter()
            .find(|it| it["name"] == "central")?["state"]
            .clone();
        let alarms = ask(case.bed, "status")["alarms"].as_array()?.clone();
        let as_expected = row.state.iter().any(|it| state == *it)
            && alarms.len() == usize::from(!words.is_empty());
        as_expected.then_some(alarms)
    });
    for alarm in &alarms {
        let alarm = alarm.as_str().unwrap();
        let all = words
            .iter()
            .chain([&"source `".to_owned(), &" for ".to_owned()])
            .all(|it| alarm.contains(it));
        assert!(all, "{fault}: {alarm}");
        println!("{fault}: {alarm}");
    }
    assert_eq!(mean_of(&ask(case.bed, "status")), mean, "{fault}");
    assert_eq!(policy_of(case.bed, "udp", "9000"), "stream", "{fault}");
    (row.mend)(case);
    let source = in_state(case.bed, "central", "in force");
    assert_eq!(source["failing_s"], Value::Null, "{source}");
    until(&format!("no alarm after: {fault}"), LIMIT, || {
        ask(case.bed, "status")["alarms"].as_array()?.is_empty().then_some(())
    });
}

/// Catches: one generation for each marker; an agent that waits until no further marker follows; a
/// policy change during which the data plane forwards no packets.
fn markers_without_end(case: &mut Case<'_>) {
    case.site.write_for_each(PORTS);
    case.site.commit();
    let ready = || policy_of(case.bed, "udp", "20000") == "port20000";
    if case.site.kind == Kind::Directory {
        until("the policies of all ports", LIMIT, || ready().then_some(()));
    }
    touch(case.bed, PORTS);
    let before = ask(case.bed, "status")["generation"].as_u64().unwrap();
    let (markers, pauses) = case.site.flood(FLOOD);
    case.site.write("50 Mbit/s");
    case.site.commit();
    let after = until("the last marker", LIMIT, || {
        let status = ask(case.bed, "status");
        (mean_of(&status) == Some(50_000_000)).then_some(status)
    });
    let generations = after["generation"].as_u64().unwrap() - before;
    println!(
        "{}: {markers} markers, {pauses} pauses, {generations} generations",
        case.site.kind.name()
    );
    assert!((1..=FEW + pauses).contains(&generations), "{generations} generations, {after}");
    let occupied = after["occupied_us"].as_u64().unwrap();
    println!("{}: the data plane was occupied for {occupied} us at once", case.site.kind.name());
    assert!(occupied > 0 && (occupied <= OCCUPIED_US || !is_release()), "{occupied} us, {after}");
}

/// Returns `true` if the program under test is a release build, as on the build server. Other
/// builds are slower.
fn is_release() -> bool {
    program().components().any(|part| part.as_os_str() == "release")
}

/// Catches: a last good set that is not stored, or not read from the disk; a start that fails
/// because the server is down.
fn starts_without_its_server(case: &mut Case<'_>) {
    case.gateway.stop();
    case.site.kill();
    let _ = case.bed.file(
        "policies.toml",
        &format!(
            "[gateway]\nlan = \"lan\"\nwan = \"wan\"\nbackend = \"af-packet\"\n\n{}",
            case.site.source(PASSWORD)
        ),
    );
    case.gateway.start_again();
    assert_eq!(policy_of(case.bed, "udp", "9000"), "stream");
    let state = until("a fault", LIMIT, || {
        let found = ask(case.bed, "source")["sources"][0].clone();
        found["error"].is_string().then_some(found)
    });
    assert!(state["revision"].is_string() && state["help"].is_string(), "{state}");
    let alarms = ask(case.bed, "status")["alarms"].clone();
    assert_eq!(alarms.as_array().map(Vec::len), Some(1), "{alarms}");
    case.site.run();
    in_state(case.bed, "central", "in force");
    assert_eq!(ask(case.bed, "status")["alarms"].as_array().map(Vec::len), Some(0));
}
