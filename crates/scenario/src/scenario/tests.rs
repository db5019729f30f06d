//! Tests of scenario files, valid and invalid.

mod ack_controls;
mod aggregates;
mod trunks;
mod uploads;

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::link::LinkChange;
use tidegate_core::tcp::Profile;
use tidegate_core::{Bytes, Rate};
use tidegate_sim::scenario::{Change, Distribution, End, Kind, NodeKind, Probe, Side, Start, Way};

use super::*;
use tidegate_config::testing::damaged;

/// The text of the file `name` in `examples/sim`.
fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sim");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The contents of the files that the test scenarios name.
fn fetch(path: &str) -> Result<String, String> {
    match path {
        "edge.toml" => Ok("[gateway]\nlan = \"lan\"\nwan = \"wan\"\n".to_owned()),
        "wrong.toml" => Ok("[gateway]\nlan = \"lan\"\nwan = 3\n".to_owned()),
        "voice.csv" => Ok("# time, size\n0 s, 160 B\n\n20 ms, 160 B\n".to_owned()),
        "bad.csv" => Ok("0 s, 160 B\n20 ms; 160 B\n".to_owned()),
        _ => Err("there is no such file".to_owned()),
    }
}

fn read(text: &str) -> (Option<Scenario>, Findings) {
    parse("test.toml", text, &mut fetch)
}

fn scenario(text: &str) -> Scenario {
    let (scenario, found) = read(text);
    assert_eq!(found.iter().count(), 0, "{}", found.render(false));
    scenario.unwrap()
}

#[test]
fn a_dumbbell_becomes_nodes_links_and_traffic() {
    let it = scenario(&example("dumbbell.toml"));
    assert_eq!(
        (it.run.duration, it.run.warmup),
        (Duration::from_secs(60), Duration::from_secs(10))
    );
    assert_eq!((it.run.seed, it.run.sample), (1, Some(Duration::from_millis(200))));
    let names: Vec<_> = it.nodes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["s1", "s2", "c1", "c2", "left", "right"]);
    assert_eq!(it.links.len(), 5);
    let bottleneck = &it.links[2];
    assert_eq!((&bottleneck.a, &bottleneck.b), (&End::of("left"), &End::of("right")));
    assert_eq!(bottleneck.forward.as_ref().unwrap().rate, Some(Rate::from_mbps(10)));
    assert_eq!(bottleneck.forward, bottleneck.back);
    let [downloads, voice] = it.traffic.as_slice() else { panic!() };
    assert_eq!((downloads.flows, downloads.pairs.len(), &downloads.kind), (5, 2, &Kind::Greedy));
    assert_eq!(downloads.start, Start::Between(Duration::ZERO, Duration::from_secs(1)));
    let rate = Rate::from_kbps(80);
    assert_eq!((&voice.kind, voice.dscp), (&Kind::Constant { rate, packet: 214 }, 46));
    assert!(
        matches!(it.probes.as_slice(), [Probe::Queue(way)] if way.to_string() == "left > right")
    );
}

#[test]
fn nodes_without_a_link_are_attached_to_the_network_of_routes() {
    let it = scenario(&example("gateway.toml"));
    let NodeKind::Cloud(cloud) = &it.nodes.last().unwrap().kind else { panic!() };
    // One port for each of the two hosts beyond the gateway, with two addresses. One port for the
    // gateway, with the four addresses of its two hosts.
    assert_eq!(cloud.ports.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 4]);
    let NodeKind::Gateway(gateway) = &it.nodes[4].kind else { panic!() };
    assert_eq!(gateway.policies.policies().len(), 1);
    let edge = |side| End { node: "edge".to_owned(), side };
    let links: Vec<_> = it.links.iter().map(|it| (it.a.clone(), it.b.clone())).collect();
    let cloud = |port| End { node: "cloud".to_owned(), side: Side::Port(port) };
    assert_eq!(links[0], (End::of("alice"), edge(Side::Lan)));
    assert_eq!(
        links[2..],
        [(End::of("files"), cloud(0)), (End::of("shop"), cloud(1)), (edge(Side::Wan), cloud(2)),]
    );
    let Kind::Web { request, answer, .. } = &it.traffic[1].kind else { panic!() };
    assert_eq!(*answer, Distribution::Pareto(Bytes(65_000), 1.5));
    assert_eq!(*request, Distribution::Constant(Bytes(300)));
}

/// Catches: a gateway on the LAN side of another gateway that is also attached to the cloud.
#[test]
fn a_gateway_on_the_lan_side_of_another_is_linked_to_it() {
    let it = scenario(
        r#"
[run]
duration = "1 s"
[[host]]
name = "a"
gateway = "inner"
[[host]]
name = "far"
[[gateway]]
name = "outer"
policy = "edge.toml"
[[gateway]]
name = "inner"
gateway = "outer"
policy = "edge.toml"
[[route]]
[[traffic]]
name = "up"
kind = "greedy"
from = "a"
to = "far"
"#,
    );
    let end = |node: &str, side| End { node: node.to_owned(), side };
    let links: Vec<_> = it.links.iter().map(|it| (it.a.clone(), it.b.clone())).collect();
    let cloud = |port| end("cloud", Side::Port(port));
    assert_eq!(
        links,
        [
            (End::of("a"), end("inner", Side::Lan)),
            (end("inner", Side::Wan), end("outer", Side::Lan)),
            (End::of("far"), cloud(0)),
            (end("outer", Side::Wan), cloud(1)),
        ]
    );
    let NodeKind::Cloud(cloud) = &it.nodes.last().unwrap().kind else { panic!() };
    assert_eq!(cloud.ports.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
}

/// Catches: a gateway with a link that is also attached to the cloud; a gateway's port that leads
/// only to hosts directly on its LAN side.
#[test]
fn the_port_of_a_gateway_at_the_cloud_leads_to_the_whole_network_on_its_lan_side() {
    let it = scenario(
        r#"
[run]
duration = "1 s"
[[host]]
name = "a"
[[host]]
name = "b"
[[host]]
name = "far"
[[router]]
name = "r"
[[gateway]]
name = "g"
policy = "edge.toml"
[[link]]
from = "a"
to = "r"
[[link]]
from = "b"
to = "r"
back = { delay = "3 ms" }
[[link]]
from = "r"
to = "g.lan"
delay = "2 ms"
[[route]]
[[traffic]]
name = "t"
kind = "file"
size = "1 MB"
from = "far"
to = ["a", "b"]
"#,
    );
    let NodeKind::Cloud(cloud) = &it.nodes.last().unwrap().kind else { panic!() };
    assert_eq!(cloud.ports.iter().map(Vec::len).collect::<Vec<_>>(), [2, 4]);
    let delays = |link: usize| {
        let link = &it.links[link];
        [&link.forward, &link.back].map(|it| it.as_ref().unwrap().delay.as_millis())
    };
    assert_eq!((delays(1), delays(2)), ([0, 3], [2, 2]));
}

/// A small scenario into which the tests put mistakes.
const SMALL: &str = r#"
name = "small"
[run]
duration = "10 s"
warmup = "1 s"
[[host]]
name = "a"
[[host]]
name = "b"
[[host]]
name = "c"
[[router]]
name = "r"
[[gateway]]
name = "g"
policy = "edge.toml"
[[link]]
from = "a"
to = "r"
rate = "1 Mbit/s"
delay = "5 ms"
[[link]]
from = "r"
to = "g.wan"
[[link]]
from = "g.lan"
to = "b"
[[link]]
from = "c"
to = "r"
[[traffic]]
name = "files"
kind = "file"
from = ["a", "c"]
to = "b"
size = "20 kB"
stop = "5 s"
[[traffic]]
name = "noise"
kind = "on-off"
protocol = "udp"
from = "a"
to = "c"
rate = "64 kbit/s"
on = { exponential = "1 s" }
off = "2 s"
[[traffic]]
name = "voice"
kind = "trace"
protocol = "udp"
from = "c"
to = "a"
trace = [["0 s", "160 B"], ["20 ms", "160 B"]]
[[traffic]]
name = "onward"
kind = "relay"
from = ["b", "b"]
to = ["c", "a"]
of = "files"
buffer = "64 KiB"
[[probe]]
kind = "window"
traffic = "files"
flows = [0, 1]
[[probe]]
kind = "capture"
from = "r"
to = "g.wan"
[[probe]]
kind = "passage"
gateway = "g"
direction = "up"
bound = "10 ms"
tracked = true
[[change]]
at = "3 s"
from = "a"
to = "r"
delay = "7 ms"
"#;

/// Catches: a finding about an embedded policy file with a line number counted from the start of
/// the embedded text.
#[test]
fn errors_in_an_inline_policy_file_are_marked_there() {
    let inline = |text: &str| SMALL.replace("policy = \"edge.toml\"", &format!("inline = {text}"));
    let literal = inline("'''\n[gateway]\nlan = \"lan\"\nwan = 7\n'''");
    let (_, found) = read(&literal);
    let data = serde_json::to_value(found.data()).unwrap();
    assert_eq!((&data[0]["source"], &data[0]["line"]), (&"7".into(), &19.into()));
    assert_eq!(data[0]["field"], "gateway[0].inline");
    // If the string has escapes, the embedded text does not occur literally in the file. The
    // message then names the line of the embedded text.
    let (_, found) = read(&inline("\"[gateway]\\nlan = \\\"lan\\\"\\nwan = 7\\n\""));
    let data = serde_json::to_value(found.data()).unwrap();
    assert!(data[0]["message"].as_str().unwrap().starts_with("line 3, column 7: expected"));
    assert_eq!(data[0]["field"], "gateway[0].inline");
}

/// Catches: TCP settings of traffic that ignore the settings of the run; settings that stay in
/// force although the traffic names its own profile.
#[test]
fn tcp_of_traffic_changes_single_settings_of_the_run_or_names_its_own_profile() {
    let with = |run: &str, traffic: &str| {
        let text = SMALL.replace("warmup = \"1 s\"", &format!("tcp = {run}"));
        scenario(&text.replace("stop = \"5 s\"", &format!("tcp = {traffic}")))
    };
    let it = with("{ profile = \"ns2-2003\", mss = \"1000 B\" }", "{ congestion = \"vegas\" }");
    let (run, own) = (&it.run.tcp, it.traffic[0].tcp.as_ref().unwrap());
    assert_eq!((run.profile, run.mss, run.congestion.name()), (Profile::Ns2, 1_000, "newreno"));
    assert_eq!((own.profile, own.mss, own.congestion.name()), (Profile::Ns2, 1_000, "vegas"));
    assert_eq!(own.details, Profile::Ns2.details());
    let it =
        with("{ mss = \"1000 B\" }", "{ profile = \"linux\", congestion = { kind = \"dctcp\" } }");
    let own = it.traffic[0].tcp.as_ref().unwrap();
    assert_eq!((own.profile, own.mss, own.congestion.name()), (Profile::Linux, 1_460, "dctcp"));
    let text = SMALL.replace("name = \"c\"", "name = \"c\"\ntcp = { ack_every = 1 }");
    let NodeKind::Host(host) = &scenario(&text).nodes[2].kind else { panic!() };
    assert_eq!(host.tcp.as_ref().unwrap().details.ack_every, 1);
}

#[test]
fn the_scenario_small_is_valid() {
    let it = scenario(SMALL);
    assert_eq!(it.traffic.len(), 4);
    let change = LinkChange { rate: None, delay: Some(Duration::from_millis(7)) };
    let way = Way { from: End::of("a"), to: End::of("r") };
    assert_eq!(it.changes, [Change { at: Duration::from_secs(3), way, change }]);
    assert_eq!(it.traffic[3].kind, Kind::Relay { of: "files".into(), buffer: Bytes(65_536) });
    let from_file =
        SMALL.replace("[[\"0 s\", \"160 B\"], [\"20 ms\", \"160 B\"]]", "\"voice.csv\"");
    assert_eq!(scenario(&from_file).traffic, it.traffic);
}

#[test]
fn help_for_a_misspelt_name_suggests_the_nearest_and_lists_some_others() {
    let hosts: String = (0..60).map(|n| format!("[[host]]\nname = \"h{n}\"\n")).collect();
    let text =
        format!("[run]\nduration = \"1 s\"\n{hosts}[[link]]\nfrom = \"h59a\"\nto = \"h0\"\n");
    let help = read(&text).1.iter().next().unwrap().help.clone();
    assert!(help.starts_with("did you mean `h59`? there are: h0, h1,"), "{help}");
    assert!(help.ends_with(", h39 and 20 more"), "{help}");
}

/// One mistake in each line: `text -> replacement -> code at marked -> field`.
///
/// The replacement of this text in `SMALL` is wrong (`\n` is a line break). The expected finding has
/// the code, marks the marked text, and names the field.
const MISTAKES: &str = r#"
duration = "10 s" -> duration = "10" -> TG0005 at "10" -> run.duration
duration = "10 s" -> duration = "-10 s" -> TG0007 at "-10 s" -> run.duration
duration = "10 s" -> duration = "0 s" -> TG0051 at "0 s" -> run.duration
duration = "10 s" ->  -> TG0003 at [run] -> run
[run]\nduration = "10 s"\nwarmup = "1 s" ->  -> TG0003 at  ->
warmup = "1 s" -> warmup = "10 s" -> TG0051 at "10 s" -> run.warmup
warmup = "1 s" -> sample = "1 ns" -> TG0060 at "1 ns" -> run.sample
warmup = "1 s" -> link_header = "1 kB" -> TG0060 at "1 kB" -> run.link_header
warmup = -> warm = -> TG0002 at warm -> run.warm
name = "c" -> name = "a" -> TG0018 at "a" -> host[2].name
name = "r" -> name = "a" -> TG0018 at "a" -> router[0].name
name = "r" -> name = "r.1" -> TG0017 at "r.1" -> router[0].name
policy = "edge.toml" -> policy = "none" -> TG0101 at "none" -> gateway[0].policy
policy = "edge.toml" -> policy = "wrong.toml" -> TG0004 at "wrong -> gateway[0].policy
policy = "edge.toml" ->  -> TG0041 at [[gateway]] -> gateway[0]
from = "a"\nto = "r" -> from = "aa"\nto = "r" -> TG0044 at "aa" -> link[0].from
to = "g.wan" -> to = "g" -> TG0044 at "g" -> link[1].to
from = "g.lan" -> from = "g.LAN" -> TG0044 at "g.LAN" -> link[2].from
from = "c"\nto = "r" -> from = "r"\nto = "r" -> TG0045 at "r" -> link[3].to
from = "c"\nto = "r" -> from = "a"\nto = "r" -> TG0046 at [[link]] -> link[3]
rate = "1 Mbit/s" -> rate = "0 bit/s" -> TG0022 at "0 bit/s" -> link[0].rate
delay = "5 ms" -> delay = 5 -> TG0005 at 5 -> link[0].delay
delay = "5 ms" -> back = { rate = "0 bit/s" } -> TG0022 at "0 bit/s" -> link[0].back.rate
delay = "5 ms" -> back = true -> TG0004 at true -> link[0].back
delay = "5 ms" -> back = false -> TG0042 at "a" -> traffic[0].from[0]
from = "c"\nto = "r" -> from = "a"\nto = "g.lan" -> TG0042 at "c" -> traffic[1].to
from = ["a", "c"] -> from = ["a", "x"] -> TG0044 at "x" -> traffic[0].from[1]
from = ["a", "c"] -> from = ["a", "r"] -> TG0044 at "r" -> traffic[0].from[1]
from = ["a", "c"] -> from = ["a", "b"] -> TG0053 at "b" -> traffic[0].to
from = ["a", "c"] -> from = [] -> TG0016 at [] -> traffic[0].from
to = "b"\nsize -> to = ["b", "b", "b"]\nsize -> TG0054 at ["b" -> traffic[0].to
size = "20 kB" ->  -> TG0003 at [[traffic]] -> traffic[0]
size = "20 kB" -> size = "0 B" -> TG0056 at "0 B" -> traffic[0].size
size = "20 kB" -> size = { pareto = { mean = "9 kB", shape = 1 } } -> TG0056 at { pareto -> traffic[0].size
size = "20 kB" -> size = { pareto = { mean = "9 kB" } } -> TG0003 at { mean -> traffic[0].size.pareto
size = "20 kB" -> size = { normal = "9 kB" } -> TG0008 at normal -> traffic[0].size.normal
size = "20 kB" -> size = { uniform = "9 kB" } -> TG0056 at "9 kB" -> traffic[0].size.uniform
size = "20 kB" -> size = { uniform = ["9 kB", "2 kB"] } -> TG0056 at { uniform -> traffic[0].size
size = "20 kB" -> size = "1 B"\nthink = "1 s" -> TG0055 at "1 s" -> traffic[0].think
stop = "5 s" -> stop = "0 s" -> TG0052 at "0 s" -> traffic[0].stop
stop = "5 s" -> start = "10 s" -> TG0028 at "10 s" -> traffic[0].start
stop = "5 s" -> start = { exponential = "1 s" } -> TG0056 at { exp -> traffic[0].start
stop = "5 s" -> start = { uniform = ["2 s", "1 s"] } -> TG0052 at "1 s" -> traffic[0].start.uniform[1]
stop = "5 s" -> flows = 0 -> TG0009 at 0 -> traffic[0].flows
stop = "5 s" -> flows = 1_000_000_000 -> TG0009 at 1_000_000_000 -> traffic[0].flows
stop = "5 s" -> protocol = "udp" -> TG0055 at "udp" -> traffic[0].protocol
stop = "5 s" -> port = 0 -> TG0009 at 0 -> traffic[0].port
stop = "5 s" -> dscp = 64 -> TG0014 at 64 -> traffic[0].dscp
stop = "5 s" -> tcp = 5 -> TG0004 at 5 -> traffic[0].tcp
stop = "5 s" -> tcp = { profile = "bsd" } -> TG0008 at "bsd" -> traffic[0].tcp.profile
stop = "5 s" -> tcp = { window = "1 B" } -> TG0002 at window -> traffic[0].tcp.window
stop = "5 s" -> tcp = { receive_window = "2000 MiB" } -> TG0061 at "2000 MiB" -> traffic[0].tcp.receive_window
stop = "5 s" -> tcp = { receive_window = "1 MB", window_scaling = false } -> TG0061 at "1 MB" -> traffic[0].tcp.receive_window
stop = "5 s" -> tcp = { window_scale = 15 } -> TG0061 at 15 -> traffic[0].tcp.window_scale
stop = "5 s" -> tcp = { rto_min = "0 s" } -> TG0062 at "0 s" -> traffic[0].tcp.rto_min
stop = "5 s" -> tcp = { congestion = "renoo" } -> TG0008 at "renoo" -> traffic[0].tcp.congestion
stop = "5 s" -> tcp = { congestion = { kind = "vegas", alfa = 1 } } -> TG0002 at alfa -> traffic[0].tcp.congestion.alfa
warmup = "1 s" -> tcp = { mss = 1000 } -> TG0062 at 1000 -> run.tcp.mss
warmup = "1 s" -> tcp = { mss = "1 kB", rto_max = "-1 s" } -> TG0062 at "-1 s" -> run.tcp.rto_max
off = "2 s" -> off = "2 s"\ntcp = { mss = "1 kB" } -> TG0055 at { mss -> traffic[1].tcp
name = "c" -> name = "c"\ntcp = { initial_window = 0 } -> TG0061 at 0 -> host[2].tcp.initial_window
name = "noise" -> name = "files" -> TG0018 at "files" -> traffic[1].name
name = "noise" -> name = "no ise" -> TG0017 at "no ise" -> traffic[1].name
kind = "on-off" -> kind = "onoff" -> TG0008 at "onoff" -> traffic[1].kind
rate = "64 kbit/s" -> rate = "0 kbit/s" -> TG0022 at "0 kbit/s" -> traffic[1].rate
off = "2 s" -> off = "2 s"\npacket = "40 B" -> TG0057 at "40 B" -> traffic[1].packet
["20 ms", "160 B"] -> ["20 ms", "160 kB"] -> TG0057 at [[ -> traffic[2].trace
["20 ms", "160 B"] -> ["20 ms", "160 B"], ["1 ms", "99 B"] -> TG0058 at [[ -> traffic[2].trace
["20 ms", "160 B"] -> ["20 ms"] -> TG0004 at ["20 ms"] -> traffic[2].trace[1]
trace = [["0 s", "160 B"], ["20 ms", "160 B"]] -> trace = "bad.csv" -> TG0058 at "bad.csv" -> traffic[2].trace
of = "files" ->  -> TG0003 at [[traffic]] -> traffic[3]
of = "files" -> of = "file" -> TG0063 at "file" -> traffic[3].of
of = "files" -> of = "noise" -> TG0063 at "noise" -> traffic[3].of
of = "files" -> of = "onward" -> TG0063 at "onward" -> traffic[3].of
from = ["b", "b"] -> from = ["b", "c"] -> TG0063 at ["b" -> traffic[3].from
buffer = "64 KiB" ->  -> TG0003 at [[traffic]] -> traffic[3]
buffer = "64 KiB" -> buffer = "0 B" -> TG0063 at "0 B" -> traffic[3].buffer
buffer = "64 KiB" -> buffer = "1 B"\nflows = 2 -> TG0063 at 2 -> traffic[3].flows
buffer = "64 KiB" -> buffer = "1 B"\nstop = "2 s" -> TG0063 at "2 s" -> traffic[3].stop
buffer = "64 KiB" -> buffer = "1 B"\nsize = "2 B" -> TG0055 at "2 B" -> traffic[3].size
buffer = "64 KiB" -> buffer = "1 B"\nprotocol = "udp" -> TG0055 at "udp" -> traffic[3].protocol
traffic = "files" -> traffic = "file" -> TG0059 at "file" -> probe[0].traffic
traffic = "files" -> traffic = "noise" -> TG0059 at "noise" -> probe[0].traffic
flows = [0, 1] -> flows = [2] -> TG0059 at [2] -> probe[0].flows
kind = "capture"\nfrom = "r" -> kind = "capture"\nfrom = "a" -> TG0059 at "a" -> probe[1].from
gateway = "g"\ndirection = "up" -> gateway = "r"\ndirection = "up" -> TG0059 at "r" -> probe[2].gateway
gateway = "g"\ndirection = "up" -> gateway = "g" -> TG0003 at [[probe]] -> probe[2]
direction = "up"\nbound -> direction = "north"\nbound -> TG0008 at "north" -> probe[2].direction
bound = "10 ms" -> bound = "10 ms"\ntraffic = "files" -> TG0055 at "files" -> probe[2].traffic
at = "3 s" -> at = "10 s" -> TG0052 at "10 s" -> change[0].at
at = "3 s" ->  -> TG0003 at [[change]] -> change[0]
at = "3 s"\nfrom = "a" -> at = "3 s"\nfrom = "b" -> TG0070 at "b" -> change[0].from
at = "3 s"\nfrom = "a" -> at = "3 s"\nfrom = "x" -> TG0044 at "x" -> change[0].from
delay = "7 ms" ->  -> TG0070 at "a" -> change[0].from
delay = "7 ms" -> rate = "0 bit/s" -> TG0022 at "0 bit/s" -> change[0].rate
delay = "7 ms" -> delay = "40000000 s" -> TG0060 at "40000000 s" -> change[0].delay
"#;

/// An invalid value causes a single finding. The reader does not also report the field as missing,
/// nor errors that follow from the missing value.
#[test]
fn a_mistake_is_reported_once() {
    for (from, to) in [
        ("size = \"20 kB\"", "size = \"20\""),
        ("off = \"2 s\"", "off = \"-2 s\""),
        ("trace = [[\"0 s\"", "trace = [[\"-1 s\""),
        ("rate = \"64 kbit/s\"", "rate = \"64\""),
        ("rate = \"1 Mbit/s\"", "rate = \"1\"\nqueue = { kind = \"codel\" }"),
        ("[[traffic]]", "[[link]]\nfrom = \"r\"\nto = \"r\"\n[[traffic]]"),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let (_, found) = read(&SMALL.replacen(from, to, 1));
        assert_eq!(found.iter().count(), 1, "{to}\n{}", found.render(false));
    }
}

/// Catches: a scenario that is returned although the file has an error.
#[test]
fn each_mistake_is_reported_at_its_position() {
    for line in MISTAKES.lines().filter(|line| !line.is_empty()) {
        let line = line.replace("\\n", "\n");
        let parts: Vec<_> = line.split("->").map(str::trim).collect();
        let [from, to, said, field] = parts.as_slice() else { panic!("{line}") };
        let (code, marked) = said.split_once(" at").unwrap();
        let at = SMALL.find(from).unwrap_or_else(|| panic!("{line}"));
        let text = format!("{}{to}{}", &SMALL[..at], &SMALL[at + from.len()..]);
        let (scenario, found) = read(&text);
        let hit = found.data().into_iter().map(|it| serde_json::to_value(it).unwrap()).any(|it| {
            let source = it["source"].as_str().unwrap();
            it["code"] == code && source.starts_with(marked.trim()) && it["field"] == *field
        });
        assert!(hit, "{line}\n{}", found.render(false));
        assert_eq!(scenario.is_none(), found.has_errors());
    }
}

/// Valid scenario files: two examples, and `SMALL`.
fn valid() -> Vec<String> {
    vec![example("dumbbell.toml"), example("gateway.toml"), SMALL.to_owned()]
}

/// Parses `text` and renders all findings. Returns `true` if the result is a scenario or at least
/// one error, but not both.
fn survives(text: &str) -> bool {
    let (scenario, found) = read(text);
    let said = (found.render(false), serde_json::to_string(&found.data()));
    said.1.is_ok() && scenario.is_none() == found.has_errors()
}

proptest! {
    #[test]
    fn no_damage_to_a_file_makes_the_reader_panic(text in damaged(valid())) {
        prop_assert!(survives(&text));
    }
}
