//! Writes the reports of gateways into the directory: an entry `cn=<node>,ou=status` below the root
//! entry for each gateway.

use ldap3::Mod;

use super::attributes::{REPORT, REPORT_CLASS};
use super::entry::Entry;
use super::session::{Session, set};
use crate::{Fault, FaultKind, NodeReport};

/// Writes `report` below the root entry `base`.
pub(super) async fn write(
    session: &mut Session,
    base: &str,
    report: &NodeReport,
) -> Result<(), Fault> {
    let entry = entry(base, report)?;
    let known = session.entry(&entry.dn, &["cn"]).await?;
    if known.is_none() {
        let mut container = Entry::new(format!("ou=status,{base}"), &["organizationalUnit"]);
        container.add("ou", "status");
        session.add(&container, true).await?;
        return session.add(&entry, false).await;
    }
    let values =
        PLAIN.iter().map(|name| Mod::Replace(name.as_bytes().to_vec(), set(entry.values(name))));
    session.modify(&entry.dn, values.collect()).await
}

fn entry(base: &str, report: &NodeReport) -> Result<Entry, Fault> {
    let json = serde_json::to_string(report).map_err(|error| {
        Fault::new(FaultKind::Unusable, format!("the report of {}: {error}", report.node))
    })?;
    let dn = format!("cn={},ou=status,{base}", ldap3::dn_escape(&*report.node));
    let mut entry = Entry::new(dn, &[REPORT_CLASS]);
    entry.add("cn", report.node.as_str());
    entry.add(REPORT, json);
    entry.add(GENERATION, report.generation.to_string());
    entry.add(SINCE, report.since_s.to_string());
    if let Some(revision) = &report.revision {
        entry.add(REVISION, revision.as_str());
    }
    if let Some(error) = report.error.as_ref().filter(|error| !error.is_empty()) {
        entry.add(ERROR, error.as_str());
    }
    Ok(entry)
}

/// The revision of the source that is in force.
pub(super) const REVISION: &str = "tgReportRevision";
/// The generation number of the gateway's configuration in force.
pub(super) const GENERATION: &str = "tgReportGeneration";
/// Time at which this generation came into force, in seconds since 1970.
pub(super) const SINCE: &str = "tgReportSince";
/// Why the newest revision is not in force.
pub(super) const ERROR: &str = "tgReportError";

const PLAIN: [&str; 5] = [REPORT, REVISION, GENERATION, SINCE, ERROR];
