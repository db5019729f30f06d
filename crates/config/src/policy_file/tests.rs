//! Tests of policy files, valid and invalid: their configurations and findings.

mod canonical;
mod classes;
mod fields;
mod guarantees;
mod markings;
mod parts;
mod trunks;
mod values;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::json;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Rate};
use tidegate_gateway::policy::{Action, Exceed};

use super::*;
use crate::Code;
use crate::host::{Host, Interface};
use crate::testing::damaged;

/// Declares tests that compare the complete rendered findings about a file.
macro_rules! messages {
    ($($name:ident: $text:literal => $expected:literal;)+) => {
        $(#[test]
        fn $name() {
            let (config, found) = crate::policy_file::parse("office.toml", $text, None);
            assert_eq!(format!("\n{}", found.render(false)), $expected);
            assert_eq!(config.is_none(), found.has_errors());
        })+
    };
}
use messages;

const PORTS: &str = "[gateway]\nlan = \"eth1\"\nwan = \"eth0\"\n";

fn parsed(text: &str) -> Config {
    let (config, found) = parse("test.toml", text, None);
    config.unwrap_or_else(|| panic!("{}", found.render(false)))
}

/// The name and the text of each file in `examples`.
fn examples() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let policies = files.filter(|path| path.extension().is_some_and(|it| it == "toml"));
    let read = |path: std::path::PathBuf| {
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
    };
    policies.map(read).collect()
}

#[test]
fn every_example_is_accepted_without_a_finding() {
    let examples = examples();
    let names: Vec<_> = examples.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["table1", "office", "isp", "campus"] {
        assert!(names.contains(&name), "{name} is gone");
    }
    for (name, text) in examples {
        let (config, found) = parse(&name, &text, None);
        assert!(config.is_some() && found.iter().next().is_none(), "{}", found.render(false));
    }
}

/// The profiles of `examples/table1.toml` are those of the paper `aggregates`, table 1.
#[test]
fn table_1_has_the_profiles_of_the_paper() {
    let (_, text) = examples().into_iter().find(|(name, _)| name == "table1").unwrap();
    let config = parsed(&text);
    let profile = |action: &Action| match action {
        Action::Shape { conditioning, .. } | Action::Police { conditioning, .. } => {
            conditioning.profile.to_string()
        }
        Action::Pass => String::new(),
    };
    let rows: Vec<_> = config.policies.iter().map(|it| profile(&it.action)).collect();
    assert_eq!(
        rows,
        [
            "mean 100 kbit/s, peak 100 kbit/s, burst 10 kB",
            "mean 1 Mbit/s, peak 2 Mbit/s, burst 20 kB",
            "mean 100 kbit/s, peak 300 kbit/s, burst 30 kB",
        ]
    );
    let Action::Police { exceed, .. } = &config.policies[0].action else { panic!("row 1 polices") };
    assert_eq!(*exceed, Exceed::Mark { in_profile: Some(10), out_of_profile: 0 });
}

#[test]
fn defaults_equal_those_of_the_schema() {
    let config = parsed(&format!(
        "{PORTS}[[policy]]\nname = \"web\"\naction = \"shape\"\nprofile = {{ mean = \"8 Mbit/s\" }}\n"
    ));
    let gateway = &config.gateway;
    assert_eq!((gateway.packets, gateway.flows), (16_384, 131_072));
    assert_eq!((gateway.rate, gateway.overhead), ([None, None], Default::default()));
    assert_eq!(config.heartbeat, Duration::from_millis(50));
    let Action::Shape { conditioning, queue, ack_control: None } = &config.policies[0].action
    else {
        panic!("shape")
    };
    assert_eq!((conditioning.allocation.name(), queue.name()), ("logical-partitions", "fq-codel"));
    assert_eq!(gateway.queue.name(), "hosts");
    assert_eq!(conditioning.profile.burst(), Bytes(100_000)); // 8 Mbit/s for 100 ms
    assert_eq!(conditioning.profile.mean(), Rate::from_mbps(8));
}

fn host(mtu: u64) -> Host {
    let interface = |name: &str| Interface {
        name: name.to_owned(),
        mtu: Some(mtu),
        is_up: Some(true),
        is_device: true,
        has_default_route: false,
    };
    Host { interfaces: vec![interface("eth0"), interface("eth1")] }
}

#[test]
fn ports_with_different_mtus_are_refused() {
    let mut host = host(1_500);
    assert!(parse("office.toml", PORTS, Some(&host)).0.is_some());
    host.interfaces[0].mtu = Some(1_400);
    let (config, found) = parse("office.toml", PORTS, Some(&host));
    assert!(config.is_none());
    let said = found.render(false);
    assert!(said.contains("error[TG0108]: `eth1` has an MTU of 1500, `eth0` of 1400"), "{said}");
    assert!(said.contains("`ip link set eth1 mtu 1400` makes them equal"), "{said}");
}

#[test]
fn the_message_about_a_missing_interface_lists_the_existing_ones() {
    let text = PORTS.replace("eth1", "etth1");
    let (config, found) = parse("office.toml", &text, Some(&host(1_500)));
    assert!(config.is_none());
    assert_eq!(
        found.render(false),
        "error[TG0102]: this host has no interface `etth1`
 --> office.toml:2:7
  |
2 | lan = \"etth1\"
  |       ^^^^^^^
  |
  = help: did you mean `eth1`? there are: eth0, eth1"
    );
}

/// Catches: an MTU of 1500 bytes assumed on every host.
#[test]
fn a_burst_must_hold_the_mtu_of_the_host_and_the_overhead_of_the_link() {
    let text = format!(
        "{PORTS}overhead = \"docsis\"\n[[policy]]\nname = \"web\"\naction = \"shape\"\n\
         profile = {{ mean = \"5 Mbit/s\", burst = \"9 kB\" }}\n"
    );
    assert!(parse("office.toml", &text, Some(&host(1_500))).0.is_some());
    let (config, found) = parse("office.toml", &text, Some(&host(9_000)));
    let found: Vec<_> = found.iter().map(|it| (it.code, it.help.clone())).collect();
    assert!(config.is_none());
    // 9,000 bytes of IP and 18 of DOCSIS.
    assert_eq!(found, [(Code::BurstBelowPacket, "make it at least 9018 B".to_owned())]);
}

/// Catches: a missing warning; a warning about the default burst, or about policers; a smallest
/// permitted burst that ignores the tokens of the interval.
#[test]
fn a_burst_that_loses_tokens_in_a_timer_interval_causes_a_warning() {
    let warnings = |action: &str, profile: &str| {
        let text = format!(
            "{PORTS}[[policy]]\nname = \"web\"\naction = \"{action}\"\nprofile = {{ {profile} }}\n"
        );
        let (config, found) = parse("office.toml", &text, None);
        assert!(config.is_some(), "{}", found.render(false));
        found.iter().map(|it| (it.code, it.help.clone())).collect::<Vec<_>>()
    };
    // A frame of 1,500 bytes of IP with its Ethernet header, plus 300 Mbit/s for 100 us.
    let fast = "mean = \"300 Mbit/s\"";
    let help = "make it at least 5264 B: a full-size packet, and the mean of 100µs".to_owned();
    assert_eq!(
        warnings("shape", &format!("{fast}, burst = \"5263 B\"")),
        [(Code::BurstBelowMean, help)]
    );
    for (action, profile) in [
        ("shape", format!("{fast}, burst = \"5264 B\"")),
        ("shape", fast.to_owned()),
        ("shape", "mean = \"1 Mbit/s\", burst = \"1600 B\"".to_owned()),
        ("police-drop", format!("{fast}, burst = \"1600 B\"")),
    ] {
        assert_eq!(warnings(action, &profile), [], "{action}, {profile}");
    }
}

/// Catches: a missing warning; a warning although the other direction has the rate; a warning for a
/// rate equal to the link's.
#[test]
fn a_rate_above_that_of_the_link_causes_a_warning() {
    let warnings = |text: &str| {
        let text = format!("{PORTS}rate = {{ up = \"10 Mbit/s\", down = \"50 Mbit/s\" }}\n{text}");
        let (config, found) = parse("office.toml", &text, None);
        assert!(config.is_some(), "{}", found.render(false));
        found.iter().map(|it| it.code).collect::<Vec<_>>()
    };
    let policy = |direction: &str, mean: &str| {
        let matching = if direction.is_empty() {
            String::new()
        } else {
            format!("match = {{ direction = \"{direction}\" }}\n")
        };
        format!(
            "[[policy]]\nname = \"web\"\naction = \"shape\"\n{matching}profile = {{ mean = \"{mean}\" }}\n"
        )
    };
    assert_eq!(warnings(&policy("up", "11 Mbit/s")), [Code::AboveLink]);
    assert_eq!(warnings(&policy("down", "11 Mbit/s")), []);
    assert_eq!(warnings(&policy("", "50 Mbit/s")), []);
    assert_eq!(warnings(&policy("", "51 Mbit/s")), [Code::AboveLink]);
    let class = |ceiling: &str| format!("[[class]]\nname = \"web\"\nceiling = {ceiling}\n");
    assert_eq!(warnings(&class("{ up = \"11 Mbit/s\", down = \"50 Mbit/s\" }")), [Code::AboveLink]);
    assert_eq!(warnings(&class("\"10 Mbit/s\"")), []);
}

/// Catches: an error in place of the warning; an earlier name that is ignored, or reported without
/// the new name.
#[test]
fn a_field_under_its_earlier_name_is_read_with_a_warning() {
    let policy = |control: &str| {
        format!(
            "{PORTS}[[policy]]\nname = \"web\"\naction = \"shape\"\nprofile = {{ mean = \"5 Mbit/s\" }}\n{control}\n"
        )
    };
    let (earlier, found) = parse("office.toml", &policy("signal = \"tcr\""), None);
    assert!(
        found.render(false).starts_with("warning[TG0074]: `signal` is now called `ack_control`")
    );
    let (now, found) = parse("office.toml", &policy("ack_control = \"tcr\""), None);
    assert!(now.is_some() && found.iter().next().is_none(), "{}", found.render(false));
    assert_eq!(earlier, now);
}

/// Catches: a check of the host that compares only the names of interfaces.
#[test]
fn a_port_that_is_down_causes_a_warning() {
    let mut host = host(1_500);
    host.interfaces[0].is_up = Some(false);
    let (config, found) = parse("office.toml", PORTS, Some(&host));
    let found: Vec<_> = found.iter().map(|it| (it.code, it.help.as_str())).collect();
    assert!(config.is_some());
    assert_eq!(found, [(Code::PortDown, "`ip link set eth0 up`")]);
}

/// Catches: suggestions only for misspelt names, not for the names that tc or iptables use.
#[test]
fn names_of_other_programs_get_a_suggestion() {
    for (name, known) in [("proto", "protocol"), ("dport", "dst_port"), ("sport", "src_port")] {
        let text = format!(
            "{PORTS}[[policy]]\nname = \"web\"\naction = \"pass\"\nmatch = {{ {name} = 53 }}\n"
        );
        let (_, found) = parse("office.toml", &text, None);
        let help = found.iter().next().unwrap().help.clone();
        assert!(help.starts_with(&format!("did you mean `{known}`?")), "{name}: {help}");
    }
}

#[test]
fn findings_for_programs_have_line_and_column() {
    let text = format!("{PORTS}# höher\nheartbeet = \"50 ms\"\n");
    let (_, found) = parse("office.toml", &text, None);
    let data = serde_json::to_value(found.data()).unwrap();
    assert_eq!((&data[0]["line"], &data[0]["column"]), (&json!(5), &json!(1)));
    assert_eq!((&data[0]["code"], &data[0]["source"]), (&json!("TG0002"), &json!("heartbeet")));
    assert_eq!(data[0]["field"], json!("gateway.heartbeet"));
}

#[test]
fn the_schema_describes_every_field() {
    let schema = schema();
    let policy = &schema["properties"]["policy"]["items"];
    assert_eq!(policy["required"], json!(["name", "action"]));
    assert_eq!(policy["additionalProperties"], json!(false));
    for table in [&schema, policy, &schema["properties"]["gateway"]] {
        for (name, field) in table["properties"].as_object().unwrap() {
            assert!(field["description"].as_str().is_some_and(|it| it.ends_with('.')), "{name}");
        }
    }
}

/// Parses `text` and renders all findings. Returns `true` if the result is a configuration or at
/// least one error, but not both.
fn survives(text: &str) -> bool {
    let (config, found) = parse("fuzz.toml", text, None);
    let said = (found.render(false), found.render(true), serde_json::to_string(&found.data()));
    said.2.is_ok() && config.is_none() == found.has_errors()
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC*") {
        prop_assert!(survives(&text));
    }

    /// Catches: a configuration returned although the file has an error.
    #[test]
    fn no_damage_to_a_file_makes_the_parser_panic(text in damaged(examples().into_iter().map(|(_, text)| text).collect())) {
        prop_assert!(survives(&text));
    }
}

/// Catches: the default queue "hosts" for a policy, although its allocation selects the flow;
/// "fq-codel" or "hosts" with ACK control or a trunk; "per-flow" with `ack_control = "none"`; a
/// default queue although the file has a queue.
#[test]
fn the_default_queue_drops_early_only_without_ack_control_and_trunks() {
    const TRUNK: &str = "[[trunk]]\nname = \"site\"\nlocal = \"192.0.2.1\"\npeer = \"192.0.2.2\"\n";
    let queues = |gateway: &str, policy: &str, more: &str| {
        let shape = "action = \"shape\"\nprofile = { mean = \"8 Mbit/s\" }";
        let class = "[[class]]\nname = \"default\"\n";
        let config = parsed(&format!(
            "{PORTS}rate = {{ up = \"9 Mbit/s\" }}\n{gateway}\n{class}{more}[[policy]]\nname = \"all\"\n{shape}\n{policy}"
        ));
        let Action::Shape { queue, .. } = &config.policies[0].action else { panic!("shape") };
        let of_class = &config.classes.classes()[0].queue;
        [&config.gateway.queue, of_class, queue].map(QdiscSpec::name)
    };
    assert_eq!(queues("", "", ""), ["hosts", "hosts", "fq-codel"]);
    assert_eq!(queues("", "ack_control = \"none\"", ""), ["hosts", "hosts", "fq-codel"]);
    assert_eq!(queues("", "ack_control = \"postack\"", ""), ["per-flow"; 3]);
    assert_eq!(queues("", "trunk = \"site\"", TRUNK), ["per-flow"; 3]);
    assert_eq!(queues("", "", TRUNK), ["per-flow", "per-flow", "fq-codel"]);
    let written = queues("queue = \"codel\"", "queue = \"pie\"\nack_control = \"tcr\"", "");
    assert_eq!(written, ["codel", "codel", "pie"]);
}
