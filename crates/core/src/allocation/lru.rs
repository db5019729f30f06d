//! Least recently used: one bucket for all flows. The flow whose last packet departed longest ago sends next.
//!
//! Source: `aggregates`, section 4.3 (one bucket for all flows, least recently used first).

use super::bits::Bits;
use super::common::{CommonBucket, Order};
use super::{Allocation, Share};
use crate::meter::Profile;
use crate::packet::{FlowIndex, Ring, make_room};
use crate::{Bytes, Time, parameters};

parameters! {
    /// No parameters.
    pub Config {}
}

impl Config {
    pub(super) fn build(&self, profile: &Profile, now: Time) -> impl Allocation + use<> {
        CommonBucket::new(profile, Lru::default(), now)
    }
}

/// Members in the order of their last packets. Each member has a position. A member that sends gets
/// a new position after all other members. When no positions are left, all members are renumbered.
#[derive(Default)]
struct Lru {
    /// The member at each position, if the position has one.
    places: Vec<Option<FlowIndex>>,
    /// The position of each member. `None` before the member's first packet.
    place_of: Vec<Option<usize>>,
    /// Positions of waiting members.
    waiting: Bits,
    /// Waiting members that were never served.
    fresh: Ring<FlowIndex>,
}

impl Lru {
    fn known(&mut self, member: FlowIndex) -> Option<usize> {
        make_room(&mut self.place_of, member.index(), None);
        self.place_of[member.index()]
    }

    /// Renumbers the members without gaps. With `n` members, this happens once in `n` packets, so the cost for each packet is
    /// constant on average.
    fn renumber(&mut self) {
        let mut waiting = Bits::default();
        let mut places = Vec::with_capacity(self.place_of.len() * 2 + SPARE);
        for (old, member) in self.places.iter().enumerate() {
            let Some(member) = member else { continue };
            if self.waiting.contains(old) {
                waiting.insert(places.len());
            }
            self.place_of[member.index()] = Some(places.len());
            places.push(Some(*member));
        }
        (self.places, self.waiting) = (places, waiting);
    }
}

/// Number of positions beyond twice the members. Without these positions, a few members would be
/// renumbered constantly.
const SPARE: usize = 64;

impl Order for Lru {
    fn join(&mut self, member: FlowIndex, _share: Share) {
        self.known(member);
    }

    fn wait(&mut self, member: FlowIndex) {
        match self.known(member) {
            Some(place) => self.waiting.insert(place),
            None => {
                self.fresh.push(member);
            }
        }
    }

    fn first(&mut self) -> Option<FlowIndex> {
        self.fresh.first().or_else(|| self.places[self.waiting.first()?])
    }

    fn served(&mut self, member: FlowIndex, _len: Bytes) {
        let waits = match self.known(member) {
            Some(place) => {
                self.places[place] = None;
                self.waiting.remove(place)
            }
            None => self.fresh.remove(member),
        };
        if self.places.len() >= self.place_of.len() * 2 + SPARE {
            self.renumber();
        }
        self.place_of[member.index()] = Some(self.places.len());
        if waits {
            self.waiting.insert(self.places.len());
        }
        self.places.push(Some(member));
    }

    fn done(&mut self, member: FlowIndex) {
        match self.known(member) {
            Some(place) => self.waiting.remove(place),
            None => self.fresh.remove(member),
        };
    }

    /// A member that reuses the index counts as never served.
    fn remove(&mut self, member: FlowIndex) {
        self.done(member);
        if let Some(place) = self.known(member) {
            self.places[place] = None;
        }
        self.place_of[member.index()] = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_new_member_with_the_index_of_a_removed_member_was_never_served() {
        let mut lru = Lru::default();
        for member in [0, 1].map(FlowIndex) {
            lru.wait(member);
            lru.served(member, Bytes(1));
        }
        lru.remove(FlowIndex(1));
        [0, 1].into_iter().for_each(|member| lru.wait(FlowIndex(member)));
        assert_eq!(lru.first(), Some(FlowIndex(1)));
    }

    proptest! {
        /// Catches: a member that keeps its position when it is served without waiting; waiting
        /// members that are lost when members are renumbered; a member that was served but still
        /// counts as never served.
        #[test]
        fn the_member_that_was_served_longest_ago_is_first(
            steps in prop::collection::vec((0u32..3, 0u32..6), 1..600),
        ) {
            let mut lru = Lru::default();
            // Time of the last service. Members never served come first, in the order of waiting.
            let (mut served, mut waits) = ([0usize; 6], Vec::<u32>::new());
            for (step, (what, member)) in (1..).zip(steps) {
                match what {
                    0 => {
                        lru.wait(FlowIndex(member));
                        if !waits.contains(&member) { waits.push(member) }
                    }
                    1 => {
                        lru.served(FlowIndex(member), Bytes(1));
                        served[FlowIndex(member).index()] = step;
                    }
                    _ => {
                        let expected = waits.iter().min_by_key(|it| served[FlowIndex(**it).index()]).copied();
                        prop_assert_eq!(lru.first(), expected.map(FlowIndex));
                        let Some(first) = expected else { continue };
                        if member < 3 {
                            lru.served(FlowIndex(first), Bytes(1));
                            served[FlowIndex(first).index()] = step;
                        } else {
                            lru.done(FlowIndex(first));
                            waits.retain(|it| *it != first);
                        }
                    }
                }
            }
        }
    }
}
