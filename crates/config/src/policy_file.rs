//! Policy files: from text to what the gateway runs, or to everything that is wrong with it.

mod between;
mod canonical;
mod classes;
mod compile;
mod each_way;
pub(crate) mod filter;
mod markings;
mod overhead;
mod rates;
pub(crate) mod raw;
mod sources;
mod trunks;
mod weight;

pub use canonical::canonical;
pub use compile::is_usable_name;

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;
use tidegate_core::Bytes;
use tidegate_core::gateway::GatewayConfig;
use tidegate_core::policy::{ClassSet, Policy, PolicySet, PolicySetError};
use toml::de::DeTable;

use crate::item::Part;
use crate::source::SourceSpec;
use crate::{Findings, Host, parts, read};

/// What a policy file says, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Interface towards the users.
    pub lan: String,
    /// Interface towards the Internet.
    pub wan: String,
    /// How the ports are opened.
    pub backend: Backend,
    /// For how long the kernel waits for a sign of life before it passes frames straight across.
    pub heartbeat: Duration,
    /// The gateway itself; its seed is not from the file.
    pub gateway: GatewayConfig,
    /// The policies, in the order of the file.
    pub policies: Vec<Policy>,
    /// The classes that share the link.
    pub classes: ClassSet,
    /// The sources of further policies, in the order of the file.
    pub sources: Vec<SourceSpec>,
    /// What a live gateway is told of its trunks beside, in their order; none for one that lacks it.
    pub trunk_ends: Vec<Option<TrunkEnd>>,
}

/// What a live gateway is told of a trunk, beside what the simulator needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TrunkEnd {
    /// Where what goes to the other end is sent.
    pub next_hop: NextHop,
    /// The file with its key.
    pub key_file: String,
    /// The longest IP packet that the path carries; none for what the WAN port sends.
    pub mtu: Option<u32>,
}

/// Who is sent what goes to the other end of a trunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextHop {
    /// Who has this address; it is asked for.
    Address(IpAddr),
    /// Who has this hardware address.
    Mac([u8; 6]),
}

impl Config {
    /// The policies and classes, in their order.
    ///
    /// # Errors
    ///
    /// If two policies have the same name, which no file that was read has.
    pub fn policy_set(&self) -> Result<PolicySet, PolicySetError> {
        Ok(PolicySet::new(self.policies.clone())?.with_classes(self.classes.clone()))
    }
}

/// How the ports are opened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Backend {
    /// AF_XDP where the host can do it, else AF_PACKET.
    #[default]
    Auto,
    /// AF_XDP or nothing.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
}

/// The longest frame of an Ethernet with the usual MTU of 1500 bytes.
const USUAL_FRAME: Bytes = Bytes(1_514);

/// Reads a policy file; with `host`, also sees whether it fits that host.
///
/// `path` is only what messages call it. The findings may hold warnings even when all is well.
pub fn parse(path: &str, text: &str, host: Option<&Host>) -> (Option<Config>, Findings) {
    parse_parts(path, text, |_| Vec::new(), host)
}

/// The same for a policy file whose set has more parts, which `parts` gives for its head: the files it includes, and
/// the sets of its sources.
///
/// Parts hold `[[policy]]`, `[[class]]` and `[[trunk]]` tables only. The order of the parts orders policies of equal
/// priority and specificity.
pub fn parse_parts(
    path: &str,
    text: &str,
    parts: impl FnOnce(&Head) -> Vec<Part>,
    host: Option<&Host>,
) -> (Option<Config>, Findings) {
    let mut found = Findings::new(path, text);
    let document = read::parse(text, 0, &mut found);
    let parts = parts(&document.as_ref().map(Head::read).unwrap_or_default());
    let file = parts::merge(document, &parts, &mut found);
    let file = file.map(|document| raw::File::from_document(&document, &mut found));
    let config = file.and_then(|file| compile::compile(&file, host, &mut found));
    found.sort();
    (config.filter(|_| !found.has_errors()), found)
}

/// The other places to read that a policy file names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// The files it includes: paths or patterns, relative to its directory.
    pub includes: Vec<String>,
    /// The sources of further policies, in its order.
    pub sources: Vec<SourceSpec>,
}

impl Head {
    /// The head of the policy file with this `text`. Leaves out what has errors; [`parse`] reports these.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let document = read::parse(text, 0, &mut Findings::new("", text));
        document.as_ref().map(Self::read).unwrap_or_default()
    }

    fn read(document: &DeTable<'_>) -> Self {
        let mut found = Findings::new("", "");
        let head = raw::Head::from_document(document, &mut found);
        Self {
            includes: sources::texts(head.include.as_ref()),
            sources: sources::compile(head.sources.as_ref(), &mut found),
        }
    }
}

/// The JSON Schema of policy files.
#[must_use]
pub fn schema() -> Value {
    read::file_schema::<raw::File>("Tidegate policy file")
}

#[cfg(test)]
mod tests;
