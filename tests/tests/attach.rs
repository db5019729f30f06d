//! Live test: bypass programs forward the frames while no gateway runs, and the next gateway takes
//! the frames again. This works in whatever mount namespaces the gateways run.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{Fetch, Process, Server, Testbed, now, on_each_backend, program, until};

on_each_backend! {
    frames_bypass_a_killed_gateway_until_the_next_one_in_any_mount_namespace
    a_foreign_or_missing_bypass_program_raises_an_alarm
    a_second_gateway_with_another_run_directory_is_refused
}

const LIMIT: Duration = Duration::from_secs(60);

/// Time within which a transfer must continue. The heartbeat timeout is ten times as long.
const GOES_ON: Duration = Duration::from_secs(1);

/// Payload bytes whose arrival proves progress: more than could be in flight before.
const PROGRESS: u64 = 500_000;

/// A policy file without its backend. The heartbeat timeout is longer than the test.
const SHAPED: &str = r#"
lan = "lan"
wan = "wan"
heartbeat = "10 s"

[[policy]]
name = "all"
match = { direction = "down" }
profile = { mean = "20 Mbit/s", burst = "64 KiB" }
action = "shape"
"#;

/// The command that starts a gateway in its network namespace. The gateway's mount namespace
/// depends on the command.
#[derive(Clone, Copy, Debug)]
enum Launcher {
    /// `ip netns exec`: a mount namespace of its own, which ends with the gateway.
    NetnsExec,
    /// `nsenter`: the mount namespace of the test bed.
    Nsenter,
}

/// A gateway that a [`Launcher`] has started.
struct Gateway<'a> {
    bed: &'a Testbed,
    process: Process,
}

impl<'a> Gateway<'a> {
    fn start(bed: &'a Testbed, backend: &str, launcher: Launcher) -> Self {
        let text = format!("[gateway]\nbackend = \"{backend}\"{SHAPED}");
        let file = bed.file("policies.toml", &text);
        let mut command = match launcher {
            Launcher::NetnsExec => bed.middle.netns_exec(program()),
            Launcher::Nsenter => bed.middle.command(program()),
        };
        command.arg("--socket").arg(socket(bed)).arg("run").arg(file);
        let mut gateway = Self { bed, process: Process::start(&mut command) };
        until("the gateway to answer", LIMIT, || {
            assert!(gateway.process.runs(), "{}", gateway.process.all_output());
            gateway.status().map(drop)
        });
        gateway
    }

    fn status(&self) -> Option<Value> {
        let mut command = self.bed.tidegate(&["--socket"]);
        command.arg(socket(self.bed)).args(["status", "--json"]);
        let answer = Process::start(&mut command).finish(LIMIT).output;
        // The request fails while the gateway does not listen yet.
        serde_json::from_str(&answer).ok().filter(|status: &Value| status["ports"].is_object())
    }

    fn alarms(&self) -> String {
        self.status().expect("it answers")["alarms"].to_string()
    }

    /// Number of download frames that bypassed the gateway for this reason.
    fn bypassed(&self, reason: &str) -> Option<u64> {
        self.status().expect("it answers")["down"]["bypassed"][reason]["packets"].as_u64()
    }
}

fn socket(bed: &Testbed) -> impl AsRef<Path> + AsRef<std::ffi::OsStr> {
    bed.folder.join("control.sock")
}

fn fetch(bed: &Testbed, server: &Server, bytes: &str) -> Fetch {
    server.fetch(bed.wan.v4, &bed.lan, &["--bytes", bytes])
}

/// Catches: bypass programs that end with a mount namespace; a gateway that does not replace the
/// bypass programs of the gateway before it; frames dropped until the heartbeat times out.
fn frames_bypass_a_killed_gateway_until_the_next_one_in_any_mount_namespace(
    bed: &Testbed,
    backend: &str,
) {
    let server = Server::start(&bed.wan, 7000, "reno");
    let mut passed = 0;
    for by in [
        Launcher::Nsenter,
        Launcher::NetnsExec,
        Launcher::NetnsExec,
        Launcher::Nsenter,
        Launcher::Nsenter,
    ] {
        let mut gateway = Gateway::start(bed, backend, by);
        assert_eq!(gateway.alarms(), "[]", "{by:?}");
        assert!(gateway.bypassed("no_socket") >= Some(passed), "{by:?}: the count goes on");
        assert_eq!(gateway.bypassed("silent"), Some(0), "{by:?}");
        // The policy is in force again: 2 MB at 20 Mbit/s take 0.8 s.
        let start = now();
        assert!(fetch(bed, &server, "2 MB").finish(LIMIT).intact);
        assert!(start.elapsed() > Duration::from_millis(750), "{by:?}: {:?}", start.elapsed());
        let under_way = fetch(bed, &server, "40 MB");
        under_way.moves_on(PROGRESS, LIMIT);
        gateway.process.end();
        under_way.moves_on(PROGRESS, GOES_ON);
        let outcome = under_way.finish(LIMIT);
        assert!(outcome.complete && outcome.intact, "{by:?}: {outcome:?}");
        println!("{backend}, {by:?}: the longest pause is {:?}", outcome.longest_pause);
        // 40 MB are more than 27,000 packets of 1,448 bytes. Most of them bypassed the gateway.
        passed += 15_000;
    }
}

/// Catches: attached programs that are checked only at the start; a check that does not notice that
/// the gateway's own program is missing.
fn a_foreign_or_missing_bypass_program_raises_an_alarm(bed: &Testbed, backend: &str) {
    let gateway = Gateway::start(bed, backend, Launcher::Nsenter);
    assert_eq!(gateway.alarms(), "[]");
    let object = concat!(env!("CARGO_MANIFEST_DIR"), "/../bpf/foreign.bpf.o");
    let alarm = if backend == "af-xdp" {
        bed.middle.run("ip link set dev lan xdp off");
        "the XDP program of the gateway is not on `lan` any more"
    } else {
        bed.middle.run(&format!("ip link set dev lan xdp object {object} section xdp.frags"));
        let words = ["doctor", "--json", "--lan", "lan", "--wan", "wan"];
        let report = Process::start(&mut bed.tidegate(&words)).finish(LIMIT);
        assert!(report.output.contains("the XDP program `pass_all`"), "{report:?}");
        "the XDP program `pass_all`"
    };
    let alarms = gateway.alarms();
    assert!(alarms.contains(alarm), "{alarms}");
}

/// The second gateway has another run directory, so it does not see the lock of the first gateway.
/// But it finds the attached programs of the first gateway.
///
/// Catches: a gateway that detaches the programs of another running gateway.
fn a_second_gateway_with_another_run_directory_is_refused(bed: &Testbed, backend: &str) {
    let gateway = Gateway::start(bed, backend, Launcher::Nsenter);
    for second in ["auto", "af-packet"] {
        let text = format!("[gateway]\nbackend = \"{second}\"{SHAPED}");
        let mut command = bed.middle.netns_exec(program());
        command.arg("--socket").arg(bed.folder.join("second.sock")).arg("run");
        let command = command.arg(bed.file("second.toml", &text));
        let refused = Process::start(command).finish(LIMIT);
        assert!(refused.errors.contains("TG0202"), "{second}: {refused:?}");
    }
    assert_eq!(gateway.alarms(), "[]");
}
