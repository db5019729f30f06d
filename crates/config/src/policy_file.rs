//! Policy files: parses the text into a configuration of the gateway, or reports findings.

mod backend;
mod between;
mod canonical;
mod classes;
mod compile;
mod each_way;
pub mod filter;
mod markings;
mod overhead;
mod rates;
pub(crate) mod raw;
mod sources;
mod terms;
mod trunks;
mod weight;

pub use backend::Backend;
pub use canonical::{canonical, canonical_with};
pub use compile::is_usable_name;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::policy::{ClassSet, Policy, PolicySet, PolicySetError};
use toml::de::DeTable;

use crate::added::Mechanisms;
use crate::item::Part;
use crate::source::SourceSpec;
use crate::{Findings, Host, parts, read};

/// The content of a policy file, with all defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Interface towards the users.
    pub lan: String,
    /// Interface towards the Internet.
    pub wan: String,
    /// The kind of ports (AF_XDP or AF_PACKET).
    pub backend: Backend,
    /// Longest time between two heartbeats of the gateway. After a longer time, the kernel passes
    /// frames without the gateway.
    pub heartbeat: Duration,
    /// The configuration of the core's gateway. Its seed is not in the file.
    pub gateway: GatewayConfig,
    /// The policies, in the order of the file.
    pub policies: Vec<Policy>,
    /// The classes that share the link.
    pub classes: ClassSet,
    /// The sources of further policies, in the order of the file.
    pub sources: Vec<SourceSpec>,
    /// For each trunk, the settings that only a live gateway needs; `None` if the file lacks them.
    pub trunk_ends: Vec<Option<TrunkEnd>>,
}

/// Settings of a trunk that a live gateway needs and the simulator does not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TrunkEnd {
    /// The next hop towards the gateway at the other end.
    pub next_hop: NextHop,
    /// The file with the trunk's key.
    pub key_file: String,
    /// The longest IP packet that the path carries; `None` for the MTU of the WAN port.
    pub mtu: Option<u32>,
}

/// The next hop of packets to the gateway at the other end of a trunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextHop {
    /// The router with this IP address. The gateway resolves its MAC address.
    Address(IpAddr),
    /// The router with this MAC address.
    Mac([u8; 6]),
}

impl Config {
    /// The policies and classes, in the order of the file.
    ///
    /// # Errors
    ///
    /// If two policies have the same name. [`parse`] rejects such files.
    pub fn policy_set(&self) -> Result<PolicySet, PolicySetError> {
        Ok(PolicySet::new(self.policies.clone())?.with_classes(self.classes.clone()))
    }
}

/// Reads a policy file. With `host`, also checks that the file fits this host.
///
/// `path` is the file's name in messages. If the findings contain only warnings, there is a
/// configuration.
///
/// ```
/// use tidegate_config::policy_file;
/// use tidegate_core::packet::{Direction, Packet};
///
/// let text = r#"
/// [gateway]
/// lan = "eth0"
/// wan = "eth1"
///
/// [[policy]]
/// name = "downloads"
/// match = { direction = "down" }
/// action = "shape"
/// profile = { mean = "20 Mbit/s" }
/// "#;
/// let (config, findings) = policy_file::parse("home.toml", text, None);
/// let policies = config.unwrap().policy_set().unwrap();
/// assert!(policies.lookup(&Packet::default(), Direction::Down).is_some());
/// assert!(policies.lookup(&Packet::default(), Direction::Up).is_none());
///
/// // A finding names the line and the remedy.
/// let (config, findings) = policy_file::parse("home.toml", &text.replace("20 Mbit/s", "20"), None);
/// assert!(config.is_none());
/// assert!(findings.render(false).contains("has no unit"));
/// ```
pub fn parse(path: &str, text: &str, host: Option<&Host>) -> (Option<Config>, Findings) {
    parse_parts(path, text, |_| Vec::new(), host)
}

/// Like [`parse`], for a policy set in several parts. `parts` gets the head of the file, which
/// names the other parts. It returns the included files and the sets of the sources.
///
/// Parts contain only `[[policy]]`, `[[class]]` and `[[trunk]]` tables. The order of the parts has
/// no effect on the precedence of policies.
pub fn parse_parts(
    path: &str,
    text: &str,
    parts: impl FnOnce(&Head) -> Vec<Part>,
    host: Option<&Host>,
) -> (Option<Config>, Findings) {
    read_into(Findings::new(path, text), text, parts, host)
}

/// Like [`parse`], for a file that may name mechanisms of other crates, which `added` lists.
pub fn parse_with(
    path: &str,
    text: &str,
    added: Arc<Mechanisms>,
    host: Option<&Host>,
) -> (Option<Config>, Findings) {
    read_into(Findings::with(path, text, added), text, |_| Vec::new(), host)
}

fn read_into(
    mut found: Findings,
    text: &str,
    parts: impl FnOnce(&Head) -> Vec<Part>,
    host: Option<&Host>,
) -> (Option<Config>, Findings) {
    let document = read::parse(text, 0, &mut found);
    let parts = parts(&document.as_ref().map(Head::read).unwrap_or_default());
    let file = parts::merge(document, &parts, &mut found);
    let file = file.map(|document| raw::File::from_document(&document, &mut found));
    let config = file.and_then(|file| compile::compile(&file, host, &mut found));
    found.sort();
    (config.filter(|_| !found.has_errors()), found)
}

/// The head of a policy file: it names the other parts of the policy set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// The included files: paths or patterns, relative to the directory of the policy file.
    pub includes: Vec<String>,
    /// The sources of further policies, in the order of the file.
    pub sources: Vec<SourceSpec>,
}

impl Head {
    /// The head of the policy file `text`. Leaves out entries with errors, which [`parse`] reports.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let document = read::parse(text, 0, &mut Findings::new("", text));
        document.as_ref().map(Self::read).unwrap_or_default()
    }

    fn read(document: &DeTable<'_>) -> Self {
        let mut found = Findings::new("", "");
        let head = raw::FurtherParts::from_document(document, &mut found);
        Self {
            includes: sources::texts(head.include.as_ref()),
            sources: sources::compile(head.sources.as_ref(), &mut found),
        }
    }
}

/// The JSON Schema of policy files.
#[must_use]
pub fn schema() -> Value {
    schema_with(&Mechanisms::default())
}

/// Like [`schema`], for files that may name mechanisms of other crates, which `added` lists.
#[must_use]
pub fn schema_with(added: &Mechanisms) -> Value {
    read::file_schema::<raw::File>("Tidegate policy file", added)
}

#[cfg(test)]
mod tests;
