//! Prefetching in large networks, before a part is due.
//!
//! The order is: a link, the next packet to arrive on it, then the packet's destination. Each step
//! uses data of the step before.
//!
//! Methods of `Network`, whose fields are in `network.rs`.

use tidegate_core::wheel::Near;

use super::{Lane, Leads, Network, Tag};
use crate::prefetch::prefetch;
use crate::routes::index;

/// Size of all links, in bytes, from which prefetching is used. It is most of the private cache of
/// a core.
const NEAR: usize = 1 << 20;

impl Network {
    /// Returns `true` if the network is large enough for prefetching.
    #[inline]
    pub(crate) const fn is_large(&self) -> bool {
        self.lanes.len() > NEAR / size_of::<Lane>()
    }

    /// A part of the agenda will be due soon.
    #[inline]
    pub(crate) fn prepare(&self, near: Near, part: u32) {
        match near {
            Near::Soon => self.fetch_link(part),
            Near::Now => self.fetch_packet(part),
        }
    }

    /// Prefetches link `way`, if the number is that of a link.
    #[inline]
    pub(crate) fn fetch_link(&self, way: u32) {
        self.lanes.get(index(way)).into_iter().for_each(prefetch);
    }

    /// Prefetches the next packet to arrive on link `way`.
    #[inline]
    pub(super) fn fetch_packet(&self, way: u32) {
        let lane = self.lanes.get(index(way));
        if let Some((packet, note)) = lane.and_then(|lane| lane.next_packet(&self.pool)) {
            prefetch(note);
            prefetch(packet);
        }
    }

    /// Prefetches the next link of the packet that arrives next on link `way`. If it goes to a
    /// host, returns its tag instead.
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
