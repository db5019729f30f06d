//! Tests of aggregate gateways' files: defaults, mistakes and damaged text.

use proptest::prelude::*;

use super::*;
use crate::testing::damaged;

const FILE: &str = r#"
[aggregate]
listen = "203.0.113.1:4755"
peer = "203.0.113.2:4755"
key_file = "/etc/tidegate/aggregate.key"
peer_key = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
destinations = ["10.2.0.0/16", "2001:db8:2::/48", "192.0.2.7"]
"#;

fn with(line: &str) -> (Option<AggregateConfig>, Vec<(&'static str, usize, String)>) {
    let (config, found) = parse("site.toml", &format!("{FILE}{line}\n"));
    let line = |it: &crate::Located<'_>| {
        let data = serde_json::to_value(it).unwrap();
        usize::try_from(data["line"].as_u64().unwrap()).unwrap()
    };
    let data = found.data();
    let messages = found.iter().map(|it| (it.code.name(), it.message.clone()));
    let findings = messages.zip(&data).map(|((code, message), it)| (code, line(it), message));
    (config, findings.collect())
}

#[test]
fn a_short_file_has_all_defaults() {
    let (config, found) = with("");
    let config = config.unwrap();
    assert_eq!(found, []);
    assert_eq!((config.source, config.on_peer_down), (Source::Gateway, PeerDown::Pass));
    assert_eq!((config.stream_queue, config.max_queue), (Bytes(256 << 10), Bytes(64 << 20)));
    assert_eq!((config.peer_key[1], config.peer_key[31]), (0x11, 0xff));
    assert_eq!(config.destinations[2].to_string(), "192.0.2.7/32");
    assert_eq!((config.reachable, config.max_connections), (None, None));
    assert_eq!(config.weight.kind, itcp::LawKind::Measured);
    assert_eq!(config.weight.max_queue, config.max_queue);
    assert!(!config.confirm_close && is_meant(FILE) && !is_meant("[gateway]\nlan = \"a\""));
}

#[test]
fn the_example_of_the_manual_is_accepted_without_a_finding() {
    let (config, found) =
        parse("aggregate.toml", include_str!("../../../../examples/aggregate/site.toml"));
    assert!(config.is_some() && found.iter().next().is_none(), "{}", found.render(false));
}

#[test]
fn each_mistake_is_found_at_its_line() {
    // Catches: a limit that is not checked; a finding that marks the whole table, not the line.
    for (line, code, words) in [
        ("source = \"host\"", "TG0008", "source"),
        ("max_connections = 0", "TG0009", "max_connections"),
        ("on_peer_down = \"drop\"", "TG0008", "drop"),
        ("confirm_close = 1", "TG0004", "true or false"),
        ("stream_queue = \"1 KiB\"", "TG0009", "stream_queue"),
        ("max_queue = \"0 B\"", "TG0009", "max_queue"),
        ("max_queue = \"128 KiB\"", "TG0065", "below `stream_queue`"),
        ("max_queue = 64", "TG0005", "unit"),
        ("weight = \"adaptive\"", "TG0008", "a rate adjuster"),
        ("weight = { kind = \"literal\", samples = 2 }", "TG0030", "samples"),
        ("weight = { kind = \"literal\", epsilon = 1.0 }", "TG0030", "below 1"),
        ("weight = { kind = \"literal\", beta = 1.5 }", "TG0030", "beta"),
        ("weight = { kind = \"literal\", max_queue = \"0 B\" }", "TG0030", "max_queue"),
        ("weight = { kind = \"measured\", most = 0 }", "TG0030", "from 1"),
        ("weight = { kind = \"literal\", low_threshold = 1.0 }", "TG0030", "low_threshold"),
        ("reachable = [\"10.2.0.1/16\"]", "TG0011", "10.2.0.0/16"),
        ("reachable = []", "TG0016", "empty"),
        ("reachables = [\"10.2.0.0/16\"]", "TG0002", "reachables"),
    ] {
        let (config, found) = with(line);
        assert!(config.is_none(), "{line}");
        assert_eq!((found[0].0, found[0].1), (code, 8), "{line}: {found:?}");
        assert!(found[0].2.contains(words), "{line}: {found:?}");
    }
}

#[test]
fn gateways_that_cannot_reach_each_other_are_refused() {
    for (from, to) in [
        ("peer = \"203.0.113.2:4755\"", "peer = \"203.0.113.1:4755\""),
        ("peer = \"203.0.113.2:4755\"", "peer = \"[2001:db8::2]:4755\""),
        ("peer = \"203.0.113.2:4755\"", "peer = \"0.0.0.0:4755\""),
        ("peer = \"203.0.113.2:4755\"", "peer = \"203.0.113.2:0\""),
        ("peer = \"203.0.113.2:4755\"", "peer = \"203.0.113.2\""),
        ("listen = \"203.0.113.1:4755\"", "listen = \"[2001:db8::1]:4755\""),
        ("00112233", "0011223"),
        ("key_file = \"/", "key_file = \""),
        ("10.2.0.0/16", "10.2.0.0/33"),
    ] {
        let text = FILE.replace(from, to);
        assert_ne!(text, FILE);
        let (config, found) = parse("site.toml", &text);
        assert!(config.is_none() && found.has_errors(), "{to}");
    }
    let any = FILE.replace("203.0.113.1:4755", "[::]:4755");
    assert!(parse("site.toml", &any).0.is_some());
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in damaged(vec![FILE.to_owned()])) {
        let (config, found) = parse("site.toml", &text);
        prop_assert!(config.is_some() != found.has_errors());
        drop(found.render(false));
    }
}
