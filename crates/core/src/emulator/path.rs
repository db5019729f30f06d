//! Which way a packet goes, remembered for the addresses that have talked lately.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ipnet::IpNet;

use super::EmulatorConfig;
use crate::packet::FlowKey;

/// The way of a packet through the network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Path {
    /// The route it takes.
    pub(super) route: u32,
    /// The port it leaves by.
    pub(super) port: usize,
}

/// All ways there are.
pub(super) struct Paths {
    /// The addresses behind each port.
    ports: Vec<Vec<IpNet>>,
    /// From whom to whom each route leads; an empty list is anybody.
    routes: Vec<(Vec<IpNet>, Vec<IpNet>)>,
    /// What was found, by source and destination.
    known: HashMap<(u128, u128), Option<Path>, FixedState>,
}

/// Pairs of addresses remembered at once.
const REMEMBERED: usize = 1 << 16;

impl Paths {
    pub(super) fn new(config: &EmulatorConfig) -> Self {
        Self {
            ports: config.ports.clone(),
            routes: config.routes.iter().map(|it| (it.from.clone(), it.to.clone())).collect(),
            known: HashMap::with_hasher(FixedState::with_seed(config.seed)),
        }
    }

    /// The way of packets with this key; `None` if no route or no port is theirs.
    ///
    /// It takes the same time for any number of routes, but for the first packet between two hosts.
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
