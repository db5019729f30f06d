//! Policy files of aggregate gateways: parses the text into a configuration, or reports findings.

mod compile;
mod raw;

use std::net::SocketAddr;

use ipnet::IpNet;
use serde_json::Value;
use tidegate_core::{Bytes, itcp};

use crate::added::Mechanisms;
use crate::{Findings, read};

/// The content of an aggregate gateway's file, with all defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateConfig {
    /// UDP address at which this gateway receives.
    pub listen: SocketAddr,
    /// UDP address at which the peer receives.
    pub peer: SocketAddr,
    /// The file with the private key of this gateway.
    pub key_file: String,
    /// The public key of the peer.
    pub peer_key: [u8; 32],
    /// The gateway carries TCP connections to these addresses.
    pub destinations: Vec<IpNet>,
    /// Addresses to which this gateway opens connections for the peer. `None`: all addresses except
    /// loopback, link-local and multicast.
    pub reachable: Option<Vec<IpNet>>,
    /// The source address of connections that this gateway opens for the peer.
    pub source: Source,
    /// Largest number of connections at once. `None`: half of the descriptor limit.
    pub max_connections: Option<usize>,
    /// What happens to new connections while the peer is down.
    pub on_peer_down: PeerDown,
    /// Sends FIN to a client only after the server has acknowledged the client's last byte.
    pub confirm_close: bool,
    /// Largest number of bytes that wait in a gateway for one connection and direction.
    pub stream_queue: Bytes,
    /// Largest number of bytes that wait in a gateway for all connections together.
    pub max_queue: Bytes,
    /// The rate adjuster, which finds the weight of the aggregate connection.
    pub weight: itcp::Config,
}

/// The source address of connections that a gateway opens for its peer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Source {
    /// The address of the client.
    Client,
    /// An address of this gateway.
    #[default]
    Gateway,
}

/// What happens to new connections while the peer is down.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PeerDown {
    /// The kernel routes them past the gateway.
    #[default]
    Pass,
    /// The gateway resets them.
    Refuse,
}

/// Reads the file of an aggregate gateway. `path` is the file's name in messages. If the findings
/// contain only warnings, there is a configuration.
pub fn parse(path: &str, text: &str) -> (Option<AggregateConfig>, Findings) {
    let mut found = Findings::new(path, text);
    let file = read::document(text, raw::File::from_document, &mut found);
    let config = file.and_then(|file| compile::compile(&file, &mut found));
    found.sort();
    (config.filter(|_| !found.has_errors()), found)
}

/// Returns `true` if `text` is the file of an aggregate gateway: it has an `[aggregate]` table,
/// which policy files lack.
#[must_use]
pub fn is_meant(text: &str) -> bool {
    toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("aggregate"))
}

/// The JSON Schema of these files.
#[must_use]
pub fn schema() -> Value {
    read::file_schema::<raw::File>("Tidegate aggregate gateway file", &Mechanisms::default())
}

#[cfg(test)]
mod tests;
