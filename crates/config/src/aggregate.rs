//! Files of aggregate gateways: parses text into a configuration, or into findings.

mod compile;
mod raw;

use std::net::SocketAddr;

use ipnet::IpNet;
use serde_json::Value;
use tidegate_core::{Bytes, itcp};

use crate::{Findings, read};

/// The content of the file of an aggregate gateway, with every default filled in.
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
    /// TCP connections to these addresses are carried.
    pub destinations: Vec<IpNet>,
    /// The peer may have this gateway open connections to these addresses. With `None`, to all
    /// except loopback, link-local and multicast addresses.
    pub reachable: Option<Vec<IpNet>>,
    /// The source address of connections that are opened here for the peer.
    pub source: Source,
    /// Maximum number of connections at once; half of the descriptor limit, if `None`.
    pub max_connections: Option<usize>,
    /// The treatment of new connections while the peer is down.
    pub on_peer_down: PeerDown,
    /// Sends FIN to a client only after the server has acknowledged the client's last byte.
    pub confirm_close: bool,
    /// Largest number of bytes of a connection that wait in a gateway, in one direction.
    pub stream_queue: Bytes,
    /// Largest number of bytes of all connections together that wait in a gateway.
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

/// The treatment of new connections while the peer is down.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PeerDown {
    /// They are routed past the gateway.
    #[default]
    Pass,
    /// They are reset.
    Refuse,
}

/// Reads the file of an aggregate gateway. `path` is its name in messages.
///
/// The findings may hold warnings even if there is a result.
pub fn parse(path: &str, text: &str) -> (Option<AggregateConfig>, Findings) {
    let mut found = Findings::new(path, text);
    let file = read::document(text, raw::File::from_document, &mut found);
    let config = file.and_then(|file| compile::compile(&file, &mut found));
    found.sort();
    (config.filter(|_| !found.has_errors()), found)
}

/// Returns `true` for the file of an aggregate gateway, which has an `[aggregate]` table, unlike a
/// policy file.
#[must_use]
pub fn is_meant(text: &str) -> bool {
    toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("aggregate"))
}

/// The JSON Schema of these files.
#[must_use]
pub fn schema() -> Value {
    read::file_schema::<raw::File>("Tidegate aggregate gateway file")
}

#[cfg(test)]
mod tests;
