//! What is fetched of a large network before its time comes.
//!
//! A link, then the packet that arrives next on it, then what that packet goes to: each is found by what
//! was fetched before.

use tidegate_core::wheel::Near;

use super::{Lane, Leads, Network, Tag};
use crate::prefetch::prefetch;
use crate::routes::index;

/// Bytes of links from which on they and their packets do not stay near: most of the caches that a core
/// has to itself.
const NEAR: usize = 1 << 20;

impl Network {
    /// Whether it pays to fetch ahead.
    #[inline]
    pub(crate) const fn is_large(&self) -> bool {
        self.lanes.len() > NEAR / size_of::<Lane>()
    }

    /// The time of a part of the agenda comes near.
    #[inline]
    pub(crate) fn prepare(&self, near: Near, part: u32) {
        match near {
            Near::Soon => self.fetch_link(part),
            Near::Now => self.fetch_packet(part),
        }
    }

    /// Fetches link `way`, if there is one of this number.
    #[inline]
    pub(crate) fn fetch_link(&self, way: u32) {
        self.lanes.get(index(way)).into_iter().for_each(prefetch);
    }

    /// Fetches the packet that arrives next on link `way`.
    #[inline]
    pub(super) fn fetch_packet(&self, way: u32) {
        let lane = self.lanes.get(index(way));
        if let Some((packet, note)) = lane.and_then(|lane| lane.next_packet(&self.pool)) {
            prefetch(note);
            prefetch(packet);
        }
    }

    /// Fetches the link that the packet goes to which arrives next on link `way`; if it goes to a host,
    /// says who is to receive it.
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
