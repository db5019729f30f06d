//! The tunnels of the flows in a table, each stored once.
//!
//! A flow has the number of its tunnel in its key. Number 0 means that there is no tunnel, so that plain
//! flows cost nothing.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::packet::{Direction, Outer, number, slot};

/// The tunnels of flows, in the direction up.
#[derive(Debug)]
pub(super) struct Tunnels {
    places: Vec<TunnelEntry>,
    /// Indices of `places` in use, by their tunnel.
    known: HashTable<u32>,
    free: Vec<u32>,
    seed: FixedState,
}

#[derive(Debug)]
struct TunnelEntry {
    outer: Outer,
    /// Flows in the tunnel.
    flows: u32,
}

/// The tunnel number of a flow without a tunnel.
pub(super) const NO_TUNNEL: u32 = 0;

impl Tunnels {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            places: Vec::new(),
            known: HashTable::new(),
            free: Vec::new(),
            seed: FixedState::with_seed(seed),
        }
    }

    /// The number of the tunnel around a packet in `direction`. `None` if no flow is in this tunnel.
    #[inline]
    pub(super) fn find(&self, outer: Option<&Outer>, direction: Direction) -> Option<u32> {
        match outer {
            None => Some(NO_TUNNEL),
            Some(outer) => self.find_known(outer, direction),
        }
    }

    #[inline(never)]
    fn find_known(&self, outer: &Outer, direction: Direction) -> Option<u32> {
        let outer = up(outer, direction);
        let same = |at: &u32| self.places[slot(*at)].outer.is_same(&outer);
        self.known.find(self.hash(&outer), same).map(|at| at + 1)
    }

    /// The number of the tunnel around a packet in `direction`, for one more flow.
    pub(super) fn join(&mut self, outer: Option<&Outer>, direction: Direction) -> u32 {
        let Some(outer) = outer else { return NO_TUNNEL };
        if let Some(found) = self.find(Some(outer), direction) {
            self.places[slot(found - 1)].flows += 1;
            self.restrict(found, outer);
            return found;
        }
        let outer = up(outer, direction);
        let place = TunnelEntry { outer, flows: 1 };
        let at = match self.free.pop() {
            Some(at) => {
                self.places[slot(at)] = place;
                at
            }
            None => {
                self.places.push(place);
                number(self.places.len() - 1)
            }
        };
        let (seed, places) = (&self.seed, &self.places);
        let hash = |at: &u32| hash(seed, &places[slot(*at)].outer);
        self.known.insert_unique(hash(&at), at, hash);
        at + 1
    }

    /// Records that ACKs in the tunnel `number` must stay whole, if the headers `outer` of one of
    /// its packets require it.
    pub(super) fn restrict(&mut self, number: u32, outer: &Outer) {
        if let Some(at) = number.checked_sub(1) {
            self.places[slot(at)].outer.restrict(outer);
        }
    }

    /// Notes that a flow in the tunnel `number` has been removed.
    pub(super) fn leave(&mut self, number: u32) {
        let Some(at) = number.checked_sub(1) else { return };
        let place = &mut self.places[slot(at)];
        place.flows -= 1;
        if place.flows == 0 {
            let hash = self.hash(&self.places[slot(at)].outer);
            if let Ok(known) = self.known.find_entry(hash, |known| *known == at) {
                known.remove();
            }
            self.free.push(at);
        }
    }

    /// The headers of the tunnel `number` around packets in `direction`.
    pub(super) fn get(&self, number: u32, direction: Direction) -> Option<Outer> {
        let place = self.places.get(slot(number.checked_sub(1)?))?;
        Some(up(&place.outer, direction))
    }

    fn hash(&self, outer: &Outer) -> u64 {
        hash(&self.seed, outer)
    }
}

/// The headers `outer`, seen in `direction`, as in packets of the direction up. The function is its
/// own inverse.
fn up(outer: &Outer, direction: Direction) -> Outer {
    match direction {
        Direction::Up => *outer,
        Direction::Down => outer.reverse(),
    }
}

pub(super) fn hash(seed: &FixedState, outer: &Outer) -> u64 {
    let mut hasher = seed.build_hasher();
    hasher.write_u16(outer.second_vlan);
    for tunnel in outer.tunnels() {
        std::hash::Hash::hash(&tunnel.identity(), &mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Endpoint, FlowKey, NO_VLAN, Protocol, Tunnel, TunnelKind};

    fn outer(src: u8, dst: u8, id: u32) -> Outer {
        let end = |host| Endpoint::v4([192, 0, 2, host], 0);
        let key = FlowKey { src: end(src), dst: end(dst), protocol: Protocol(47) };
        let mut outer = Outer::default();
        let kind = TunnelKind::Gre;
        outer.push(Tunnel { key, kind, id: Some(id), vlan: NO_VLAN, may_edit: true });
        outer
    }

    /// Catches: a checksum in one direction that makes two tunnels of one; the first packet's `may_edit` kept.
    #[test]
    fn a_tunnel_with_checksums_in_one_direction_is_one_tunnel_whose_acks_stay_whole() {
        let editable = |it: Option<Outer>| it.unwrap().may_edit();
        let plain = outer(1, 2, 7);
        let mut counted = Outer::default();
        let tunnel = outer(2, 1, 7).tunnels()[0];
        counted.push(Tunnel { may_edit: false, ..tunnel });
        for (first, second) in [(plain, counted.reverse()), (counted.reverse(), plain)] {
            let mut tunnels = Tunnels::new(1);
            let number = tunnels.join(Some(&first), Direction::Up);
            assert_eq!(tunnels.join(Some(&second), Direction::Up), number);
            assert!(!editable(tunnels.get(number, Direction::Up)));
        }
        let mut tunnels = Tunnels::new(1);
        let number = tunnels.join(Some(&plain), Direction::Up);
        assert_eq!(tunnels.find(Some(&counted), Direction::Down), Some(number));
        assert!(editable(tunnels.get(number, Direction::Down)));
        tunnels.restrict(number, &counted);
        assert!(!editable(tunnels.get(number, Direction::Down)));
    }

    /// Catches: the direction ignored; a number given to two tunnels; the number of a removed tunnel found.
    #[test]
    fn both_directions_of_a_tunnel_have_one_number_as_long_as_a_flow_is_in_it() {
        let mut tunnels = Tunnels::new(1);
        let first = tunnels.join(Some(&outer(1, 2, 7)), Direction::Up);
        let other = tunnels.join(Some(&outer(1, 2, 8)), Direction::Up);
        assert_ne!(first, other);
        let back = outer(2, 1, 7);
        assert_eq!(tunnels.find(Some(&back), Direction::Down), Some(first));
        assert_eq!(tunnels.find(Some(&back), Direction::Up), None);
        assert_eq!(tunnels.join(Some(&back), Direction::Down), first);
        assert_eq!(tunnels.get(first, Direction::Down), Some(back));
        tunnels.leave(first);
        assert_eq!(tunnels.find(Some(&back), Direction::Down), Some(first));
        tunnels.leave(first);
        assert_eq!(tunnels.find(Some(&back), Direction::Down), None);
        assert_eq!(tunnels.join(Some(&outer(5, 6, 7)), Direction::Up), first);
        assert_eq!(tunnels.find(None, Direction::Up), Some(NO_TUNNEL));
    }
}
