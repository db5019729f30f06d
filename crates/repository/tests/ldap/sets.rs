//! Tests that sets of policies that are pushed to an LDAP directory come back unchanged.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tidegate_config::{Item, ItemKind};
use tidegate_repository::{Conformance, FaultKind, NodeReport, open};
use toml::{Table, Value};

use crate::server::{BASE, Server};
use crate::{order, parse, run, sorted};

const SET: &str = r#"
[[class]]
name = "voice"
roles = ["edge"]
guarantee = { up = "1 Mbit/s", down = "2 Mbit/s" }
priority = 7

[[trunk]]
name = "north"
local = "192.0.2.1"
peer = "198.51.100.1"
weight = "measured"
tcp = { profile = "rfc" }

[[policy]]
name = "web"
priority = 20
match = { src = "10.0.0.0/8", dst_port = [80, 443], protocol = "tcp", direction = "down", vlan = 7 }
profile = { mean = "10 Mbit/s", burst = "128 KiB" }
action = "shape"
queue = { kind = "red", ecn = false }
weights = [{ match = { src = "10.0.0.1" }, weight = 2 }]
roles = ["edge", "lab"]

[[policy]]
name = "bulk"
match = { dscp = "LE" }
profile = { mean = "1 Mbit/s" }
action = "police-mark"
mark = { in = "AF11", out = 0 }
mode = "observe"
"#;

#[test]
fn a_pushed_set_is_read_back_unchanged() {
    let Some(server) = Server::start() else { return };
    run(async {
        let repository = server.repository();
        let fault = repository.pull().await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Uncommitted, "{fault}");
        assert_eq!(repository.push(parse(SET)).await.unwrap(), "1");
        let snapshot = repository.pull().await.unwrap();
        assert_eq!(snapshot.revision, "1");
        assert_eq!(sorted(&snapshot), order(parse(SET)));
        let origin = format!("cn=web,ou=policies,{BASE}");
        assert!(snapshot.parts.iter().any(|part| part.origin == origin), "{snapshot:?}");
        // A standard filter can hold one port, but no list of ports and no VLAN. These values are
        // in our own attributes.
        let rule = server.read(&origin, "*");
        assert!(rule.contains("tgMatchDestinationPort: [80, 443]"), "{rule}");
        assert!(
            rule.contains("pcelsFilterDirection: 1") && rule.contains("pcimRulePriority: 20"),
            "{rule}"
        );
    });
}

/// Catches: unchanged entries that are written again; entries of removed policies that stay.
#[test]
fn a_push_writes_only_the_entries_that_differ() {
    let Some(server) = Server::start() else { return };
    run(async {
        let repository = server.repository();
        repository.push(parse(SET)).await.unwrap();
        let number = |name: &str| server.read(&format!("cn={name},ou=policies,{BASE}"), "entryCSN");
        let before = (number("web"), number("bulk"));
        let next =
            SET.replace("observe", "enforce").replace("name = \"north\"", "name = \"south\"");
        assert_eq!(repository.push(parse(&next)).await.unwrap(), "2");
        assert_eq!(number("web"), before.0);
        assert_ne!(number("bulk"), before.1);
        assert_eq!(sorted(&repository.pull().await.unwrap()), order(parse(&next)));
        assert!(server.read(&format!("cn=north,ou=trunks,{BASE}"), "cn").is_empty());
        repository.push(Vec::new()).await.unwrap();
        assert!(repository.pull().await.unwrap().parts.is_empty());
    });
}

#[test]
fn a_thousand_policies_come_back() {
    let Some(server) = Server::start() else { return };
    let set: String = (0..1_000)
        .map(|number| format!("[[policy]]\nname = \"p{number}\"\nmatch = {{ src = \"10.0.{}.{}\" }}\naction = \"pass\"\n", number / 250, number % 250))
        .collect();
    run(async {
        let repository = server.repository();
        repository.push(parse(&set)).await.unwrap();
        assert_eq!(sorted(&repository.pull().await.unwrap()), order(parse(&set)));
        let mut spec = server.spec();
        spec.max_policies = 999;
        let fault = open(&spec).unwrap().pull().await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::TooLarge, "{fault}");
        spec.max_policies = 1_000;
        spec.max_size = tidegate_core::Bytes(100_000);
        let fault = open(&spec).unwrap().pull().await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::TooLarge, "{fault}");
    });
}

#[test]
fn a_report_is_an_entry_of_its_gateway() {
    let Some(server) = Server::start() else { return };
    run(async {
        let repository = server.repository();
        repository.push(parse(SET)).await.unwrap();
        let mut report = NodeReport {
            node: "gateway-1".to_owned(),
            revision: Some("1".to_owned()),
            generation: 5,
            since_s: 1_700_000_000,
            error: Some("no class `gold`".to_owned()),
            flows_on_it: 0.5,
            policies: BTreeMap::from([(
                "web".to_owned(),
                Conformance { up: Some(0.25), down: None },
            )]),
        };
        repository.report(&report).await.unwrap();
        let dn = format!("cn=gateway-1,ou=status,{BASE}");
        let entry = server.read(&dn, "*");
        assert!(entry.contains("tgReportError: no class `gold`"), "{entry}");
        report.error = None;
        repository.report(&report).await.unwrap();
        let entry = server.read(&dn, "*");
        assert!(
            !entry.contains("tgReportError") && entry.contains("tgReportGeneration: 5"),
            "{entry}"
        );
        let json = server
            .read(&dn, "tgReport")
            .lines()
            .find_map(|line| line.strip_prefix("tgReport: ").map(str::to_owned));
        assert_eq!(serde_json::from_str::<NodeReport>(&json.unwrap()).unwrap(), report);
        // A report is an entry newer than the marker, but must not make the set uncommitted.
        assert_eq!(sorted(&repository.pull().await.unwrap()), order(parse(SET)));
    });
}

fn values() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-z0-9 ./-]{0,12}",
        "\\PC{1,8}",
        Just("10.1.0.0/16".to_owned()),
        Just("tcp".to_owned()),
        Just("EF".to_owned()),
        Just("{ x = 1 }".to_owned())
    ];
    let leaf = prop_oneof![
        text.prop_map(Value::String),
        any::<i32>().prop_map(|it| Value::Integer(it.into())),
        any::<bool>().prop_map(Value::Boolean)
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..3)
                .prop_map(|map| Value::Table(map.into_iter().collect())),
        ]
    })
}

/// An item with arbitrary values in its fields. Mode and priority have standard attributes.
fn item() -> impl Strategy<Value = Item> {
    let fields: [(ItemKind, &[&str]); 3] = [
        (
            ItemKind::Policy,
            &[
                "match",
                "action",
                "profile",
                "mark",
                "queue",
                "weights",
                "class",
                "ack_control",
                "roles",
            ],
        ),
        (ItemKind::Class, &["parent", "guarantee", "weight", "priority", "queue", "delay_bound"]),
        (ItemKind::Trunk, &["local", "peer", "tcp", "weight", "mtu", "key_file"]),
    ];
    (
        prop::sample::select(fields.to_vec()),
        "[a-z][a-z0-9._-]{0,10}",
        prop::collection::vec(values(), 9),
    )
        .prop_map(|((kind, names), name, values)| {
            let fields: Table = names.iter().map(|name| (*name).to_owned()).zip(values).collect();
            Item { kind, name, fields }
        })
}

/// Draws `count` random values, the same in each run.
fn draw<T: Strategy>(strategy: &T, count: usize) -> Vec<T::Value> {
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// Catches: two fields stored in the same attribute; an attribute of the earlier set that stays
/// after a push.
#[test]
fn any_set_replaces_the_previous_set_and_comes_back_unchanged() {
    let Some(server) = Server::start() else { return };
    run(async {
        let repository = server.repository();
        for set in draw(&prop::collection::vec(item(), 0..12), 12) {
            let mut set = order(set);
            set.dedup_by(|one, other| (one.kind, &one.name) == (other.kind, &other.name));
            repository.push(set.clone()).await.unwrap();
            assert_eq!(sorted(&repository.pull().await.unwrap()), set);
        }
    });
}
