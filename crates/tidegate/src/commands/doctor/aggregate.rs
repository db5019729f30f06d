//! `tidegate doctor FILE` for the file of an aggregate gateway: finds faults of this host that
//! disturb such a gateway. An aggregate gateway carries the TCP connections of users over one
//! connection to its peer gateway.

use std::path::Path;

use tidegate_config::aggregate;

use super::{Finding, bad, good, lacking, read};
use crate::aggregate::{Check, buffers, checks};
use crate::commands::check::{complain, name};

/// Checks everything that a gateway with this file needs. If the file is invalid, prints its
/// findings and returns `None`.
pub(super) fn findings(file: &Path, text: &str) -> Option<Vec<Finding>> {
    let (config, found) = aggregate::parse(&name(file), text);
    complain(&found);
    let mut findings: Vec<_> = checks(&config?).into_iter().map(finding).collect();
    findings.push(udp_buffer(&read("/proc/sys/net/core/rmem_max")));
    for (family, parameter) in [("IPv4", "ipv4/ip_forward"), ("IPv6", "ipv6/conf/all/forwarding")] {
        findings.push(forwarding(family, parameter, &read(&format!("/proc/sys/net/{parameter}"))));
    }
    Some(findings)
}

fn finding((what, seen): Check) -> Finding {
    match seen {
        Ok(seen) => good(what, seen),
        Err(failure) => bad(what, failure.message, &failure.help),
    }
}

fn udp_buffer(most: &str) -> Finding {
    match buffers(most.parse().unwrap_or(0)) {
        Ok(()) => good("UDP buffer", format!("{most} bytes")),
        Err(remedy) => lacking("UDP buffer", format!("{most} bytes: bursts are lost"), &remedy),
    }
}

/// Checks that the kernel forwards packets. The host must still route the packets that the gateway
/// does not redirect.
fn forwarding(family: &str, parameter: &str, value: &str) -> Finding {
    let what = format!("{family} forwarding");
    if value == "1" {
        return good(&what, "on");
    }
    let seen = "off: packets that the gateway does not carry are not routed";
    lacking(&what, seen, &format!("sysctl net.{}=1", parameter.replace('/', ".")))
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;

    const FILE: &str = r#"
[aggregate]
listen = "192.0.2.1:4755"
peer = "192.0.2.2:4755"
key_file = "/nowhere/key"
peer_key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
destinations = ["10.2.0.0/16"]
"#;

    /// Catches: a failed check that is not reported; checks made for an invalid file.
    #[test]
    fn a_missing_key_and_an_address_of_another_host_have_remedies() {
        let findings = findings(Path::new("site.toml"), FILE).unwrap();
        let of = |what: &str| findings.iter().find(|it| it.what == what).unwrap();
        for what in ["key_file", "listen"] {
            assert!(of(what).health == Health::Bad && of(what).remedy.is_some(), "{findings:?}");
        }
        assert!(super::findings(Path::new("site.toml"), "[aggregate]").is_none());
    }

    #[test]
    fn small_buffers_and_missing_forwarding_are_disadvantages() {
        assert_eq!(udp_buffer("212992").health, Health::Lacking);
        assert_eq!(udp_buffer("4194304").health, Health::Good);
        let off = forwarding("IPv4", "ipv4/ip_forward", "0");
        assert_eq!(off.remedy.as_deref(), Some("sysctl net.ipv4.ip_forward=1"));
        assert_eq!(forwarding("IPv4", "ipv4/ip_forward", "1").health, Health::Good);
    }
}
