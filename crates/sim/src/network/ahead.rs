//! Prefetches the memory of links and packets in large networks, before their events.
//!
//! The order is: the link, then the packet that arrives on it next, then the packet's destination.
//! Each step reads data that the step before has fetched.
//!
//! Methods of `Network`, whose fields are in `network.rs`.

use tidegate_core::wheel::Near;

use super::{Lane, Leads, Network, Tag};
use crate::prefetch::prefetch;
use crate::routes::index;

/// Total size of all links, in bytes, above which the network prefetches. Smaller networks fit into
/// the private cache of a processor core.
const NEAR: usize = 1 << 20;

impl Network {
    /// Returns `true` if the network is large enough for prefetching.
    #[inline]
    pub(crate) const fn is_large(&self) -> bool {
        self.lanes.len() > NEAR / size_of::<Lane>()
    }

    /// The agenda will soon call `part`: prefetches its data.
    #[inline]
    pub(crate) fn prepare(&self, near: Near, part: u32) {
        match near {
            Near::Soon => self.fetch_link(part),
            Near::Now => self.fetch_packet(part),
        }
    }

    /// Prefetches link direction `way`. Does nothing for other parts.
    #[inline]
    pub(crate) fn fetch_link(&self, way: u32) {
        self.lanes.get(index(way)).into_iter().for_each(prefetch);
    }

    /// Prefetches the packet that arrives next over link direction `way`.
    #[inline]
    pub(super) fn fetch_packet(&self, way: u32) {
        let lane = self.lanes.get(index(way));
        if let Some((packet, note)) = lane.and_then(|lane| lane.next_packet(&self.pool)) {
            prefetch(note);
            prefetch(packet);
        }
    }

    /// Looks at the packet that arrives next over link direction `way`. If the link leads to a
    /// router, prefetches the packet's next link. If it leads to a host, returns the packet's tag.
    #[inline]
    pub(crate) fn fetch_beyond(&self, way: u32) -> Option<Tag> {
        let lane = self.lanes.get(index(way))?;
        let (_, note) = lane.next_packet(&self.pool)?;
        let tag = Tag::of(*note);
        match lane.leads {
            Leads::Router(vertex) => self.fetch_link(self.routes.next(vertex, tag.host)),
            Leads::Host(_) => return Some(tag),
            Leads::Station(..) => {}
        }
        None
    }
}
