//! Tests the metrics: their format, their names, and their list in the manual.

use std::collections::{BTreeMap, HashSet};
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_core::ack::AckSpec;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::SchedulerSpec;

use super::*;
use crate::api::{Classes, Flows, Sources, Trunks};
use crate::commands;

/// The state of a gateway, as JSON of the control socket. Its numbers differ from each other.
const STATE: &str = include_str!("golden/state.json");

/// The parts of [`STATE`].
#[derive(Deserialize, Serialize)]
struct State {
    status: Status,
    classes: Classes,
    trunks: Trunks,
    flows: Flows,
    sources: Sources,
}

fn state() -> State {
    serde_json::from_str(STATE).unwrap()
}

fn page_of_a_test() -> String {
    let State { status, classes, trunks, sources, .. } = state();
    page(&status, &classes.classes, &trunks.trunks, &sources.sources)
}

/// Lists the values in `expected` that `written` lacks, or for which `written` has another value.
/// `written` may have more fields, so a new counter needs no line here.
fn missing(expected: &Value, written: &Value) -> Vec<String> {
    let nested = |found: Vec<String>, name: String| {
        found.into_iter().map(move |rest| format!("{name}.{rest}"))
    };
    match (expected, written) {
        (Value::Object(expected), Value::Object(written)) => expected
            .iter()
            .flat_map(|(name, value)| {
                let written = written.get(name).unwrap_or(&Value::Null);
                nested(missing(value, written), name.clone())
            })
            .collect(),
        (Value::Array(expected), Value::Array(written)) if expected.len() == written.len() => {
            let each = expected.iter().zip(written).enumerate();
            each.flat_map(|(at, (a, b))| nested(missing(a, b), at.to_string())).collect()
        }
        _ if expected == written => Vec::new(),
        _ => vec![format!("{expected} became {written}")],
    }
}

/// Catches: a field of the JSON that is lost, renamed or in another unit; a metric, a help text or
/// a column of a table that changes unnoticed.
#[test]
fn json_metrics_and_tables_of_a_state_are_those_committed() {
    let (state, folder) = (state(), "crates/tidegate/src/daemon/metrics/golden");
    let told: Value = serde_json::from_str(STATE).unwrap();
    assert_eq!(missing(&told, &serde_json::to_value(&state).unwrap()), [""; 0]);
    crate::committed::holds(&format!("{folder}/metrics.prom"), &page_of_a_test());
    let tables = [
        commands::status::show(&state.status),
        commands::status::show_flows(&state.flows.flows),
        commands::class::tables(&state.classes),
        commands::trunks::tables(&state.trunks),
    ];
    crate::committed::holds(&format!("{folder}/tables.txt"), &tables.join("\n"));
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
    let info = "tidegate_policy_info{policy=\"web \\\"2\\\"\",direction=\"up\",queue=\"drop-tail\",\
                allocation=\"drr\",marking=\"coverage\",ack_control=\"postack\"} 1\n";
    assert!(page.contains(info), "{page}");
    let in_force = "tidegate_source_in_force{source=\"central\",kind=\"etcd\"} 0\n";
    assert!(page.contains(in_force), "{page}");
}

/// Labels whose values are the names in a registry.
const LABELS: [(&str, &[&str]); 5] = [
    ("scheduler", SchedulerSpec::NAMES),
    ("queue", QdiscSpec::NAMES),
    ("allocation", AllocationSpec::NAMES),
    ("marking", MarkingSpec::NAMES),
    ("ack_control", AckSpec::NAMES),
];

/// The manual's page that lists the metrics in `page` and those of an aggregate gateway.
fn manual(page: &str) -> String {
    let mut text = String::from(include_str!("../metrics.md"));
    text += &table(page);
    text +=
        &LABELS.into_iter().fold(include_str!("labels.md").to_owned(), |text, (label, names)| {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            text.replace(&format!("{{{label}}}"), &names.join(", "))
        });
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
