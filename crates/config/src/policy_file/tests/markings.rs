//! Tests of markings (which mark packets before a queue overflows), and of findings about markings
//! that cannot work.

use super::{PORTS, messages, parse, parsed};
use tidegate_core::marking::MarkingSpec;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_gateway::policy::Action;

/// The name of a queue, and the name of its marking.
fn names(queue: &QdiscSpec) -> (&'static str, Option<&'static str>) {
    (queue.name(), queue.marking().map(MarkingSpec::name))
}

/// Catches: "fq-codel" as the default queue beside a marking; a class without a queue that lacks
/// the gateway's marking; a class with its own queue that inherits the gateway's marking.
#[test]
fn the_default_queue_with_a_marking_is_per_flow() {
    let config = parsed(&format!(
        "{PORTS}rate = {{ up = \"9 Mbit/s\" }}\nmarking = \"reference\"\n\
         [[class]]\nname = \"a\"\n\
         [[class]]\nname = \"b\"\nqueue = \"drop-tail\"\n\
         [[class]]\nname = \"c\"\nqueue = \"drop-tail\"\nmarking = \"reference\"\n\
         [[policy]]\nname = \"p\"\naction = \"shape\"\nprofile = {{ mean = \"8 Mbit/s\" }}\n\
         marking = {{ kind = \"reference\", tracker = \"paper\", k = 30, a = 0.7, interval = \"100 ms\" }}\n"
    ));
    let Action::Shape { queue, .. } = &config.policies[0].action else { panic!("shape") };
    let reference = Some("reference");
    assert_eq!(names(&config.gateway.queue), ("per-flow", reference));
    assert_eq!(names(queue), ("per-flow", reference));
    let of_classes: Vec<_> = config.classes.classes().iter().map(|it| names(&it.queue)).collect();
    assert_eq!(
        of_classes,
        [("per-flow", reference), ("drop-tail", None), ("drop-tail", reference)]
    );
}

/// Catches: a parameter that is accepted although it is zero or out of its range.
#[test]
fn invalid_parameters_of_trackers_are_refused_by_name() {
    for (parameter, field) in [
        ("k = 0", "`k`"),
        ("a = 1.5", "`a`"),
        ("a = -0.1", "a number from 0"),
        ("interval = \"0 s\"", "`interval`"),
        ("rounds = 0", "`rounds`"),
        ("tracker = { kind = \"paper\", k = 0 }", "`k`"),
    ] {
        let marking = format!("marking = {{ kind = \"reference\", {parameter} }}");
        let text = format!("{PORTS}rate = {{ up = \"9 Mbit/s\" }}\n{marking}\n");
        let (config, found) = parse("test.toml", &text, None);
        let found = found.render(false);
        assert!(config.is_none() && found.contains("TG0030"), "{parameter}: {found}");
        assert!(found.contains(field) && found.contains("test.toml:5"), "{parameter}: {found}");
    }
}

messages! {
    a_queue_that_marks_by_itself_takes_no_marking: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = "10 Mbit/s", down = "50 Mbit/s" }
queue = "pie"
marking = "reference"
"# => r#"
error[TG0040]: `pie` decides itself which packets are marked or dropped
 --> office.toml:6:11
  |
5 | queue = "pie"
  |         ----- the queue
6 | marking = "reference"
  |           ^^^^^^^^^^^
  |
  = help: write queue = "per-flow" or "drop-tail", or leave out `marking`"#;
    a_link_without_a_rate_has_no_marking: r#"[gateway]
lan = "eth1"
wan = "eth0"
marking = "reference"
"# => r#"
error[TG0040]: packets wait only at a link with a rate, and this link has none
 --> office.toml:4:11
  |
4 | marking = "reference"
  |           ^^^^^^^^^^^
  |
  = help: give the link its rate: rate = { up = "38 Mbit/s", down = "475 Mbit/s" }"#;
    a_policy_with_a_trunk_has_no_marking: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[trunk]]
name = "site"
local = "192.0.2.1"
peer = "192.0.2.2"
[[policy]]
name = "all"
action = "shape"
profile = { mean = "8 Mbit/s" }
marking = "reference"
trunk = "site"
"# => r#"
error[TG0040]: packets of a trunk wait for its credit, which no marking can predict
  --> office.toml:12:11
   |
12 | marking = "reference"
   |           ^^^^^^^^^^^
13 | trunk = "site"
   |         ------ the trunk
   |
   = help: leave out `marking`, or leave out `trunk`"#;
    only_packets_that_wait_are_marked: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "all"
action = "police-drop"
profile = { mean = "8 Mbit/s" }
marking = "reference"
"# => r#"
error[TG0027]: `marking` has no meaning with this action
 --> office.toml:8:11
  |
6 | action = "police-drop"
  |          ------------- the action
7 | profile = { mean = "8 Mbit/s" }
8 | marking = "reference"
  |           ^^^^^^^^^^^
  |
  = help: leave the field out, or choose the action that uses it"#;
}
