//! The tables of an aggregate gateway's file, with the fields as the operator wrote them.

use serde_json::Value;
use tidegate_core::{Bytes, itcp};
use toml::Spanned;
use toml::de::DeTable;

use super::{PeerDown, Source};
use crate::added::Mechanisms;
use crate::diagnostic::Findings;
use crate::read::{Choice, Field, List, Node, Number, Read, Required, Table, tables};
use crate::values::{Flag, Weight};

tables! {
    /// The file of an aggregate gateway: it ends TCP connections and carries them to its peer over one connection.
    "the file" File {
        /// The gateway.
        "aggregate" => aggregate: Required<Aggregate>,
    }

    /// The gateway.
    "[aggregate]" Aggregate {
        /// Address and UDP port where the aggregate connection is received, such as "203.0.113.1:4755".
        "listen" => listen: Required<String>,
        /// Address and UDP port of the peer.
        "peer" => peer: Required<String>,
        /// The file with the private key of this gateway, as `tidegate aggregate key FILE` writes it.
        "key_file" => key_file: Required<String>,
        /// The public key of the peer: 64 hexadecimal digits, as `tidegate aggregate key FILE` prints them at the peer.
        "peer_key" => peer_key: Required<String>,
        /// TCP connections to these prefixes are carried to the peer.
        "destinations" => destinations: Required<List<String>>,
        /// The peer may open connections to these prefixes. Default: all addresses except loopback, link-local and
        /// multicast addresses.
        "reachable" => reachable: Option<Spanned<List<String>>>,
        /// The source address of connections that this gateway opens for the peer: the gateway's own address
        /// ("gateway"), or the address of the client ("client"). The route back to the client must then lead through
        /// this gateway. Default: "gateway".
        "source" => source: Option<Spanned<Source>>,
        /// Largest number of connections at once. Further connections are reset. Default: half of the descriptor limit.
        "max_connections" => max_connections: Option<Spanned<Number>>,
        /// New connections while the peer is down: "pass" routes them past the gateway, "refuse" resets them.
        /// Default: "pass".
        "on_peer_down" => on_peer_down: Option<Spanned<PeerDown>>,
        /// True to send FIN to a client only after the server has acknowledged the client's last byte. Default: false.
        "confirm_close" => confirm_close: Option<Spanned<Flag>>,
        /// Largest number of bytes that wait in a gateway for one connection and direction. Default: "256 KiB".
        "stream_queue" => stream_queue: Option<Spanned<Bytes>>,
        /// Largest number of bytes of all connections that wait in a gateway. Default: "64 MiB".
        "max_queue" => max_queue: Option<Spanned<Bytes>>,
        /// The rule for the weight of the aggregate connection: "fixed", "literal", "measured" or "proportional", or a
        /// table of its parameters. The `max_queue` of "literal" is that of the gateway. Default: "measured".
        "weight" => weight: Option<Spanned<Adjuster>>,
    }
}

impl File {
    /// Reads a whole file.
    pub(super) fn from_document(document: &DeTable<'_>, found: &mut Findings) -> Self {
        Table::document(document).only(found)
    }
}

impl Choice for Source {
    const WHAT: &str = "a source address";
    const CHOICES: &[(&str, Self)] = &[("client", Self::Client), ("gateway", Self::Gateway)];
}

impl Choice for PeerDown {
    const WHAT: &str = "a treatment of connections while the peer is down";
    const CHOICES: &[(&str, Self)] = &[("pass", Self::Pass), ("refuse", Self::Refuse)];
}

/// The rate adjuster of the aggregate connection.
#[derive(Clone, Debug)]
pub(crate) struct Adjuster {
    pub(super) config: itcp::Config,
    /// The table sets `max_queue` itself.
    pub(super) has_queue: bool,
}

impl Read for Adjuster {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let Weight(config) = Weight::read(node, found)?;
        let table = node.get_ref().as_table();
        Some(Self { config, has_queue: table.is_some_and(|it| it.contains_key("max_queue")) })
    }

    fn schema(added: &Mechanisms) -> Value {
        Weight::schema(added)
    }
}
