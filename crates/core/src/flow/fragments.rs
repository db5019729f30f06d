//! The ports of first fragments, for the later fragments of their datagrams.
//!
//! A later fragment carries no ports. The table keeps the ports of the newest [`FragmentTable::ENTRIES`]
//! first fragments for two seconds. All fragments of a datagram then belong to the flow of its ports.
//!
//! Sources: RFC 791, section 3.2 and RFC 8200, section 4.5 (the common fields of a datagram's
//! fragments);
//! RFC 1858, section 3 (tiny and overlapping fragments).
//!
//! Differs: RFC 1858 drops a tiny first fragment and a fragment that overlaps the headers of the first one.
//! Here, both count as fragments whose first fragment is unknown: the receiver drops them (RFC 5722), and a
//! policy may drop them.
//! Differs: for IPv6, the table takes the protocol from the first fragment, because RFC 8200 ignores the Next
//! Header of later fragments. The same applies to IPv4 datagrams with an authentication header, whose later
//! fragments have protocol 51.

use std::hash::{BuildHasher, Hash, Hasher};
use std::time::Duration;

use foldhash::fast::FixedState;

use super::tunnels::{NO_TUNNEL, hash};
use super::{Key, low_half};
use crate::Time;
use crate::packet::{Direction, Fragment, Network, Outer, Packet, Protocol, slot};

/// An entry expires after this time. The first fragment and the last one arrive within milliseconds, unless they
/// take different paths.
///
/// Chosen: longer than any queue here, shorter than a 16-bit identification takes to repeat at 32,768 datagrams/s.
const LIFETIME: Duration = Duration::from_secs(2);

/// The policies that match a fragment whose first fragment is unknown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WithoutFirst {
    /// Policies that name ports do not match the fragment.
    #[default]
    ByAddress,
    /// Policies that name ports match the fragment if their other conditions do.
    MayMatch,
}

/// The first fragments of the last two seconds, at most [`ENTRIES`](Self::ENTRIES).
///
/// Entries with equal hashes form a list, as in the flow table. All entries form a ring: a new entry
/// replaces the oldest.
#[derive(Debug)]
pub struct FragmentTable {
    /// The first entry of each list.
    heads: Vec<u16>,
    entries: Vec<Entry>,
    /// Index of the next entry.
    hand: u16,
    seed: FixedState,
}

#[derive(Clone, Debug)]
struct Entry {
    datagram: Datagram,
    /// Source and destination port.
    ports: [u16; 2],
    protocol: Protocol,
    /// The end of the first fragment's headers, in units of 8 bytes.
    headers: u8,
    /// The next entry of the list.
    next: u16,
    /// End of the lifetime of the entry. `None` for a free entry.
    expires: Option<Time>,
}

/// The common fields of a datagram's fragments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Datagram {
    /// Addresses, tags and the hash of the tunnel, without ports.
    key: Key,
    identification: u32,
}

const NIL: u16 = u16::MAX;

impl FragmentTable {
    /// First fragments that are remembered at once.
    ///
    /// Chosen: 10 ms of datagrams of 3,000 bytes at 10 Gbit/s. Fragments of one path are closer together.
    pub const ENTRIES: u16 = 4_096;

    /// An empty table; `seed` decides its hashes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let free = Entry {
            datagram: Datagram::of(&Packet::default(), NO_TUNNEL),
            ports: [0; 2],
            protocol: Protocol::OPAQUE,
            headers: 0,
            next: NIL,
            expires: None,
        };
        Self {
            heads: vec![NIL; usize::from(Self::ENTRIES)],
            entries: vec![free; usize::from(Self::ENTRIES)],
            hand: 0,
            seed: FixedState::with_seed(seed),
        }
    }

    /// Remembers a first fragment, or gives a later fragment the ports of its first fragment. `packet` is a
    /// fragment inside the headers `outer`.
    ///
    /// Returns `false` for a later fragment whose first fragment is unknown. Its ports stay zero, and
    /// filters then treat it as `rule` says. A fragment of IPv4 with a protocol without ports needs no first
    /// fragment.
    pub fn take(
        &mut self,
        now: Time,
        packet: &mut Packet,
        outer: Option<&Outer>,
        rule: WithoutFirst,
    ) -> bool {
        let tunnel = outer.map_or(NO_TUNNEL, |outer| low_half(hash(&self.seed, outer)));
        let datagram = Datagram::of(packet, tunnel);
        let place = packet.fragment;
        if place.is_first() {
            self.forget(&datagram);
            self.insert(now, datagram, packet);
            return true;
        }
        if place == Fragment::WITH_PORTS {
            return true;
        }
        if place.units() == 0 {
            self.forget(&datagram);
        } else if let Some(first) = self.find(now, &datagram)
            && first.headers <= place.units()
        {
            [packet.key.src.port, packet.key.dst.port] = first.ports;
            packet.key.protocol = first.protocol;
            packet.fragment = Fragment::WITH_PORTS;
            return true;
        }
        if !may_have_ports(packet) {
            packet.fragment = Fragment::WITH_PORTS;
            return true;
        }
        packet.fragment = place.without_first(rule == WithoutFirst::MayMatch);
        false
    }

    fn find(&self, now: Time, datagram: &Datagram) -> Option<&Entry> {
        let mut at = self.heads[self.list_of(datagram)];
        while let Some(entry) = self.entries.get(usize::from(at)) {
            if entry.datagram == *datagram {
                return Some(entry).filter(|entry| entry.expires.is_some_and(|end| now < end));
            }
            at = entry.next;
        }
        None
    }

    /// Replaces the oldest entry by a first fragment.
    fn insert(&mut self, now: Time, datagram: Datagram, packet: &Packet) {
        let at = self.hand;
        self.hand = (at + 1) % Self::ENTRIES;
        self.free(at);
        let list = self.list_of(&datagram);
        self.entries[usize::from(at)] = Entry {
            datagram,
            ports: [packet.key.src.port, packet.key.dst.port],
            protocol: packet.key.protocol,
            headers: packet.fragment.units(),
            next: std::mem::replace(&mut self.heads[list], at),
            expires: Some(now + LIFETIME),
        };
    }

    fn forget(&mut self, datagram: &Datagram) {
        let mut at = self.heads[self.list_of(datagram)];
        while let Some(entry) = self.entries.get(usize::from(at)) {
            if entry.datagram == *datagram {
                return self.free(at);
            }
            at = entry.next;
        }
    }

    /// Removes the entry at `at` from its list, if it is in use.
    fn free(&mut self, at: u16) {
        let entry = &mut self.entries[usize::from(at)];
        if entry.expires.take().is_none() {
            return;
        }
        let (datagram, after) = (entry.datagram, std::mem::replace(&mut entry.next, NIL));
        let list = self.list_of(&datagram);
        if self.heads[list] == at {
            self.heads[list] = after;
            return;
        }
        let mut before = self.heads[list];
        while let Some(entry) = self.entries.get_mut(usize::from(before)) {
            if entry.next == at {
                entry.next = after;
                return;
            }
            before = entry.next;
        }
    }

    fn list_of(&self, datagram: &Datagram) -> usize {
        let mut hasher = self.seed.build_hasher();
        datagram.key.hash(&mut hasher);
        hasher.write_u32(datagram.identification);
        slot(low_half(hasher.finish())) % self.heads.len()
    }
}

impl Datagram {
    /// The datagram of a fragment. In IPv6, the protocol does not distinguish datagrams. In IPv4, the
    /// protocol is that of the IP header, even if an authentication header follows.
    fn of(packet: &Packet, tunnel: u32) -> Self {
        let whole = Packet { fragment: Fragment::WHOLE, ..*packet };
        let mut key = Key::of(&whole, Direction::Up, tunnel);
        (key.ends.src.port, key.ends.dst.port) = (0, 0);
        if is_v6(packet) {
            key.ends.protocol = Protocol::OPAQUE;
        } else if packet.fragment.is_authenticated() {
            key.ends.protocol = Protocol::AUTHENTICATION;
        }
        Self { key, identification: packet.identification() }
    }
}

/// Returns `true` if the innermost IP header is an IPv6 header. The field `network` is that of the outermost
/// header.
fn is_v6(packet: &Packet) -> bool {
    packet.key.network_header().0 == Network::Ipv6
}

/// Returns `true` if the datagram of a later fragment may have ports or an echo identifier.
fn may_have_ports(packet: &Packet) -> bool {
    let known = [Protocol::TCP, Protocol::UDP, Protocol::ICMP, Protocol::ICMPV6];
    packet.key.hides_protocol() || known.contains(&packet.key.protocol)
}
