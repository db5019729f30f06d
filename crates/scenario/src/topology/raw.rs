//! The tables of a topology file, with the fields as the author wrote them. The published
//! schema has the same descriptions of the fields.

use serde_json::{Value, json};
use tidegate_config::added::Mechanisms;
use tidegate_core::Rate;
use tidegate_core::link::{Jitter, Loss};
use tidegate_core::qdisc::QdiscSpec;
use toml::Spanned;
use toml::de::DeTable;

use super::Offloads;
use crate::diagnostic::Findings;
use crate::read::{
    Also, Array, Choice, Field, List, Node, Number, Read, Required, Table, tables, wrong_type,
};
use crate::scenario::raw::{Change, Probe, Run, Traffic};
use crate::tcp::Tcp;
use crate::values::{Flag, Period};

tables! {
    /// A topology file: hosts, gateways, and the network between them.
    "the file" File {
        /// Name of the lab. Default: the name of the file.
        "name" => name: Option<Spanned<String>>,
        /// Offloads of the hosts' interfaces: "wire" turns them off, so that frames look as on a real wire.
        /// "default" keeps the kernel's offloads between namespaces. Default: "wire".
        "offload" => offload: Option<Spanned<Offloads>>,
        /// Seed of jitter and losses. Default: 0.
        "seed" => seed: Option<Spanned<Number>>,
        /// The hosts.
        "host" => hosts: Required<Array<Host>>,
        /// The gateways.
        "gateway" => gateways: Option<Spanned<Array<Gateway>>>,
        /// Routes through the network. A packet takes the first route that matches.
        "route" => routes: Option<Spanned<Array<Route>>>,
        /// The routers; a lab has none.
        "router" => routers: Option<Spanned<Array<Router>>>,
        /// The links between nodes; a lab has none.
        "link" => links: Option<Spanned<Array<Link>>>,
        /// The run of the simulator; a lab ignores it.
        "run" => run: Option<Spanned<Run>>,
        /// Traffic of the simulator; a lab ignores it.
        "traffic" => traffic: Option<Spanned<Array<Traffic>>>,
        /// Measurements of the simulator beyond its counters; a lab ignores them.
        "probe" => probes: Option<Spanned<Array<Probe>>>,
        /// Changes of links during a run of the simulator; a lab ignores them.
        "change" => changes: Option<Spanned<Array<Change>>>,
    }

    /// A host.
    "[[host]]" Host {
        /// Its name: letters, digits, dashes, underscores.
        "name" => name: Required<String>,
        /// Its addresses. Default: one IPv4 and one IPv6 address, 10.73.0.N and fd73::N for the
        /// N-th host in the file.
        "address" => addresses: Option<Spanned<List<String>>>,
        /// The gateway on whose LAN side the host is. Default: none; the host is then attached to
        /// the network.
        "gateway" => gateway: Option<Spanned<String>>,
        /// Its TCP settings in the simulator. Without a `profile`, the table changes single fields
        /// of the settings in `[run]`.
        "tcp" => tcp: Option<Spanned<Tcp>>,
    }

    /// A gateway between hosts on its LAN side and the network, or another gateway. Its policy file
    /// names its ports.
    "[[gateway]]" Gateway {
        /// Its name: letters, digits, dashes, underscores.
        "name" => name: Required<String>,
        /// Path of its policy file, relative to this file.
        "policy" => policy: Option<Spanned<String>>,
        /// The text of its policy file, in place of the path.
        "inline" => inline: Option<Spanned<String>>,
        /// The gateway on whose LAN side this gateway is. Default: none; the gateway is then
        /// attached to the network.
        "gateway" => gateway: Option<Spanned<String>>,
    }

    /// A one-way route. All packets on this route share its rate.
    "[[route]]" Route {
        /// The hosts whose packets take the route, or "any". Default: "any".
        "from" => from: Option<Spanned<List<String>>>,
        /// The hosts that receive these packets, or "any". Default: "any".
        "to" => to: Option<Spanned<List<String>>>,
        /// Properties of the route.
        "way" => way: Also<Way>,
    }

    /// A router. It forwards each packet along the shortest path.
    "[[router]]" Router {
        /// Its name: letters, digits, dashes, underscores.
        "name" => name: Required<String>,
    }

    /// A link between two nodes. Nodes without a link are attached to the network of `[[route]]`.
    "[[link]]" Link {
        /// One end: a host, a router, or a port of a gateway, such as "edge.wan".
        "from" => from: Required<String>,
        /// The other end.
        "to" => to: Required<String>,
        /// Properties of the direction from `from` to `to`.
        "way" => way: Also<Way>,
        /// Properties in which the opposite direction differs; false if there is no opposite
        /// direction. Default: no differences.
        "back" => back: Option<Spanned<Back>>,
    }

    /// One direction of a link.
    "`back`" Way {
        /// Propagation delay. Default: "0 s".
        "delay" => delay: Option<Spanned<Period>>,
        /// Random variation of the delay: "2 ms" for a uniform deviation of at most 2 ms, or {
        /// normal = "2 ms" } for a normal distribution with this standard deviation. Default: none.
        "jitter" => jitter: Option<Spanned<Jitter>>,
        /// True if packets may overtake each other because of jitter. Default: false.
        "reorder" => reorder: Option<Spanned<Flag>>,
        /// Loss of packets: "0.1 %", or { p = "1 %", r = "30 %", good = "0 %", bad = "100 %" } for
        /// losses in bursts. Default: none.
        "loss" => loss: Option<Spanned<Loss>>,
        /// Rate of the link. Default: not limited.
        "rate" => rate: Option<Spanned<Rate>>,
        /// Queue discipline of a link with a rate. Default: "drop-tail".
        "queue" => queue: Option<Spanned<QdiscSpec>>,
    }
}

impl File {
    /// Reads the tables of `document`.
    pub(crate) fn from_document(document: &DeTable<'_>, found: &mut Findings) -> Self {
        Table::document(document).only(found)
    }
}

/// The direction from `to` to `from` of a link.
#[derive(Clone, Debug)]
pub(crate) enum Back {
    /// The link has no reverse direction.
    None,
    /// These fields differ from the forward direction.
    Differs(Box<Way>),
}

impl Read for Back {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        match node.get_ref().as_bool() {
            Some(false) => return Some(Self::None),
            Some(true) => {
                found.push(wrong_type(
                    node,
                    "false, or a table of the differences of the opposite direction",
                ));
                return None;
            }
            None => {}
        }
        Way::read(node, found).map(Box::new).map(Self::Differs)
    }

    fn schema(added: &Mechanisms) -> Value {
        json!({ "anyOf": [{ "const": false }, Way::schema(added)] })
    }
}

impl Choice for Offloads {
    const WHAT: &str = "a way to treat frames";
    const CHOICES: &[(&str, Self)] = &[("wire", Self::Wire), ("default", Self::Default)];
}
