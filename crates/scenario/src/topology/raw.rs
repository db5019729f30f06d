//! The tables of a topology file, with the fields as written.

use serde_json::{Value, json};
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
    /// A topology file: hosts, gateways before some of them, and the network between.
    "the file" File {
        /// Name of the lab. Default: the name of the file.
        "name" => name: Option<Spanned<String>>,
        /// What the interfaces of hosts do to frames: "wire" for nothing, so that they look as on a
        /// real wire, or "default" for what the kernel does between namespaces. Default: "wire".
        "offload" => offload: Option<Spanned<Offloads>>,
        /// What seeds jitter and losses. Default: 0.
        "seed" => seed: Option<Spanned<Number>>,
        /// The hosts.
        "host" => hosts: Required<Array<Host>>,
        /// The gateways.
        "gateway" => gateways: Option<Spanned<Array<Gateway>>>,
        /// The ways through the network; a packet takes the first that fits.
        "route" => routes: Option<Spanned<Array<Route>>>,
        /// The routers; a lab has none.
        "router" => routers: Option<Spanned<Array<Router>>>,
        /// The links between nodes; a lab has none.
        "link" => links: Option<Spanned<Array<Link>>>,
        /// What the simulator does; a lab leaves it aside.
        "run" => run: Option<Spanned<Run>>,
        /// Who sends what to whom in the simulator; a lab leaves it aside.
        "traffic" => traffic: Option<Spanned<Array<Traffic>>>,
        /// What the simulator records beside the counters every run keeps; a lab leaves it aside.
        "probe" => probes: Option<Spanned<Array<Probe>>>,
        /// Links that change during a run of the simulator; a lab leaves it aside.
        "change" => changes: Option<Spanned<Array<Change>>>,
    }

    /// A host.
    "[[host]]" Host {
        /// Its name: letters, digits, dashes, underscores.
        "name" => name: Required<String>,
        /// Its addresses. Default: one IPv4 and one IPv6 address by its place in the file, 10.73.0.N
        /// and fd73::N.
        "address" => addresses: Option<Spanned<List<String>>>,
        /// The gateway it is behind. Default: none.
        "gateway" => gateway: Option<Spanned<String>>,
        /// In the simulator: its TCP, as of the run. Without a `profile` it changes fields of the run's.
        "tcp" => tcp: Option<Spanned<Tcp>>,
    }

    /// A gateway between some hosts and the network, or another gateway. Its ports are called as in its policy file.
    "[[gateway]]" Gateway {
        /// Its name: letters, digits, dashes, underscores.
        "name" => name: Required<String>,
        /// Path of its policy file, from where this file is.
        "policy" => policy: Option<Spanned<String>>,
        /// Its policy file itself, instead of the path.
        "inline" => inline: Option<Spanned<String>>,
        /// The gateway it is behind: its WAN port is on the LAN side of that one. Default: none.
        "gateway" => gateway: Option<Spanned<String>>,
    }

    /// A one-way route, shared by all packets that take it.
    "[[route]]" Route {
        /// The hosts whose packets take it, or "any". Default: "any".
        "from" => from: Option<Spanned<List<String>>>,
        /// The hosts they go to, or "any". Default: "any".
        "to" => to: Option<Spanned<List<String>>>,
        /// What it is like.
        "way" => way: Also<Way>,
    }

    /// A router: it forwards to the neighbour that is nearest to where a packet goes.
    "[[router]]" Router {
        /// Its name: letters, digits, dashes, underscores.
        "name" => name: Required<String>,
    }

    /// A link between two nodes. Those without a link are attached to the network of `[[route]]`.
    "[[link]]" Link {
        /// One end: a host, a router, or a port of a gateway, such as "edge.wan".
        "from" => from: Required<String>,
        /// The other end.
        "to" => to: Required<String>,
        /// What it is like from the one to the other.
        "way" => way: Also<Way>,
        /// What differs on the way back; false if there is none. Default: nothing differs.
        "back" => back: Option<Spanned<Back>>,
    }

    /// One way of a link.
    "`back`" Way {
        /// How long a packet travels. Default: "0 s".
        "delay" => delay: Option<Spanned<Period>>,
        /// How much that varies: "2 ms" for at most that much in either direction, or
        /// { normal = "2 ms" } for a standard deviation. Default: not at all.
        "jitter" => jitter: Option<Spanned<Jitter>>,
        /// Whether packets may overtake each other because of jitter. Default: false.
        "reorder" => reorder: Option<Spanned<Flag>>,
        /// Which packets are lost: "0.1 %", or { p = "1 %", r = "30 %", good = "0 %", bad = "100 %" }
        /// for bursts. Default: none.
        "loss" => loss: Option<Spanned<Loss>>,
        /// What it carries. Default: everything at once.
        "rate" => rate: Option<Spanned<Rate>>,
        /// Where packets wait for one that has a rate: a queue discipline. Default: "drop-tail".
        "queue" => queue: Option<Spanned<QdiscSpec>>,
    }
}

impl File {
    /// Reads the tables of `document`.
    pub(crate) fn from_document(document: &DeTable<'_>, found: &mut Findings) -> Self {
        Table::document(document).only(found)
    }
}

/// The properties of the reverse direction of a link.
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
                found.push(wrong_type(node, "false, or a table of what differs on the way back"));
                return None;
            }
            None => {}
        }
        Way::read(node, found).map(Box::new).map(Self::Differs)
    }

    fn schema() -> Value {
        json!({ "anyOf": [{ "const": false }, Way::schema()] })
    }
}

impl Choice for Offloads {
    const WHAT: &str = "a way to treat frames";
    const CHOICES: &[(&str, Self)] = &[("wire", Self::Wire), ("default", Self::Default)];
}
