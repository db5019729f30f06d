//! Tests of trunks (paths between two gateways), and of findings about trunks that cannot work.

use std::time::Duration;

use super::{PORTS, parse, parsed};
use crate::host::{Host, Interface};
use crate::policy_file::NextHop;
use tidegate_core::itcp::{LawKind, Most};
use tidegate_core::trunk::{ALPHA, Encapsulation, Fallback, Probing, Wire};
use tidegate_core::{Bytes, Factor, Rate};

const ENDS: &str = "local = \"192.0.2.1\"\npeer = \"192.0.2.2\"\n";

#[test]
fn a_trunk_has_its_fields_and_its_defaults() {
    let config = parsed(&format!(
        "{PORTS}[[trunk]]\nname = \"plain\"\n{ENDS}\
         [[trunk]]\nname = \"t\"\nlocal = \"2001:db8::1\"\npeer = \"2001:db8::2\"\nport = 4000\n\
         connections = 2\nvmss = \"3000 B\"\nguarantee = \"3.2 Mbit/s\"\nceiling = \"8 Mbit/s\"\nqueue = \"codel\"\n\
         assured = 3\nfallback = \"direct\"\ntcp = {{ congestion = \"cubic\", receive_window = \"64 KiB\" }}\n\
         [[policy]]\nname = \"all\"\naction = \"pass\"\ntrunk = \"t\"\n"
    ));
    let [plain, trunk] = &config.gateway.trunks[..] else { panic!("{:?}", config.gateway) };
    assert_eq!((plain.connections, plain.vmss, plain.guarantee), (4, Bytes(1_500), None));
    assert_eq!((plain.queue.name(), plain.assured, plain.port), ("per-flow", 1, 4754));
    assert_eq!(plain.tcp.receive_window, Bytes((1 << 30) - 1));
    for config in [plain, trunk] {
        let details = &config.tcp.details;
        assert_eq!((details.initial_window, details.initial_threshold), (1, Some(ALPHA)));
    }
    assert_eq!((trunk.connections, trunk.vmss, trunk.port), (2, Bytes(3_000), 4_000));
    assert_eq!((plain.fallback, trunk.fallback), (Fallback::Hold, Fallback::Direct));
    assert_eq!((trunk.guarantee, trunk.assured), (Some(Rate::from_kbps(3_200)), 3));
    assert_eq!((plain.ceiling, trunk.ceiling), (None, Some(Rate::from_mbps(8))));
    assert_eq!((trunk.queue.name(), trunk.tcp.congestion.name()), ("codel", "cubic"));
    assert_eq!(config.policies[0].trunk.as_deref(), Some("t"));
}

#[test]
fn a_tcp_table_sets_the_initial_window_of_management_connections() {
    let config = parsed(&format!(
        "{PORTS}[[trunk]]\nname = \"t\"\n{ENDS}\
         tcp = {{ profile = \"rfc\", initial_window = 4, initial_threshold = 100 }}\n"
    ));
    let details = &config.gateway.trunks[0].tcp.details;
    assert_eq!((details.initial_window, details.initial_threshold), (4, Some(100)));
}

#[test]
fn the_field_encapsulation_puts_user_packets_into_datagrams() {
    let config = parsed(&format!(
        "{PORTS}[[trunk]]\nname = \"plain\"\n{ENDS}\
         [[trunk]]\nname = \"t\"\n{ENDS}port = 4800\nencapsulation = \"udp\"\nmtu = \"1351 B\"\nvlan = 7\n\
         next_hop = \"192.0.2.9\"\nkey_file = \"/k\"\n"
    ));
    let [plain, trunk] = &config.gateway.trunks[..] else { panic!() };
    let none = Wire::Datagrams { vlan: None, encapsulation: Encapsulation::None };
    assert_eq!((plain.wire, plain.wire.overhead(plain.local)), (none, 0));
    let udp = Wire::Datagrams { vlan: Some(7), encapsulation: Encapsulation::Udp };
    assert_eq!((trunk.wire, trunk.wire.overhead(trunk.local)), (udp, 51));
    assert_eq!(config.trunk_ends[1].as_ref().and_then(|it| it.mtu), Some(1_351));
}

/// Catches: a check that compares trunks with epochs only with each other, and not with other
/// trunks.
#[test]
fn a_trunk_with_epochs_shares_its_class_with_no_other_trunk() {
    let other = "[[trunk]]\nname = \"u\"\nlocal = \"192.0.2.1\"\npeer = \"192.0.2.3\"\n";
    let text = format!("{PORTS}[[trunk]]\nname = \"e\"\n{ENDS}probing = \"epochs\"\n{other}");
    let said = parse("test.toml", &text, None).1.render(false);
    assert!(said.contains("TG0036") && said.contains("same class `assured` as another"), "{said}");
    let (config, found) = parse("test.toml", &(text + "assured = 2\n"), None);
    assert!(config.is_some(), "{}", found.render(false));
}

#[test]
fn a_trunk_with_epochs_takes_one_pair_of_ports_and_a_class_of_its_own() {
    let config = parsed(&format!(
        "{PORTS}[[trunk]]\nname = \"e\"\n{ENDS}probing = \"epochs\"\nguarantee = \"1 Mbit/s\"\n\
         [[trunk]]\nname = \"f\"\n{ENDS}port = 4756\nprobing = \"epochs\"\nassured = 2\n\
         [[trunk]]\nname = \"g\"\n{ENDS}port = 4758\nassured = 3\n\
         [[trunk]]\nname = \"h\"\n{ENDS}port = 4790\nencapsulation = \"udp\"\nkey_file = \"/k\"\n"
    ));
    let [first, second, third, _] = &config.gateway.trunks[..] else { panic!() };
    assert_eq!((first.probing, first.channels()), (Probing::Epochs, 1));
    assert_eq!((second.probing, second.assured), (Probing::Epochs, 2));
    assert_eq!((third.probing, third.assured), (Probing::Management, 3));
}

/// Catches: a trunk that gets the rate adjuster's defaults for aggregate gateways; a weight that
/// does not reach the core; probing "vegas" with a congestion control without weights.
#[test]
fn the_weight_of_a_trunk_is_a_number_a_rule_or_a_table() {
    let trunk = |fields: &str| {
        let text = format!("{PORTS}[[trunk]]\nname = \"t\"\n{ENDS}{fields}\n");
        parsed(&text).gateway.trunks.remove(0)
    };
    let plain = trunk("probing = \"vegas\"");
    assert_eq!((plain.probing, plain.channels(), plain.weight), (Probing::Vegas, 1, None));
    assert_eq!(plain.tcp.congestion, tidegate_core::trunk::vegas());
    assert_eq!(plain.tcp.receive_window, Bytes((1 << 30) - 1));
    let tcp = "probing = \"vegas\"\ntcp = { congestion = \"vegas-ns2\" }";
    assert_eq!(trunk(tcp).tcp.congestion.name(), "vegas-ns2");
    let most = Most::Constant(16);
    for (fields, kind, weight, every) in [
        ("weight = 2.5", LawKind::Fixed, Factor::from_millionths(2_500_000), 500),
        ("weight = \"measured\"", LawKind::Measured, Factor::whole(4), 500),
        (
            "weight = { kind = \"measured\", every = \"100 ms\" }",
            LawKind::Measured,
            Factor::whole(4),
            100,
        ),
        ("weight = { kind = \"measured\", weight = 9 }", LawKind::Measured, Factor::whole(9), 500),
    ] {
        let config = trunk(fields);
        let it = config.weight.clone().unwrap();
        let every = Duration::from_millis(every);
        assert_eq!(
            (it.kind, it.weight, it.most, it.every),
            (kind, weight, most, every),
            "{fields}"
        );
        assert_eq!(config.channels(), 16, "{fields}");
    }
    let bounded = trunk("weight = { kind = \"measured\", most = 5, least = 2 }").weight.unwrap();
    assert_eq!((bounded.most, bounded.least), (Most::Constant(5), Factor::whole(2)));
}

/// Catches: a weight above the supported range; two fields that both set the number of connections.
#[test]
fn an_invalid_weight_is_refused_with_a_correction() {
    for (fields, code, expected) in [
        ("weight = 0", "TG0009", "it goes from 1 to 16"),
        ("weight = 17", "TG0009", "it goes from 1 to 16"),
        ("weight = -1", "TG0009", "write a number from 1 to 16"),
        ("weight = true", "TG0004", "a number from 1 to 16, or \"measured\""),
        ("weight = \"literal\"", "TG0008", "fixed, measured"),
        ("weight = { kind = \"measured\", most = 17 }", "TG0036", "write most = 16"),
        ("weight = { kind = \"measured\", most = \"connections\" }", "TG0036", "write most = 16"),
        ("weight = { kind = \"measured\", samples = 2 }", "TG0030", "`samples` must be from 3"),
        ("weight = { kind = \"measured\", beta = 1 }", "TG0030", "must be below 1"),
        ("weight = { kind = \"measured\", wait = 1 }", "TG0030", "wait"),
        ("weight = { samples = 4 }", "TG0003", "add kind"),
        ("weight = 2\nconnections = 2", "TG0036", "weight = 8 is eight connections"),
        ("probing = \"vegas\"\nconnections = 2", "TG0036", "has one connection"),
        (
            "probing = \"vegas\"\ntcp = { congestion = \"cubic\" }",
            "TG0036",
            "`cubic` has no weight",
        ),
        (
            "probing = \"epochs\"\nweight = 2",
            "TG0036",
            "`weight` applies only to management packets",
        ),
    ] {
        let text = format!("{PORTS}[[trunk]]\nname = \"t\"\n{ENDS}{fields}\n");
        let (config, found) = parse("test.toml", &text, None);
        let said = found.render(false);
        assert!(config.is_none() && said.contains(expected), "{fields}\n{said}");
        assert!(said.contains(code) && said.contains("test.toml:"), "{fields}\n{said}");
    }
}

/// A trunk with these fields.
fn trunk(fields: &str) -> String {
    format!("[[trunk]]\nname = \"t\"\n{ENDS}{fields}\n")
}

/// The policy file `text` is refused with this code and these words.
fn refused(text: &str, code: &str, expected: &str) {
    let (config, found) = parse("test.toml", &format!("{PORTS}{text}"), None);
    let said = found.render(false);
    assert!(config.is_none() && said.contains(code) && said.contains(expected), "{text}\n{said}");
}

#[test]
fn trunks_with_epochs_have_no_field_of_management_packets() {
    for (text, code, expected) in [
        (
            trunk("probing = \"epochs\"\nvmss = \"1500 B\""),
            "TG0036",
            "`vmss` applies only to management",
        ),
        (
            trunk("probing = \"epochs\"\nconnections = 2"),
            "TG0036",
            "`connections` applies only to management",
        ),
        (
            trunk("probing = \"epochs\"\nfallback = \"direct\""),
            "TG0036",
            "`fallback` applies only to",
        ),
        (
            trunk("probing = \"epochs\"\ntcp = { profile = \"rfc\" }"),
            "TG0036",
            "`tcp` applies only to management",
        ),
        (
            trunk("probing = \"epochs\"")
                + "[[trunk]]\nname = \"u\"\nlocal = \"192.0.2.1\"\n\
             peer = \"192.0.2.3\"\nprobing = \"epochs\"\n",
            "TG0036",
            "same class `assured`",
        ),
    ] {
        refused(&text, code, expected);
    }
}

#[test]
fn trunks_that_cannot_work_are_refused_with_the_reason() {
    let policy = |fields: &str| format!("[[policy]]\nname = \"p\"\naction = \"pass\"\n{fields}\n");
    let rate = "rate = { up = \"4 Mbit/s\" }\n";
    let two = |fields: &str| {
        format!("{}[[trunk]]\nname = \"u\"\n{ENDS}{fields}\n", trunk("guarantee = \"3 Mbit/s\""))
    };
    for (text, code, expected) in [
        (trunk("vlan = 0"), "TG0009", "`vlan`"),
        (trunk("vlan = 4095"), "TG0009", "`vlan`"),
        (trunk("encapsulation = \"gre\""), "TG0008", "an encapsulation"),
        (trunk("mtu = \"1400 B\""), "TG0036", "`mtu` limits datagrams"),
        (trunk("encapsulation = \"udp\"\nmtu = \"1350 B\""), "TG0009", "`mtu`"),
        (trunk("encapsulation = \"udp\"\nmtu = \"9217 B\""), "TG0009", "`mtu`"),
        (
            trunk("encapsulation = \"udp\"\nprobing = \"epochs\""),
            "TG0036",
            "`encapsulation` applies only to management",
        ),
        (trunk("ceiling = \"0 bit/s\""), "TG0022", "a ceiling of zero"),
        (trunk("connections = 0"), "TG0009", "`connections`"),
        (trunk("connections = 65"), "TG0009", "`connections`"),
        (trunk("port = 65500"), "TG0009", "`port`"),
        (trunk("assured = 5"), "TG0009", "`assured`"),
        (trunk("tcp = { mss = \"9 B\" }"), "TG0061", "mss"),
        (trunk("tcp = 5"), "TG0004", "profile"),
        (
            "[[trunk]]\nname = \"t\"\nlocal = \"192.0.2.1\"\npeer = \"::1\"\n".into(),
            "TG0010",
            "`::1`",
        ),
        (
            "[[trunk]]\nname = \"t\"\nlocal = \"192.0.2.1\"\npeer = \"2001:db8::2\"\n".into(),
            "TG0036",
            "cannot lead from 192.0.2.1",
        ),
        (two("port = 4761"), "TG0036", "take the same ports"),
        (trunk("probing = \"guess\""), "TG0008", "a way of probing"),
        (trunk("") + &trunk("port = 5000"), "TG0018", "two trunks are named `t`"),
        (policy("trunk = \"t\""), "TG0008", "there is no trunk `t`"),
        (
            trunk("") + &policy("trunk = \"t\"\nmatch = { direction = \"down\" }"),
            "TG0036",
            "from the WAN go through no trunk",
        ),
        (
            rate.to_owned() + &two("port = 4762\nguarantee = \"1001 kbit/s\""),
            "TG0032",
            "guaranteed 4001 kbit/s, and the link has 4 Mbit/s",
        ),
    ] {
        refused(&text, code, expected);
    }
    parsed(&format!("{PORTS}{rate}{}", two("port = 4762\nguarantee = \"1 Mbit/s\"")));
}

/// Catches: a policy without a profile that accepts fields for sharing a profile; ACK control
/// together with fairness between hosts; a policy that loses its class when it has a trunk.
#[test]
fn a_policy_with_a_trunk_has_a_class_and_shares_its_profile_if_it_has_one() {
    let class = "rate = { up = \"4 Mbit/s\" }\n[[class]]\nname = \"c\"\n";
    let trunk = format!("[[trunk]]\nname = \"t\"\n{ENDS}");
    let policy = "[[policy]]\nname = \"p\"\ntrunk = \"t\"\nclass = \"c\"\n";
    let file = |fields: &str| format!("{PORTS}{class}{trunk}{policy}{fields}\n");
    let pass = "action = \"pass\"";
    let shape = "action = \"shape\"\nprofile = { mean = \"3 Mbit/s\" }\nfair_between = \"hosts\"";
    let controlled = format!("{shape}\nack_control = \"postack\"");
    for (fields, expected) in [
        (format!("{pass}\nallocation = \"drr\""), "`allocation` has no meaning with this action"),
        (format!("{pass}\nweights = []"), "`weights` has no meaning with this action"),
        (format!("{pass}\nfair_between = \"hosts\""), "`fair_between` has no meaning with this"),
        (controlled, "with this ACK control a profile is shared between flows"),
    ] {
        let (config, found) = parse("test.toml", &file(&fields), None);
        let said = found.render(false);
        let expected = format!("error[TG0027]: {expected}");
        assert!(config.is_none() && said.starts_with(&expected), "{fields}\n{said}");
    }
    let weights = "allocation = \"drr\"\nweights = [{ match = { dst_port = 2 }, weight = 2 }]";
    for fields in [pass.to_owned(), format!("{shape}\n{weights}")] {
        let it = &parsed(&file(&fields)).policies[0];
        assert_eq!((it.trunk.as_deref(), it.class.as_deref()), (Some("t"), Some("c")), "{fields}");
    }
}

/// Catches: a smallest `vmss` computed for one encoding of management packets only, or for one IP
/// version only.
#[test]
fn vmss_is_at_least_the_length_of_a_management_packet() {
    let v6 = "local = \"2001:db8::1\"\npeer = \"2001:db8::2\"\n";
    let trunk = |ends, vmss| format!("{PORTS}[[trunk]]\nname = \"t\"\n{ends}vmss = \"{vmss}\"\n");
    for (ends, vmss, expected) in [
        (
            ENDS,
            "73 B",
            "from 74 B, the length of a management packet between live gateways (52 B in the simulator)",
        ),
        (
            v6,
            "93 B",
            "from 94 B, the length of a management packet between live gateways (72 B in the simulator)",
        ),
        (ENDS, "66 kB", "to 65535 B"),
    ] {
        let (config, found) = parse("test.toml", &trunk(ends, vmss), None);
        let said = found.render(false);
        assert!(config.is_none() && said.contains("TG0009") && said.contains(expected), "{said}");
    }
    parsed(&trunk(ENDS, "74 B"));
    parsed(&trunk(v6, "94 B"));
}

/// Two excessive guarantees cause a single finding, which marks the first of the two.
///
/// Catches: a finding at the last guarantee; a finding that does not also mark the rate of the
/// link.
#[test]
fn guarantees_beyond_the_link_are_reported_with_its_rate() {
    let trunk = |name: &str, port: u16, guarantee: &str| {
        format!("[[trunk]]\nname = \"{name}\"\n{ENDS}port = {port}\nguarantee = \"{guarantee}\"\n")
    };
    let three = [("a", 4000, "3 Mbit/s"), ("b", 4100, "2 Mbit/s"), ("c", 4200, "1 Mbit/s")];
    let three = three.map(|(name, port, guarantee)| trunk(name, port, guarantee)).concat();
    let text = format!("{PORTS}rate = {{ up = \"4 Mbit/s\" }}\n{three}");
    let (config, found) = parse("test.toml", &text, None);
    let expected = r#"error[TG0032]: trunks are guaranteed 6 Mbit/s, and the link has 4 Mbit/s
  --> test.toml:16:13
   |
 4 | rate = { up = "4 Mbit/s" }
   |               ---------- the rate of the link
...
16 | guarantee = "2 Mbit/s"
   |             ^^^^^^^^^^"#;
    let said = found.render(false);
    assert!(config.is_none() && said.contains(expected), "{said}");
    assert_eq!(said.matches("TG0032").count(), 1, "{said}");
}

/// Catches: a sum of guarantees without the allowance of control traffic.
#[test]
fn guarantees_that_leave_control_traffic_no_room_cause_a_warning() {
    let found = |guarantee: &str| {
        let trunk = format!("[[trunk]]\nname = \"a\"\n{ENDS}guarantee = \"{guarantee}\"\n");
        let text = format!("{PORTS}rate = {{ up = \"4 Mbit/s\" }}\n{trunk}");
        let (config, found) = parse("test.toml", &text, None);
        assert!(config.is_some());
        found.render(false)
    };
    let said = found("4 Mbit/s");
    let expected = "warning[TG0032]: guarantees of trunks come to 4 Mbit/s; control traffic leaves 3920 kbit/s";
    assert!(said.contains(expected), "{said}");
    assert!(!found("3920 kbit/s").contains("TG0032"));
}

/// Checks the whole message, with both marked positions and the correction.
#[test]
fn an_impossible_ceiling_is_reported_with_the_value_that_it_contradicts() {
    for (fields, expected) in [
        (
            "guarantee = \"3 Mbit/s\"\nceiling = \"2 Mbit/s\"\n",
            r#"error[TG0033]: a ceiling of 2 Mbit/s is below the guarantee of 3 Mbit/s
  --> test.toml:10:11
   |
 9 | guarantee = "3 Mbit/s"
   |             ---------- the guarantee
10 | ceiling = "2 Mbit/s"
   |           ^^^^^^^^^^
   |
   = help: write at least ceiling = "3 Mbit/s", or lower the guarantee"#,
        ),
        (
            "ceiling = \"5 Mbit/s\"\n",
            r#"error[TG0039]: a ceiling of 5 Mbit/s has no effect: the link has 4 Mbit/s
 --> test.toml:9:11
  |
4 | rate = { up = "4 Mbit/s" }
  |               ---------- the rate of the link
...
9 | ceiling = "5 Mbit/s"
  |           ^^^^^^^^^^
  |
  = help: write at most ceiling = "4 Mbit/s", or leave it out: the link bounds it"#,
        ),
    ] {
        let rate = "rate = { up = \"4 Mbit/s\" }\n";
        let text = format!("{PORTS}{rate}[[trunk]]\nname = \"t\"\n{ENDS}{fields}");
        let (config, found) = parse("test.toml", &text, None);
        let said = found.render(false);
        assert!(config.is_none() && said.contains(expected), "{said}");
    }
}

const LIVE: &str = "next_hop = \"192.0.2.254\"\nkey_file = \"/etc/tidegate/t.key\"\n";

fn host() -> Host {
    let interface = |name: &str| Interface {
        name: name.to_owned(),
        mtu: Some(1_500),
        is_up: Some(true),
        is_device: true,
        has_default_route: false,
    };
    Host { interfaces: vec![interface("eth0"), interface("eth1")] }
}

#[test]
fn messages_name_the_missing_next_hop_or_key_of_a_live_gateway() {
    let trunk = |fields: &str| format!("{PORTS}[[trunk]]\nname = \"t\"\n{ENDS}{fields}");
    let (next_hop, key) = LIVE.split_once('\n').unwrap();
    for (fields, missing) in [(key, "`next_hop`"), (next_hop, "`key_file`")] {
        let text = trunk(fields);
        let (config, found) = parse("test.toml", &text, Some(&host()));
        let said = found.render(false);
        assert!(config.is_none() && said.contains("TG0037") && said.contains(missing), "{said}");
        assert_eq!(parsed(&text).trunk_ends, [None], "the simulator needs neither");
    }
    let (config, found) = parse("test.toml", &trunk(LIVE), Some(&host()));
    let ends = config.map(|config| config.trunk_ends).unwrap_or_default();
    let [Some(end)] = &ends[..] else { panic!("{}", found.render(false)) };
    assert_eq!(end.key_file, "/etc/tidegate/t.key");
    assert_eq!(end.next_hop, NextHop::Address([192, 0, 2, 254].into()));
    let epochs = trunk(&format!("{LIVE}\nprobing = \"epochs\"\n"));
    let (config, found) = parse("test.toml", &epochs, Some(&host()));
    assert!(config.is_some(), "{}", found.render(false));
    let by_mac = parsed(&trunk(&LIVE.replace("192.0.2.254", "02:00:5e:10:00:aB")));
    let hop = by_mac.trunk_ends[0].as_ref().map(|it| it.next_hop);
    assert_eq!(hop, Some(NextHop::Mac([2, 0, 0x5e, 0x10, 0, 0xab])));
}

#[test]
fn messages_mark_an_invalid_next_hop_or_key() {
    for (from, to, code, expected) in [
        ("192.0.2.254", "2001:db8::1", "TG0036", "2001:db8::1 cannot be the next hop"),
        ("192.0.2.254", "192.0.2.1", "TG0036", "192.0.2.1 cannot be the next hop"),
        ("192.0.2.254", "router", "TG0010", "`router` cannot be the address"),
        ("192.0.2.254", "03:00:5e:10:00:01", "TG0010", "`03:00:5e:10:00:01`"),
        ("192.0.2.254", "02:00:5e:10:00:01:7", "TG0010", "`02:00:5e:10:00:01:7`"),
        ("/etc/tidegate/t.key", "t.key", "TG0036", "not an absolute path"),
    ] {
        let fields = LIVE.replace(from, to);
        let text = format!("{PORTS}[[trunk]]\nname = \"t\"\n{ENDS}{fields}");
        let (config, found) = parse("test.toml", &text, None);
        let said = found.render(false);
        assert!(config.is_none() && said.contains(code) && said.contains(expected), "{said}");
        assert!(said.contains(to), "{said}");
    }
}

#[test]
fn the_two_sites_of_the_examples_fit_each_other() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let [north, south] = ["site-north.toml", "site-south.toml"].map(|name| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let (config, found) = parse(name, &text, Some(&host()));
        config.unwrap_or_else(|| panic!("{}", found.render(false)))
    });
    let [[one], [other]] = [&north, &south].map(|it| &it.gateway.trunks[..]) else { panic!() };
    assert!(one.is_other_end_of(other) && other.is_other_end_of(one));
    for config in [&north, &south] {
        assert_eq!(config.policies[0].trunk.as_deref(), Some(&*config.gateway.trunks[0].name));
        assert!(config.trunk_ends[0].is_some());
    }
}
