//! Paths of packets through the network, cached for recent pairs of addresses.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ipnet::IpNet;

use super::EmulatorConfig;
use crate::packet::FlowKey;

/// The path of a packet through the network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Path {
    /// Number of its route.
    pub(super) route: u32,
    /// Its egress port.
    pub(super) port: usize,
}

/// All paths of a network.
pub(super) struct Paths {
    /// The addresses at each port.
    ports: Vec<Vec<IpNet>>,
    /// Sources and destinations of each route; an empty list matches any address.
    routes: Vec<(Vec<IpNet>, Vec<IpNet>)>,
    /// Cached results, by source and destination.
    known: HashMap<(u128, u128), Option<Path>, FixedState>,
}

/// Most pairs of addresses in the cache.
const REMEMBERED: usize = 1 << 16;

impl Paths {
    pub(super) fn new(config: &EmulatorConfig) -> Self {
        Self {
            ports: config.ports.clone(),
            routes: config.routes.iter().map(|it| (it.from.clone(), it.to.clone())).collect(),
            known: HashMap::with_hasher(FixedState::with_seed(config.seed)),
        }
    }

    /// The path of packets with this key; `None` without a matching route or port.
    ///
    /// The time is constant for any number of routes, except for the first packet between two
    /// hosts.
    pub(super) fn find(&mut self, key: &FlowKey) -> Option<Path> {
        let pair = (key.src.number(), key.dst.number());
        if let Some(path) = self.known.get(&pair) {
            return *path;
        }
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let path = self.search(key);
        self.known.insert(pair, path);
        path
    }

    fn search(&self, key: &FlowKey) -> Option<Path> {
        let (src, dst) = (key.src.address(), key.dst.address());
        let within = |nets: &[IpNet], address| nets.iter().any(|net| net.contains(address));
        let fits = |nets: &[IpNet], address| nets.is_empty() || within(nets, address);
        let port = self.ports.iter().position(|nets| within(nets, &dst))?;
        let route = self.routes.iter().position(|(from, to)| fits(from, &src) && fits(to, &dst))?;
        Some(Path { route: u32::try_from(route).ok()?, port })
    }
}
