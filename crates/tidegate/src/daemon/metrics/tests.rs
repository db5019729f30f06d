//! Tests the metrics: their format, their names, and their list in the manual.

use std::collections::HashSet;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use super::*;
use crate::api::{Bypassed, ClassDelays, Marking, PortCount, Ports, Promise};

fn marking() -> Marking {
    Marking {
        marked_packets: 5,
        not_ect_packets: 6,
        unmarkable_packets: 7,
        tracked_flows: 8,
        all_bytes: 9_000,
        tracked_bytes: 8_000,
        rho: 1.125,
        threshold_bytes: 12_500,
        false_positives: 2,
    }
}

fn status() -> Status {
    let count = Count { packets: 3, bytes: 4_500 };
    let port = Some(PortCount { ring_overflows: 1, send_errors: 2, ..PortCount::default() });
    let [idle, told, silent, no_socket] =
        [7, 5, 0, 1].map(|packets| Count { packets, bytes: 60 * packets });
    let bypassed = Some(Bypassed { idle, told, silent, no_socket });
    let [received, transmitted, waiting] = [count; 3];
    let control = Some(Control { sent: count, waiting: count, ..Control::default() });
    let marking = Some(marking());
    let direction =
        LinkDirection { received, transmitted, waiting, marking, control, port, bypassed };
    let drops = BTreeMap::from([("queue-full".to_owned(), 7)]);
    let marks = BTreeMap::from([("aqm".to_owned(), 8)]);
    let counts = Counts {
        held: 40,
        peak_held: 90,
        packets: 2,
        delayed: 5_000,
        held_ns: 198_400_000_000,
        absorbed: 38,
        made: 36,
        split: 7,
        overdue: 1,
        windows: 3,
        ..Counts::default()
    };
    let control = AckControl {
        kind: "postack".to_owned(),
        mean_hold_us: 40_000,
        unresponsive: 1,
        uncontrolled: 0,
        counts,
    };
    let aggregate = |direction: &str| Aggregate {
        policy: "web \"2\"".to_owned(),
        direction: direction.to_owned(),
        mean_bps: Some(1_000_000),
        flows: 2,
        offered: count,
        conforming: count,
        exceeding: count,
        waiting: count,
        peak_waiting_bytes: 9_000,
        mean_wait_us: 1,
        waited_ns: 1_500_000_000,
        late: 3,
        drops: drops.clone(),
        marks: marks.clone(),
        marking,
        triggers: BTreeMap::new(),
        ack_control: Some(control.clone()),
        signal: Some(control.clone()),
    };
    let ports = Ports { lan: "eth1".to_owned(), wan: "eth0".to_owned(), ..Ports::default() };
    Status {
        version: "0.1.0".to_owned(),
        uptime_ms: 1_500,
        file: "office.toml".to_owned(),
        started_file: "office.toml".to_owned(),
        idle_policies: Vec::new(),
        ports,
        generation: 2,
        unconfirmed_ms: None,
        passing: false,
        alarms: Vec::new(),
        up: direction,
        down: direction,
        held: 3,
        drops: drops.clone(),
        redundant_acks: 9,
        marks: marks.clone(),
        flows: 4,
        untracked: 0,
        fragments_without_first: 0,
        hangs: 0,
        occupied_us: 250,
        aggregates: vec![aggregate("up"), aggregate("down")],
    }
}

fn classes() -> Vec<Class> {
    let count = Count { packets: 3, bytes: 4_500 };
    let class = |direction: &str| Class {
        name: "office".to_owned(),
        parent: None,
        direction: direction.to_owned(),
        guarantee_bps: 8_000_000,
        ceiling_bps: Some(9_000_000),
        weight: 1,
        priority: 0,
        burst_bytes: 3_076,
        delay_bound_us: Some(20_000),
        sent: count,
        borrowed_bytes: 1_500,
        waiting: count,
        dropped_packets: 2,
        marking: Some(marking()),
        delays: Some(ClassDelays { packets: 3, total_us: 9_000, longest_us: 4_000 }),
        promises: vec![Promise {
            term: "delay_ratio".to_owned(),
            of: Some("guests".to_owned()),
            unit: String::new(),
            promised: 0.5,
            kept: Some(0.45),
            violations: 1,
            relaxed: 2,
        }],
    };
    vec![class("up"), class("down")]
}

fn page_of_a_test() -> String {
    let source = Source {
        name: "central".to_owned(),
        kind: "etcd".to_owned(),
        state: "unreachable".to_owned(),
        revision: Some("7".to_owned()),
        newest: Some("7".to_owned()),
        delivered_s: Some(600),
        failing_s: Some(60),
        error: Some("no answer".to_owned()),
        help: Some("look whether the server runs".to_owned()),
    };
    page(&status(), &classes(), &trunks_of_a_test(), &[source])
}

fn trunks_of_a_test() -> Vec<Trunk> {
    let end = OtherEnd {
        difference: None,
        state: "up".to_owned(),
        heard_ms: Some(400),
        sessions: 1,
        next_hop: None,
        hellos: 4,
        segments: 5,
        refused: BTreeMap::from([("forged".to_owned(), 3)]),
    };
    vec![Trunk {
        name: "branch".to_owned(),
        local: "192.0.2.1".to_owned(),
        peer: "192.0.2.9".to_owned(),
        other_end: Some(end),
        encapsulation: Some(crate::api::Encapsulation {
            path_mtu_bytes: 1_400,
            sent_packets: 900,
            received_packets: 800,
            fragments: 2,
            too_big_packets: 3,
            told_senders: 3,
            ignored_reports: 1,
        }),
        rate_bps: 8_000_000,
        window_packets: 40,
        rtt_us: Some(20_500),
        credit_bytes: -300,
        management_packets: 1_000,
        lost_packets: 7,
        missing_bytes: Some(3_000),
        elastic_bytes: 1_500_000,
        guaranteed_bytes: 400_000,
        past_bytes: 0,
        waiting: Count { packets: 3, bytes: 4_500 },
        connections: 16,
        active: 6,
        weight: Some(crate::api::TrunkWeight {
            weight: 6.2,
            kind: "measured".to_owned(),
            busy: Some(0.97),
            offered_bps: Some(9_000_000),
            service_bps: Some(8_000_000),
            increased: 4,
            decreased: 1,
            held: 7,
            abandoned: 0,
        }),
        silent: 0,
    }]
}

/// Returns the faults that `promtool check metrics` would report too.
///
/// The rules are those of the page "Metric and label naming" of Prometheus, and of promtool.
fn lint(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut kinds, mut seen) = (BTreeMap::new(), HashSet::new());
    let mut helped = HashSet::new();
    for line in page.lines() {
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("#"), Some("HELP")) => drop(helped.insert(words.next().unwrap())),
            (Some("#"), Some("TYPE")) => {
                let name = words.next().unwrap();
                if kinds.insert(name, words.next().unwrap()).is_some() {
                    wrong.push(format!("{name} is declared twice"));
                }
            }
            _ => {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap();
                if !seen.insert(series) {
                    wrong.push(format!("{series} twice"));
                }
                if value.parse::<f64>().is_err() || !helped.contains(name) {
                    wrong.push(format!("{line}: no number, or no help"));
                }
                let total = name.ends_with("_total");
                if total != (kinds.get(name) == Some(&"counter")) {
                    wrong.push(format!("{name}: _total is for counters"));
                }
                if !name.starts_with("tidegate_") || name.contains("_ms") {
                    wrong.push(format!("{name}: prefix or unit"));
                }
            }
        }
    }
    wrong
}

#[test]
fn metrics_pass_our_own_lint() {
    let page = page_of_a_test();
    assert_eq!(lint(&page), [""; 0], "{page}");
    let of_aggregate = crate::aggregate::metrics_of_a_test();
    assert_eq!(lint(&of_aggregate), [""; 0], "{of_aggregate}");
    assert!(page.contains("tidegate_policy_wait_seconds_total{policy=\"web \\\"2\\\"\""));
    assert!(page.contains("tidegate_dropped_packets_total{reason=\"queue-full\"} 7\n"));
    assert!(page.contains("tidegate_marked_packets_total{reason=\"aqm\"} 8\n"));
    let in_force = "tidegate_source_in_force{source=\"central\",kind=\"etcd\"} 0\n";
    assert!(page.contains(in_force), "{page}");
}

/// The manual's page that lists the metrics in `page` and those of an aggregate gateway.
fn manual(page: &str) -> String {
    let mut text = String::from(include_str!("../metrics.md"));
    text += &table(page);
    text += include_str!("aggregate.md");
    text + &table(&crate::aggregate::metrics_of_a_test())
}

fn table(page: &str) -> String {
    let mut text = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(help) = line.strip_prefix("# HELP ") else { continue };
        let (name, help) = help.split_once(' ').unwrap();
        let kind = lines.next().unwrap().rsplit_once(' ').unwrap().1;
        let sample = lines.peek().unwrap();
        let labels = sample.split_once('{').map_or("", |it| it.1.split_once('}').unwrap().0);
        let names: Vec<_> =
            labels.split(',').filter_map(|it| Some(it.split_once('=')?.0)).collect();
        text += &format!("| `{name}` | {kind} | {} | {help} |\n", names.join(", "));
    }
    text
}

#[test]
fn the_manual_lists_every_metric_with_its_labels() {
    crate::committed::holds("docs/operate/metrics.md", &manual(&page_of_a_test()));
}

#[test]
fn our_lint_sees_what_is_wrong() {
    let head = "# HELP tidegate_a x\n# TYPE tidegate_a counter\n";
    assert!(!lint(&format!("{head}tidegate_a 1\n")).is_empty());
    assert!(!lint("tidegate_b 1\n").is_empty());
    let gauge = head.replace("counter", "gauge");
    assert!(!lint(&format!("{gauge}tidegate_a 1\ntidegate_a 2\n")).is_empty());
    assert!(lint(&format!("{gauge}tidegate_a 1\n")).is_empty());
}

#[test]
fn metrics_pass_promtool_where_it_is_installed() {
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match promtool {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: no promtool here (Debian package prometheus); our lint ran");
            return;
        }
        promtool => promtool.unwrap(),
    };
    promtool.stdin.take().unwrap().write_all(page_of_a_test().as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
