//! Mechanisms (such as queue disciplines) that another crate adds: this test. Files name them like
//! the mechanisms of the core.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its file has failed")]

#[path = "added/fixture.rs"]
mod fixture;

use std::sync::Arc;

use fixture::Turns;
use tidegate_config::added::Mechanisms;
use tidegate_config::{Part, manual, policy_file};
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::packet::{FlowKey, Protocol};
use tidegate_core::parameters::Value;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::random::Random;
use tidegate_core::scheduler::{SchedulerSpec, Term};
use tidegate_core::tcp::congestion::{CongestionSpec, Counting};
use tidegate_core::{Machine, Packet, Time};
use tidegate_gateway::Gateway;
use tidegate_gateway::policy::{Action, PolicySet};
use tidegate_scenario::scenario;

/// One added mechanism of each kind.
fn mechanisms() -> Arc<Mechanisms> {
    let mut all = Mechanisms::default();
    all.queues.add("drop-head", "Full means that the oldest packet is dropped.", |config| {
        QdiscSpec::added("drop-head", config, |config: &fixture::Limits, _, _| {
            Box::new(fixture::DropHead::new(config))
        })
    });
    all.allocations.add("first-come", "One bucket; the first member is served.", |config| {
        AllocationSpec::added("first-come", config, |_: &fixture::Nothing, profile, now| {
            Box::new(fixture::FirstCome::new(profile, now))
        })
    });
    all.markings.add("above", "Arrivals above a backlog are marked.", |config| {
        MarkingSpec::added("above", config, |config: &fixture::Above, _| {
            Box::new(fixture::MarksAbove(config.backlog))
        })
    });
    all.schedulers.add("lowest-number", "The class with the lowest number sends.", |config| {
        SchedulerSpec::added("lowest-number", config, |_: &fixture::Nothing, _| {
            Box::new(fixture::LowestNumber::default())
        })
    });
    all.congestions.add("still", "A constant window.", |config| {
        CongestionSpec::added("still", config, |config: &fixture::Still, _| {
            Box::new(config.clone())
        })
    });
    Arc::new(all)
}

const POLICY: &str = r#"
[gateway]
lan = "lan"
wan = "wan"
rate = { up = "10 Mbit/s", down = "10 Mbit/s" }
queue = "drop-head"
scheduler = "lowest-number"

[[class]]
name = "office"
guarantee = "1 Mbit/s"
turn = 2
longest_pause = { up = "20 ms", down = "0.02 s" }

[[policy]]
name = "all"
match = { protocol = "tcp" }
action = "shape"
profile = { mean = "5 Mbit/s" }
queue = { kind = "drop-head", limit = "20 kB" }
allocation = "first-come"

[[policy]]
name = "marked"
match = { protocol = "udp" }
action = "shape"
profile = { mean = "5 Mbit/s" }
queue = "drop-tail"
marking = { kind = "above", backlog = "9 kB" }
"#;

/// Catches: a name that is refused because only the core's registries are searched; an added
/// mechanism that does not get its parameters.
#[test]
fn a_policy_file_names_the_mechanisms_of_another_crate() {
    let (config, found) = policy_file::parse_with("policy.toml", POLICY, mechanisms(), None);
    let config = config.unwrap_or_else(|| panic!("{}", found.render(false)));
    assert_eq!(config.gateway.queue.name(), "drop-head");
    assert_eq!(config.gateway.scheduler.name(), "lowest-number");
    let Action::Shape { conditioning, queue, .. } = &config.policies[0].action else { panic!() };
    assert_eq!(conditioning.allocation.name(), "first-come");
    let written = queue.written().unwrap().to_string();
    assert_eq!(written, "{ kind = \"drop-head\", limit = \"20 kB\" }");
    let mut line = queue.build(None, Random::new(1, 1));
    assert_eq!(
        fixture::fill(&mut *line),
        [13, 14],
        "20 kB hold the newest two of 15 packets of 10 kB"
    );
    let Action::Shape { queue, .. } = &config.policies[1].action else { panic!() };
    assert_eq!(queue.marking().unwrap().name(), "above");
}

/// Catches: a report that names only the core's own mechanisms.
#[test]
fn a_gateway_reports_the_mechanisms_of_another_crate_by_name() {
    let (config, _) = policy_file::parse_with("policy.toml", POLICY, mechanisms(), None);
    let config = config.unwrap();
    let policies = PolicySet::new(config.policies).unwrap().with_classes(config.classes);
    let mut gateway = Gateway::new(&config.gateway, policies, Time::ZERO);
    for protocol in [Protocol::TCP, Protocol::UDP] {
        let key = FlowKey { protocol, ..FlowKey::default() };
        let packet = Packet { key, len: 1_000, segments: 1, ..Packet::default() };
        let packet = gateway.pool().insert(packet).unwrap();
        gateway.handle_packet(Time::ZERO, Gateway::LAN, packet);
    }
    let report = gateway.report();
    let [all, marked] = &report.aggregates[..] else { panic!("two policies have packets") };
    assert_eq!(all.mechanisms.queue.as_deref(), Some("drop-head"));
    assert_eq!(all.mechanisms.allocation.as_deref(), Some("first-come"));
    assert_eq!(marked.mechanisms.marking.as_deref(), Some("above"));
    assert_eq!(report.link_mechanisms[0].scheduler.as_deref(), Some("lowest-number"));
    let office = &gateway.class("office")[0].mechanisms;
    let names = [&office.scheduler, &office.queue].map(|it| it.as_deref());
    assert_eq!(names, [Some("lowest-number"), Some("drop-head")]);
}

/// Catches: terms that only the core's schedulers can declare; values that do not reach the
/// scheduler, or not in their direction.
#[test]
fn a_scheduler_of_another_crate_declares_terms_of_its_classes() {
    let text = POLICY.replace("\"0.02 s\"", "\"30 ms\"");
    let (config, found) = policy_file::parse_with("policy.toml", &text, mechanisms(), None);
    let config = config.unwrap_or_else(|| panic!("{}", found.render(false)));
    let office = config.classes.classes().iter().find(|class| class.name == "office").unwrap();
    let terms = [Term::GUARANTEE, Turns::LONGEST_PAUSE, Turns::TURN];
    assert_eq!(office.written(), terms, "a change of the classes sees each term");
    let policies = PolicySet::new(config.policies).unwrap().with_classes(config.classes);
    let gateway = Gateway::new(&config.gateway, policies, Time::ZERO);
    for (class, pause) in gateway.class("office").iter().zip([0.02, 0.03]) {
        let promises = class.promises.iter().map(|it| (&*it.term, &*it.unit, it.promised, it.kept));
        let turn = ("turn", "", 2.0, Some(2.0));
        assert_eq!(promises.collect::<Vec<_>>(), [turn, ("longest_pause", "s", pause, None)]);
    }
}

/// Catches: a schema, a manual or a canonical text that knows only the core's mechanisms and terms.
#[test]
fn schema_manual_and_canonical_text_know_mechanisms_of_another_crate() {
    let added = mechanisms();
    let schema = policy_file::schema_with(&added);
    let class = &schema["properties"]["class"]["items"]["properties"];
    assert_eq!(class["turn"]["description"], "Classes with a lower number send first. Default: 0.");
    assert_eq!(class["turn"]["default"], 0);
    assert!(class["longest_pause"]["anyOf"][1]["properties"]["down"].is_object());
    let queue = class["queue"]["anyOf"].as_array().unwrap().last().unwrap();
    assert_eq!(queue["properties"]["limit"]["default"], "100 kB");
    assert!(policy_file::schema()["properties"]["class"]["items"]["properties"]["turn"].is_null());

    let page = manual::page(&added);
    for row in [
        "### `lowest-number`\n\nThe class with the lowest number sends.\n\n| term of a class |",
        "| `turn` | a whole number | Classes with a lower number send first. Default: 0. |",
        "| `longest_pause` | a time, or `{ up, down }` | Longest time",
        "### `drop-head`",
    ] {
        assert!(page.contains(row), "{row}\n{page}");
    }

    let part = |text: &str| [Part { origin: "policy.toml".to_owned(), text: text.to_owned() }];
    let canonical = |text: &str| {
        let text = policy_file::canonical_with(&part(text), &added);
        text.unwrap_or_else(|found| panic!("{}", found.render(false)))
    };
    let text = canonical(POLICY);
    for line in [
        "longest_pause = \"20000000 ns\"\n",
        "turn = 2\n",
        "queue = { kind = \"drop-head\", limit = \"20000 B\" }\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert_eq!(canonical(&text), text);
    let plain = POLICY.replace("kind = \"drop-head\", limit = \"20 kB\"", "kind = \"drop-head\"");
    assert!(canonical(&plain).contains("queue = \"drop-head\"\n"));
    assert!(policy_file::canonical(&part(POLICY)).is_err());
}

/// Catches: suggestions from the core's registries only; a range of an added parameter that is not
/// checked.
#[test]
fn mistakes_in_added_mechanisms_are_reported_like_others() {
    for (right, wrong, said) in [
        ("limit = \"20 kB\"", "limits = \"20 kB\"", "`limits` is not a parameter of `drop-head`"),
        ("limit = \"20 kB\"", "limit = \"0 B\"", "`limit` must be above zero"),
        ("\"first-come\"", "\"first-comes\"", "did you mean `first-come`?"),
        ("turn = 2", "turns = 2", "did you mean `turn`?"),
        ("turn = 2", "turn = -2", "-2 is out of range for `turn`"),
        ("turn = 2", "turn = \"2\"", "expected a whole number"),
        ("\"lowest-number\"", "\"jobs\"", "classes of the scheduler `jobs` have no `turn`"),
    ] {
        let text = POLICY.replace(right, wrong);
        let (config, found) = policy_file::parse_with("policy.toml", &text, mechanisms(), None);
        let found = found.render(false);
        assert!(config.is_none() && found.contains(said), "{wrong}: {found}");
    }
    let (config, _) = policy_file::parse("policy.toml", POLICY, None);
    assert!(config.is_none(), "without the fixture there are no such names");
}

#[test]
fn a_scenario_names_a_congestion_control_of_another_crate() {
    let text = r#"
[run]
duration = "1 s"
tcp = { congestion = { kind = "still", segments = 7 } }

[[host]]
name = "a"

[[host]]
name = "b"

[[link]]
from = "a"
to = "b"
rate = "10 Mbit/s"

[[traffic]]
name = "bulk"
kind = "greedy"
from = "a"
to = "b"
"#;
    let none = &mut |_: &str| Err(String::new());
    let (scenario, found) = scenario::parse_with("scenario.toml", text, none, mechanisms());
    let scenario = scenario.unwrap_or_else(|| panic!("{}", found.render(false)));
    let congestion = &scenario.run.tcp.congestion;
    assert_eq!(congestion.name(), "still");
    assert_eq!(fixture::window(&mut *congestion.build(Counting::Acks)), 7_000);
}
