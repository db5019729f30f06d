//! Tests of topology files, valid and invalid.

use std::time::Duration;

use tidegate_core::Rate;

use super::*;
use crate::code::Code;

const SITE: &str = r#"
    name = "site"
    seed = 7

    [[host]]
    name = "server"
    address = ["192.0.2.1", "2001:db8::1"]

    [[host]]
    name = "alice"
    gateway = "edge"

    [[host]]
    name = "bob"
    gateway = "edge"

    [[gateway]]
    name = "edge"
    policy = "edge.toml"

    [[route]]
    from = "server"
    to = ["alice", "bob"]
    delay = "25 ms"
    jitter = { normal = "1 ms" }
    loss = { p = "1 %", r = "30 %" }
    rate = "8 Mbit/s"
    queue = { kind = "drop-tail", limit = "64 KiB" }

    [[route]]
    delay = "5 ms"
"#;

#[test]
fn a_gateway_and_its_hosts_use_one_port_of_the_network() {
    let (topology, found) = parse("site.toml", SITE);
    let topology = topology.unwrap();
    assert_eq!(found.iter().count(), 0, "{}", found.render(false));
    assert_eq!(topology.ports(), [Attached::Host(0), Attached::Gateway(0)]);
    assert_eq!(topology.behind(0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(topology.hosts[1].addresses[0], IpAddr::from([10, 73, 0, 2]));
    let network = topology.network();
    assert_eq!((network.seed, network.ports[0].len(), network.ports[1].len()), (7, 2, 4));
    let [slow, rest] = network.routes.as_slice() else { panic!() };
    assert_eq!((slow.from.len(), slow.to.len(), rest.from.len(), rest.to.len()), (2, 4, 0, 0));
    assert_eq!(slow.link.rate, Some(Rate::from_mbps(8)));
    assert_eq!(
        (slow.link.delay, rest.link.delay),
        (Duration::from_millis(25), Duration::from_millis(5))
    );
}

/// A chain: `alice` is on the LAN side of `floor`; `floor` and `bob` are on the LAN side of `edge`.
const CHAIN: &str = r#"
    [[host]]
    name = "server"

    [[host]]
    name = "alice"
    gateway = "floor"

    [[host]]
    name = "bob"
    gateway = "edge"

    [[gateway]]
    name = "floor"
    gateway = "edge"
    policy = "floor.toml"

    [[gateway]]
    name = "edge"
    policy = "edge.toml"

    [[route]]
    from = "alice"
    to = "server"

    [[route]]
    from = "server"

    [[route]]
    from = "bob"
    to = "server"
"#;

/// Catches: a port of the network for an inner gateway; a gateway's port that leads only to hosts
/// directly on its LAN side; a warning of a missing route between hosts of the same site.
#[test]
fn a_gateway_with_inner_gateways_uses_one_port_of_the_network() {
    let (topology, found) = parse("site.toml", CHAIN);
    let topology = topology.unwrap();
    assert_eq!(found.iter().count(), 0, "{}", found.render(false));
    assert_eq!(topology.ports(), [Attached::Host(0), Attached::Gateway(1)]);
    let behind = |gateway| topology.behind(gateway).collect::<Vec<_>>();
    assert_eq!((behind(0), behind(1)), (vec![1], vec![2]));
    assert_eq!(topology.gateways_behind(1).collect::<Vec<_>>(), [0]);
    assert_eq!(topology.network().ports.iter().map(Vec::len).collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn a_gateway_is_not_on_its_own_lan_side_and_has_a_host_there() {
    let ring = CHAIN.replace("name = \"edge\"\n", "name = \"edge\"\ngateway = \"floor\"\n");
    let own = CHAIN.replace("name = \"edge\"\n", "name = \"edge\"\ngateway = \"edge\"\n");
    let idle = CHAIN.replacen("gateway = \"floor\"", "", 1);
    for (text, said) in [
        (ring, "gateway `floor` is behind itself"),
        (own, "gateway `edge` is behind itself"),
        (idle, "no host is behind this gateway"),
    ] {
        let (topology, found) = parse("site.toml", &text);
        let all = found.render(false);
        assert!(topology.is_none() && all.contains(said), "{all}");
        assert_eq!(found.iter().count(), 1, "{all}");
    }
}

#[test]
fn every_example_is_accepted_without_a_finding() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lab");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let (topology, found) =
            parse(&path.to_string_lossy(), &std::fs::read_to_string(&path).unwrap());
        assert!(topology.is_some() && found.iter().next().is_none(), "{}", found.render(false));
        count += 1;
    }
    assert!(count > 0);
}

/// Mistakes: the text, the code of the expected finding, and the marked text.
#[test]
fn each_mistake_is_reported_at_its_position() {
    let change = |from: &str, to: &str| SITE.replacen(from, to, 1);
    let cases = [
        (change("name = \"bob\"", "name = \"alice\""), Code::DuplicateName, "\"alice\""),
        (change("\"bob\"", "\"any\""), Code::BadName, "\"any\""),
        (change("name = \"bob\"", "nam = \"bob\""), Code::UnknownField, "nam"),
        (change("192.0.2.1", "192.0.2.1/24"), Code::BadAddress, "\"192.0.2.1/24\""),
        (change("192.0.2.1", "224.0.0.1"), Code::BadAddress, "\"224.0.0.1\""),
        (change("2001:db8::1", "192.0.2.1"), Code::BadAddress, "\"192.0.2.1\""),
        (change("gateway = \"edge\"", "gateway = \"egde\""), Code::UnknownNode, "\"egde\""),
        (change("\"alice\", \"bob\"]", "\"alicee\"]"), Code::UnknownNode, "\"alicee\""),
        (change("\"alice\", \"bob\"]", "\"server\"]"), Code::LinkToItself, "[\"server\"]"),
        (change("\"25 ms\"", "25"), Code::NoUnit, "25"),
        (change("normal", "pareto"), Code::BadMechanism, "pareto"),
        (change("r = \"30 %\"", "q = 3"), Code::BadMechanism, "q"),
        (change("\"8 Mbit/s\"", "\"0 bit/s\""), Code::ZeroRate, "\"0 bit/s\""),
        (change("drop-tail", "drop-tial"), Code::UnknownName, "\"drop-tial\""),
        (change("policy = \"edge.toml\"", ""), Code::BadGateway, "[[gateway]]"),
        (
            change("policy = \"edge.toml\"", "policy = \"edge.toml\"\ngateway = \"alice\""),
            Code::UnknownNode,
            "\"alice\"",
        ),
        (change("policy =", "inline = '''x'''\npolicy ="), Code::BadGateway, "\"edge.toml\""),
        (SITE.replace("gateway = \"edge\"", ""), Code::BadGateway, "[[gateway]]"),
        (
            change("rate = \"8 Mbit/s\"", ""),
            Code::NeverMatches,
            "{ kind = \"drop-tail\", limit = \"64 KiB\" }",
        ),
        (
            change("from = \"server\"\n    to = [\"alice\", \"bob\"]", ""),
            Code::NeverMatches,
            "[[route]]",
        ),
        (change("[[route]]\n    delay = \"5 ms\"", ""), Code::NoWay, ""),
        (
            change("[[route]]", "[[router]]\n    name = \"r\"\n    [[route]]"),
            Code::NotInLab,
            "[[router]]",
        ),
        (
            change("[[route]]", "[[link]]\n    from = \"alice\"\n    to = \"bob\"\n    [[route]]"),
            Code::NotInLab,
            "[[link]]",
        ),
        (change("[[host]]", "[[host]"), Code::Syntax, ""),
        ("seed = 3".to_owned(), Code::MissingField, ""),
    ];
    for (text, code, marked) in cases {
        let (topology, found) = parse("site.toml", &text);
        let data = found.data();
        let data = serde_json::to_value(&data).unwrap();
        let hit = data.as_array().unwrap().iter().any(|it| {
            it["code"] == code.name() && it["source"].as_str().unwrap().starts_with(marked)
        });
        assert!(hit, "{} at {marked}: {}", code.name(), found.render(false));
        assert_eq!(topology.is_none(), found.has_errors());
    }
}
