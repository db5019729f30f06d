//! What becomes of the trunks of a policy file, and what is said of those that cannot be.

use super::{PORTS, parse, parsed};
use crate::host::{Host, Interface};
use tidegate_core::{Bytes, Rate};

const ENDS: &str = "local = \"192.0.2.1\"\npeer = \"192.0.2.2\"\n";

#[test]
fn a_trunk_has_its_fields_and_its_defaults() {
    let config = parsed(&format!(
        "{PORTS}[[trunk]]\nname = \"plain\"\n{ENDS}\
         [[trunk]]\nname = \"t\"\nlocal = \"2001:db8::1\"\npeer = \"2001:db8::2\"\nport = 4000\n\
         connections = 2\nvmss = \"3000 B\"\nguarantee = \"3.2 Mbit/s\"\nqueue = \"codel\"\n\
         assured = 3\ntcp = {{ congestion = \"cubic\", receive_window = \"64 KiB\" }}\n\
         [[policy]]\nname = \"all\"\naction = \"pass\"\ntrunk = \"t\"\n"
    ));
    let [plain, trunk] = &config.gateway.trunks[..] else { panic!("{:?}", config.gateway) };
    assert_eq!((plain.connections, plain.vmss, plain.guarantee), (4, Bytes(1_500), None));
    assert_eq!((plain.queue.name(), plain.assured, plain.port), ("per-flow", 1, 4754));
    assert_eq!(plain.tcp.receive_window, Bytes((1 << 30) - 1));
    assert_eq!((trunk.connections, trunk.vmss, trunk.port), (2, Bytes(3_000), 4_000));
    assert_eq!((trunk.guarantee, trunk.assured), (Some(Rate::from_kbps(3_200)), 3));
    assert_eq!((trunk.queue.name(), trunk.tcp.congestion.name()), ("codel", "cubic"));
    assert_eq!(config.policies[0].trunk.as_deref(), Some("t"));
}

#[test]
fn what_cannot_be_is_said_with_its_reason() {
    let trunk = |fields: &str| format!("[[trunk]]\nname = \"t\"\n{ENDS}{fields}\n");
    let policy = |fields: &str| format!("[[policy]]\nname = \"p\"\naction = \"pass\"\n{fields}\n");
    let rate = "rate = { up = \"4 Mbit/s\" }\n";
    let two = |fields: &str| {
        format!("{}[[trunk]]\nname = \"u\"\n{ENDS}{fields}\n", trunk("guarantee = \"3 Mbit/s\""))
    };
    for (text, code, expected) in [
        (trunk("vmss = \"63 B\""), "TG0009", "`vmss`"),
        (trunk("vmss = \"66 kB\""), "TG0009", "`vmss`"),
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
        (trunk("") + &trunk("port = 5000"), "TG0018", "two trunks are named `t`"),
        (policy("trunk = \"t\""), "TG0008", "there is no trunk `t`"),
        (
            rate.to_owned() + &two("port = 4762\nguarantee = \"1001 kbit/s\""),
            "TG0032",
            "guaranteed 4001 kbit/s, and the link has 4 Mbit/s",
        ),
    ] {
        let (config, found) = parse("test.toml", &format!("{PORTS}{text}"), None);
        let said = found.render(false);
        assert!(
            config.is_none() && said.contains(code) && said.contains(expected),
            "{text}\n{said}"
        );
    }
    parsed(&format!("{PORTS}{rate}{}", two("port = 4762\nguarantee = \"1 Mbit/s\"")));
}

#[test]
fn a_live_gateway_refuses_trunks() {
    let interface = |name: &str| Interface {
        name: name.to_owned(),
        mtu: Some(1_500),
        is_device: true,
        has_default_route: false,
    };
    let host = Host { interfaces: vec![interface("eth0"), interface("eth1")] };
    let text = format!("{PORTS}[[trunk]]\nname = \"t\"\n{ENDS}");
    let (config, found) = parse("test.toml", &text, Some(&host));
    assert!(config.is_none() && found.render(false).contains("TG0037"), "{}", found.render(false));
}
