//! What must hold for any text given as a file; also held against the corpus by an ordinary test.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each target uses its part, and fails by panicking"
)]

use tidegate_config::{Findings, policy_file, scenario, topology};

/// Everything that was found can be said, and keeps the file from being used if it is an error.
fn said(found: &Findings, used: bool) {
    assert_eq!(used, !found.has_errors());
    assert_eq!(found.render(false).is_empty(), found.iter().next().is_none());
    assert_eq!(found.summary().is_none(), used);
    for (diagnostic, data) in found.iter().zip(found.data()) {
        assert!(!diagnostic.message.is_empty() && !diagnostic.help.is_empty());
        assert!(serde_json::to_string(&data).is_ok());
    }
}

/// A policy file.
pub(crate) fn policy_any(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (config, found) = policy_file::parse("fuzz.toml", text, None);
    said(&found, config.is_some());
}

/// A topology of a lab, which is a scenario of the simulator as well.
pub(crate) fn scenario_any(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (topology, found) = topology::parse("fuzz.toml", text);
    said(&found, topology.is_some());
    let mut fetch = |path: &str| match path {
        "policy.toml" => Ok("[gateway]\nlan = \"lan\"\nwan = \"wan\"\n".to_owned()),
        "trace.csv" => Ok("0 s, 160 B\n20 ms, 160 B\n".to_owned()),
        _ => Err("there is no such file".to_owned()),
    };
    let (scenario, found) = scenario::parse("fuzz.toml", text, &mut fetch);
    said(&found, scenario.is_some());
    if let Some(scenario) = scenario {
        assert_eq!(scenario.check(), []);
    }
}
