//! Live test: gateways write reports into etcd and LDAP.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{now, until, witnessed_beside_others};

use crate::site::{Kind, LIMIT, PASSWORD, Site, ask, in_state, prepare};
use crate::stream::Stream;

/// Time limit for the first report. The measurement takes up to two report intervals of 10 s each,
/// and the report must be written.
const REPORTED: Duration = Duration::from_secs(25);

#[test]
fn of_etcd() {
    if Kind::Etcd.is_here() {
        reports_to(Kind::Etcd);
    }
}

#[test]
fn of_ldap() {
    if Kind::Ldap.is_here() {
        reports_to(Kind::Ldap);
    }
}

/// Catches: a report that is not written, or that describes another generation; flows that are not
/// counted; a rate that is not divided by the mean rate of the profile.
fn reports_to(kind: Kind) {
    witnessed_beside_others(|bed| {
        prepare(bed);
        let mut site = Site::start(bed, kind);
        site.write_first("1 Mbit/s");
        site.commit();
        let start = now();
        let _gateway = bed.gateway("af-packet", &site.source(PASSWORD));
        let source = in_state(bed, "central", "in force");
        let stream = Stream::start(bed);
        let report = until("a report", REPORTED + LIMIT, || read(&site));
        let time = start.elapsed();
        println!("{}: after {time:?} {report}", kind.name());
        assert!(time < REPORTED, "{time:?}");
        assert_eq!(report["revision"], source["revision"], "{report}");
        assert_eq!(report["generation"], ask(bed, "status")["generation"], "{report}");
        assert_eq!(report["flows_on_it"], 1.0, "{report}");
        assert!(report["since_s"].as_u64() > Some(0) && report["error"].is_null(), "{report}");
        // 500 datagrams of 142 bytes per second are more than half of 1 Mbit/s. On a slow machine,
        // the rate is lower.
        let conformance = report["policies"]["stream"]["up"].as_f64().unwrap();
        assert!((0.01..1.1).contains(&conformance), "{report}");
        let (sent, received) = stream.finish();
        assert_eq!(sent, received);
    });
}

/// The report of this host in the repository, if there is one.
fn read(site: &Site<'_>) -> Option<Value> {
    let node = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let node = node.trim();
    let text = match site.kind {
        Kind::Ldap => {
            let found = site.search(&format!("cn={node},ou=status,ou=tidegate"));
            let line = found.lines().find_map(|line| line.strip_prefix("tgReport: "));
            line.map(str::to_owned)?
        }
        _ => site.etcdctl(&["get", "--print-value-only", &format!("/tidegate/status/{node}")]),
    };
    serde_json::from_str(&text).ok()
}
