//! The topology file as it is written: which tables there are, and what may stand in them.

use tidegate_core::Rate;
use tidegate_core::link::{Jitter, Loss};
use tidegate_core::qdisc::QdiscSpec;
use toml::Spanned;
use toml::de::DeTable;

use super::Offloads;
use crate::diagnostic::Findings;
use crate::read::{Array, Choice, Field, List, Node, Number, Read, Required, Table, tables};
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
    }

    /// A gateway between some hosts and the network. Its ports are called as in its policy file.
    "[[gateway]]" Gateway {
        /// Its name: letters, digits, dashes, underscores.
        "name" => name: Required<String>,
        /// Path of its policy file, from where this file is.
        "policy" => policy: Option<Spanned<String>>,
        /// Its policy file itself, instead of the path.
        "inline" => inline: Option<Spanned<String>>,
    }

    /// A one-way route, shared by all packets that take it.
    "[[route]]" Route {
        /// The hosts whose packets take it, or "any". Default: "any".
        "from" => from: Option<Spanned<List<String>>>,
        /// The hosts they go to, or "any". Default: "any".
        "to" => to: Option<Spanned<List<String>>>,
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
        /// Where packets wait for a route that has a rate: a queue discipline. Default: "drop-tail".
        "queue" => queue: Option<Spanned<QdiscSpec>>,
    }
}

impl File {
    /// Reads the tables of a document.
    pub(super) fn from_document(document: &DeTable<'_>, found: &mut Findings) -> Self {
        Self::from_table(&Table::document(document), found)
    }
}

impl Choice for Offloads {
    const WHAT: &str = "a way to treat frames";
    const CHOICES: &[(&str, Self)] = &[("wire", Self::Wire), ("default", Self::Default)];
}
