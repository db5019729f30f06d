//! Topology files: hosts, gateways, and the network between them, for a lab or the simulator.

pub(crate) mod compile;
pub(crate) mod raw;

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;
use tidegate_config::added::Mechanisms;
use tidegate_core::emulator::{self, EmulatorConfig};
use tidegate_core::link::LinkConfig;

use crate::{Findings, read};

/// The content of a topology file, with all defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Name of the lab, if the file gives one.
    pub name: Option<String>,
    /// How the offloads of host interfaces are set.
    pub offloads: Offloads,
    /// The seed for jitter and losses.
    pub seed: u64,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The gateways; each serves at least one host or gateway.
    pub gateways: Vec<Gateway>,
    /// The routes through the network. They refer to hosts by index.
    pub routes: Vec<Route>,
}

/// A host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its addresses, at least one.
    pub addresses: Vec<IpAddr>,
    /// Index of the gateway on whose LAN side the host is; `None` for a host attached to the
    /// network.
    pub gateway: Option<usize>,
}

/// A gateway.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Gateway {
    /// Its name.
    pub name: String,
    /// Its policy file.
    pub policy: PolicyFile,
    /// Index of the gateway on whose LAN side this gateway is. Gateways form no cycle.
    pub gateway: Option<usize>,
}

/// The policy file of a gateway.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PolicyFile {
    /// The path of the file, relative to the topology file.
    Path(String),
    /// The text of the file, embedded in the topology file.
    Inline(String),
}

/// A one-way route through the network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Route {
    /// Indexes of the sending hosts; empty for all hosts.
    pub from: Vec<usize>,
    /// Indexes of the receiving hosts; empty for all hosts.
    pub to: Vec<usize>,
    /// Its properties.
    pub link: LinkConfig,
}

impl Route {
    /// Returns `true` if the route is for packets from host `from` to host `to`.
    pub(crate) fn leads(&self, from: usize, to: usize) -> bool {
        let fits = |ends: &[usize], host| ends.is_empty() || ends.contains(&host);
        fits(&self.from, from) && fits(&self.to, to)
    }
}

/// The offloads of interfaces.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Offloads {
    /// All offloads off: frames look as on a real wire.
    #[default]
    Wire,
    /// The kernel's defaults between namespaces: super-packets and unfinished checksums.
    Default,
}

/// A host at a port of the network, or a gateway with all hosts on its LAN side.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Attached {
    /// The host with this index.
    Host(usize),
    /// The gateway with this index.
    Gateway(usize),
}

/// Largest number of packets in the network of `[[route]]`.
const PACKETS: u32 = 16_384;

/// Reads a topology file for a lab. Tables that only the simulator uses are checked, and then
/// ignored. `path` is the file's name in messages.
///
/// ```
/// use std::time::Duration;
/// use tidegate_scenario::topology;
///
/// let text = r#"
/// [[host]]
/// name = "client"
///
/// [[host]]
/// name = "server"
///
/// [[route]]
/// to = "client"
/// delay = "20 ms"
/// rate = "8 Mbit/s"
/// "#;
/// let (topology, findings) = topology::parse("two-hosts.toml", text);
/// let topology = topology.unwrap_or_else(|| panic!("{}", findings.render(false)));
/// assert_eq!(topology.hosts.len(), 2);
/// assert_eq!(topology.routes[0].link.delay, Duration::from_millis(20));
/// ```
#[must_use]
pub fn parse(path: &str, text: &str) -> (Option<Topology>, Findings) {
    let mut found = Findings::new(path, text);
    let file = read::document(text, raw::File::from_document, &mut found);
    let topology = file.map(|file| {
        let topology = compile::compile(&file, &mut found);
        compile::fits_lab(&file, &topology, &mut found);
        topology
    });
    found.sort();
    (topology.filter(|_| !found.has_errors()), found)
}

/// Returns `true` if `text` is a valid name for a lab or a host.
#[must_use]
pub fn is_name(text: &str) -> bool {
    compile::is_name(text)
}

/// The JSON Schema of topology files.
#[must_use]
pub fn schema() -> Value {
    read::file_schema::<raw::File>("Tidegate topology file", &Mechanisms::default())
}

impl Topology {
    /// The hosts and gateways at the ports of the network.
    #[must_use]
    pub fn ports(&self) -> Vec<Attached> {
        let alone = |(number, host): (usize, &Host)| {
            host.gateway.is_none().then_some(Attached::Host(number))
        };
        let hosts = self.hosts.iter().enumerate().filter_map(alone);
        let outermost = |gateway: &usize| self.gateways[*gateway].gateway.is_none();
        let gateways = (0..self.gateways.len()).filter(outermost);
        hosts.chain(gateways.map(Attached::Gateway)).collect()
    }

    /// The hosts directly on the LAN side of a gateway.
    pub fn behind(&self, gateway: usize) -> impl Iterator<Item = usize> {
        (0..self.hosts.len()).filter(move |host| self.hosts[*host].gateway == Some(gateway))
    }

    /// The gateways directly on the LAN side of a gateway.
    pub fn gateways_behind(&self, gateway: usize) -> impl Iterator<Item = usize> {
        (0..self.gateways.len()).filter(move |it| self.gateways[*it].gateway == Some(gateway))
    }

    /// The gateway through which a host is attached to the network: the outermost, if there are
    /// several in a row. `None` if the host is attached directly.
    pub(crate) fn outermost(&self, host: usize) -> Option<usize> {
        let outer = |gateway: &usize| self.gateways[*gateway].gateway;
        std::iter::successors(self.hosts[host].gateway, outer).last()
    }

    /// The emulator's configuration of the network.
    #[must_use]
    pub fn network(&self) -> EmulatorConfig {
        let nets = |host: usize| self.hosts[host].addresses.iter().map(|it| (*it).into());
        let port = |attached| match attached {
            Attached::Host(host) => nets(host).collect(),
            Attached::Gateway(gateway) => {
                let behind = |host: &usize| self.outermost(*host) == Some(gateway);
                (0..self.hosts.len()).filter(behind).flat_map(nets).collect()
            }
        };
        self.between(self.ports().into_iter().map(port).collect())
    }

    /// Like [`network`](Self::network), for ports that lead to these addresses.
    pub(crate) fn between(&self, ports: Vec<Vec<IpNet>>) -> EmulatorConfig {
        let nets = |host: usize| self.hosts[host].addresses.iter().map(|it| (*it).into());
        let all = |hosts: &[usize]| hosts.iter().flat_map(|host| nets(*host)).collect();
        let route = |it: &Route| emulator::Route {
            from: all(&it.from),
            to: all(&it.to),
            link: it.link.clone(),
        };
        let routes = self.routes.iter().map(route).collect();
        EmulatorConfig { ports, routes, packets: PACKETS, seed: self.seed }
    }

    /// Returns `true` if the network has a route from host `from` to host `to`.
    pub(crate) fn leads(&self, from: usize, to: usize) -> bool {
        self.routes.iter().any(|route| route.leads(from, to))
    }
}

#[cfg(test)]
mod tests;
