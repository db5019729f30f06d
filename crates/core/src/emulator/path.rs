//! The route and the egress port of a packet in the network emulator, with a cache by address pair.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ipnet::IpNet;

use super::EmulatorConfig;
use crate::packet::FlowKey;

/// The path of a packet through the emulated network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Path {
    /// Number of the route.
    pub(super) route: u32,
    /// Number of the egress port.
    pub(super) port: usize,
}

/// Finds the path of a packet by its addresses.
pub(super) struct Paths {
    /// Addresses of the hosts at each port.
    ports: Vec<Vec<IpNet>>,
    /// Source and destination addresses of each route. An empty list matches any address.
    routes: Vec<(Vec<IpNet>, Vec<IpNet>)>,
    /// Results of earlier searches, by source and destination address.
    known: HashMap<(u128, u128), Option<Path>, FixedState>,
}

/// Most address pairs in the cache. If there are more, the cache is emptied.
const REMEMBERED: usize = 1 << 16;

impl Paths {
    pub(super) fn new(config: &EmulatorConfig) -> Self {
        Self {
            ports: config.ports.clone(),
            routes: config.routes.iter().map(|it| (it.from.clone(), it.to.clone())).collect(),
            known: HashMap::with_hasher(FixedState::with_seed(config.seed)),
        }
    }

    /// The path of packets with this flow key. `None` if no route matches, or no port has the destination.
    ///
    /// Only the first packet between two hosts takes time in proportion to the number of routes.
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
