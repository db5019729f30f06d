//! The links of a scenario. Some are `[[link]]` tables of the file; the others connect gateways to
//! the nodes on their LAN side, and nodes without a link to the network of `[[route]]`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ipnet::IpNet;
use tidegate_core::emulator::EmulatorConfig;
use tidegate_core::link::LinkConfig;
use tidegate_sim::scenario::{End, Link, Pair, Side, Traffic};
use toml::Spanned;

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::one_of;
use crate::topology::compile::{link, rows};
use crate::topology::raw::{self, File};
use crate::topology::{Attached, Topology};

/// Name of the node that represents the network of `[[route]]` tables.
pub(super) const CLOUD: &str = "cloud";

/// The links between the nodes, and the network of `[[route]]`.
pub(super) struct Network<'a> {
    topology: &'a Topology,
    /// The links, in this order: those in the file; those between gateways and the nodes on their
    /// LAN side; those to the network of `[[route]]`.
    pub(super) links: Vec<Link>,
    /// The network of `[[route]]`, if any node is attached to it.
    pub(super) cloud: Option<EmulatorConfig>,
    /// The site of each node, by the node's name. The nodes of a site reach each other without the
    /// network of `[[route]]`.
    sites: HashMap<String, usize>,
}

impl<'a> Network<'a> {
    pub(super) fn new(file: &File, topology: &'a Topology, found: &mut Findings) -> Self {
        let ends = Ends::new(file, topology);
        let written = rows(file.links.as_ref());
        let mut links: Vec<_> =
            written.iter().filter_map(|it| written_link(it.get_ref(), &ends, found)).collect();
        share(&mut links);
        alone(file, &links, found);
        links.extend(topology.hosts.iter().filter_map(|host| {
            let node = topology.gateways.get(host.gateway?)?.name.clone();
            Some(wire(End::of(&host.name), End { node, side: Side::Lan }))
        }));
        links.extend(topology.gateways.iter().filter_map(|gateway| {
            let [node, outer] =
                [gateway, topology.gateways.get(gateway.gateway?)?].map(|it| it.name.clone());
            Some(wire(End { node, side: Side::Wan }, End { node: outer, side: Side::Lan }))
        }));
        let mut this = Self { topology, sites: sites(&ends, &links), links, cloud: None };
        if file.routes.is_some() {
            this.attach(found);
        }
        this
    }

    /// Attaches all nodes without a link to the network of `[[route]]`.
    fn attach(&mut self, found: &mut Findings) {
        let linked: HashSet<_> = self.links.iter().flat_map(|it| [&it.a, &it.b]).cloned().collect();
        let ends = self.topology.ports().into_iter().map(|attached| match attached {
            Attached::Host(host) => End::of(&self.topology.hosts[host].name),
            Attached::Gateway(gateway) => {
                End { node: self.topology.gateways[gateway].name.clone(), side: Side::Wan }
            }
        });
        let ends: Vec<_> = ends.filter(|end| !linked.contains(end)).collect();
        if ends.len() > MOST_PORTS {
            let message = format!("{} hosts and gateways have no link", ends.len());
            let help = format!(
                "the network of [[route]] has at most {MOST_PORTS} ports; join some by a router"
            );
            found.push(Diagnostic::error(Code::TooMuch, 0..0, message).help(help));
        }
        let ports = ends.iter().map(|end| self.behind(end)).collect();
        self.cloud = Some(self.topology.between(ports));
        for (port, end) in (0..=u8::MAX).zip(ends) {
            let port = End { node: CLOUD.to_owned(), side: Side::Port(port) };
            self.links.push(wire(end, port));
        }
    }

    /// The addresses of all hosts in the site of `end`.
    fn behind(&self, end: &End) -> Vec<IpNet> {
        let site = |name: &str| self.sites.get(name);
        let hosts = self.topology.hosts.iter().filter(|it| site(&it.name) == site(&end.node));
        hosts.flat_map(|it| it.addresses.iter().map(|it| (*it).into())).collect()
    }

    /// Reports traffic between two sites without a `[[route]]` between its hosts.
    pub(super) fn lead(&self, traffic: &[Traffic], file: &File, found: &mut Findings) {
        let hosts = (0..).zip(&self.topology.hosts).map(|(n, it)| (it.name.as_str(), n));
        let hosts: HashMap<&str, usize> = hosts.collect();
        for (traffic, raw) in traffic.iter().zip(rows(file.traffic.as_ref())) {
            let apart = |it: &&Pair| self.sites.get(&it.from) != self.sites.get(&it.to);
            for pair in traffic.pairs.iter().filter(apart) {
                let (Some(from), Some(to)) = (hosts.get(&*pair.from), hosts.get(&*pair.to)) else {
                    continue;
                };
                let there = self.topology.leads(*from, *to);
                if there && (!traffic.kind.is_tcp() || self.topology.leads(*to, *from)) {
                    continue;
                }
                let (from, to) =
                    if there { (&pair.to, &pair.from) } else { (&pair.from, &pair.to) };
                let message = format!("no route leads from `{from}` to `{to}`");
                let help =
                    "add a [[route]]; a route without `from` and `to` serves all other hosts";
                found.push(Diagnostic::error(Code::NoWay, raw.span(), message).help(help));
                break;
            }
        }
    }
}

/// A link without rate and delay.
fn wire(a: End, b: End) -> Link {
    Link::new(a, b, LinkConfig::default())
}

/// Maximum number of nodes attached to the network of `[[route]]`.
const MOST_PORTS: usize = 256;

/// Numbers the sites. A site contains all nodes that links connect, directly or through other
/// nodes.
fn sites(ends: &Ends<'_>, links: &[Link]) -> HashMap<String, usize> {
    let names: Vec<_> = ends.nodes.keys().copied().collect();
    let mut sites: HashMap<&str, usize> = names.iter().copied().zip(0..).collect();
    let mut parent: Vec<usize> = (0..names.len()).collect();
    let root = |parent: &mut Vec<usize>, mut at: usize| {
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    };
    for link in links {
        let (Some(a), Some(b)) = (sites.get(&*link.a.node), sites.get(&*link.b.node)) else {
            continue;
        };
        let (a, b) = (root(&mut parent, *a), root(&mut parent, *b));
        parent[a] = b;
    }
    for number in sites.values_mut() {
        *number = root(&mut parent, *number);
    }
    sites.into_iter().map(|(name, site)| (name.to_owned(), site)).collect()
}

/// Finds the ends of links by their names in the file, such as `r` or `edge.wan`.
pub(super) struct Ends<'a> {
    /// For each node, `true` if it is a gateway.
    nodes: HashMap<&'a str, bool>,
    /// All valid names of ends, in the order of the file.
    all: Vec<String>,
}

impl<'a> Ends<'a> {
    pub(super) fn new(file: &'a File, topology: &'a Topology) -> Self {
        let hosts = topology.hosts.iter().map(|it| it.name.as_str());
        let routers = rows(file.routers.as_ref()).iter();
        let routers = routers.filter_map(|it| Some(it.get_ref().name.get()?.get_ref().as_str()));
        let gateways = topology.gateways.iter().map(|it| it.name.as_str());
        let single: Vec<_> = hosts.chain(routers).collect();
        let ports = gateways.clone().flat_map(|it| [format!("{it}.lan"), format!("{it}.wan")]);
        Self {
            all: single.iter().map(|it| (*it).to_owned()).chain(ports).collect(),
            nodes: gateways
                .map(|it| (it, true))
                .chain(single.iter().map(|it| (*it, false)))
                .collect(),
        }
    }

    /// The end of a link that `written` names.
    pub(super) fn find(&self, written: &Spanned<String>, found: &mut Findings) -> Option<End> {
        let text = written.get_ref().as_str();
        let is_gateway = |name: &str| self.nodes.get(name).copied();
        let side = |side: &str| match side {
            "lan" => Some(Side::Lan),
            "wan" => Some(Side::Wan),
            _ => None,
        };
        if is_gateway(text) == Some(false) {
            return Some(End::of(text));
        }
        if let Some((node, port)) = text.rsplit_once('.')
            && is_gateway(node) == Some(true)
            && let Some(side) = side(port)
        {
            return Some(End { node: node.to_owned(), side });
        }
        let (message, help) = if is_gateway(text) == Some(true) {
            let message = format!("gateway `{text}` has two ports");
            (message, format!("write \"{text}.lan\" towards its hosts, \"{text}.wan\" beyond"))
        } else {
            let all: Vec<_> = self.all.iter().map(String::as_str).collect();
            (format!("there is no node `{}`", text.escape_debug()), one_of(text, &all))
        };
        found.push(Diagnostic::error(Code::UnknownNode, written.span(), message).help(help));
        None
    }
}

fn written_link(raw: &raw::Link, ends: &Ends<'_>, found: &mut Findings) -> Option<Link> {
    let a = raw.from.get().and_then(|it| ends.find(it, found));
    let b = raw.to.get().and_then(|it| ends.find(it, found));
    let forward = Arc::new(link(&raw.way.0, &LinkConfig::default(), "a link", found));
    let back = match raw.back.as_ref().map(Spanned::get_ref) {
        None => Some(Arc::clone(&forward)),
        Some(raw::Back::None) => None,
        Some(raw::Back::Differs(way)) => Some(Arc::new(link(way, &forward, "a link", found))),
    };
    Some(Link { a: a?, b: b?, forward: Some(forward), back })
}

/// Successive links with equal properties share one copy of these properties in memory.
fn share(links: &mut [Link]) {
    let mut last: [Option<Arc<LinkConfig>>; 2] = [None, None];
    for link in links {
        for (way, last) in [&mut link.forward, &mut link.back].into_iter().zip(&mut last) {
            if way == last {
                way.clone_from(last);
            }
            last.clone_from(way);
        }
    }
}

/// Reports routers without a link.
fn alone(file: &File, links: &[Link], found: &mut Findings) {
    let linked: HashSet<_> = links.iter().flat_map(|it| [&it.a.node, &it.b.node]).collect();
    for router in rows(file.routers.as_ref()) {
        let Some(name) = router.get_ref().name.get() else { continue };
        if !linked.contains(name.get_ref()) {
            let message = format!("no link leads to router `{}`", name.get_ref().escape_debug());
            found.push(Diagnostic::error(Code::Alone, name.span(), message));
        }
    }
}
