//! Filters: the packets that a policy treats (RFC 2475: multi-field classifier).

use std::cmp::Reverse;

use crate::packet::{Direction, FlowKey, NO_VLAN, Outer, Packet, Ports, Protocol};

/// Accepts packets whose fields all lie within the given ranges. An empty list accepts any value.
///
/// A packet without a field does not match ranges for it. Only TCP and UDP have ports. Frames
/// without IP have neither addresses nor a protocol nor a DS codepoint. IPv4 addresses are in their
/// IPv6-mapped form, as in [`Endpoint::number`](crate::packet::Endpoint::number). A fragment
/// without known ports matches ranges for ports only if it has [`Ports::Any`]. It then also matches
/// ranges for the protocol if its datagram may have any protocol.
///
/// ```
/// use tidegate_core::packet::{Direction, Endpoint, FlowKey, Network, Packet, Protocol};
/// use tidegate_core::policy::{Filter, parse};
///
/// let from_site = Filter { src: parse::addresses("10.1.0.0/16").unwrap(), ..Filter::default() };
/// let packet_from = |address| {
///     let (src, dst) = (Endpoint::v4(address, 5_000), Endpoint::v4([192, 0, 2, 1], 53));
///     let key = FlowKey { src, dst, protocol: Protocol::UDP };
///     Packet { len: 100, key, network: Network::Ipv4, ..Packet::default() }
/// };
/// assert!(from_site.matches(&packet_from([10, 1, 2, 3]), Direction::Up));
/// assert!(!from_site.matches(&packet_from([10, 2, 2, 3]), Direction::Up));
/// // A filter without conditions matches every packet, so it covers the other one.
/// assert!(Filter::default().covers(&from_site) && !from_site.covers(&Filter::default()));
/// ```
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Filter {
    /// Source addresses.
    pub src: Vec<Range<u128>>,
    /// Destination addresses.
    pub dst: Vec<Range<u128>>,
    /// Source ports.
    pub src_port: Vec<Range<u16>>,
    /// Destination ports.
    pub dst_port: Vec<Range<u16>>,
    /// IP protocols.
    pub protocol: Vec<Range<u8>>,
    /// DS codepoints.
    pub dscp: Vec<Range<u8>>,
    /// Outermost VLAN identifiers.
    pub vlan: Vec<Range<u16>>,
    /// VLAN identifiers of the second tag; [`NO_VLAN`] stands for frames without one.
    pub inner_vlan: Vec<Range<u16>>,
    /// The direction across the gateway. `None` for both.
    pub direction: Option<Direction>,
    /// Addresses, ports and protocol are those of the innermost header, not of the outermost one. The headers
    /// differ for packets in tunnels. DS codepoint and VLAN are always those of the outermost headers.
    pub inner: bool,
}

/// The values from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Range<T> {
    /// The lowest.
    pub first: T,
    /// The highest; not below `first`.
    pub last: T,
}

/// The IPv4 addresses among all.
pub(super) const IPV4: Range<u128> =
    Range { first: 0xffff << 32, last: (0xffff << 32) | 0xffff_ffff };

impl Filter {
    /// Returns `true` if `packet`, which travels in `direction` in no tunnel, matches.
    #[must_use]
    pub fn matches(&self, packet: &Packet, direction: Direction) -> bool {
        self.matches_inside(packet, None, direction)
    }

    /// Returns `true` if `packet`, which travels in `direction` behind the headers `outer`,
    /// matches.
    #[must_use]
    pub fn matches_inside(
        &self,
        packet: &Packet,
        outer: Option<&Outer>,
        direction: Direction,
    ) -> bool {
        let outermost = if self.inner { None } else { outer.and_then(Outer::key) };
        // The inside of a fragment is not parsed. So the outermost header of a tunnel always has
        // its ports.
        let ports = if outermost.is_some() { Ports::Known } else { packet.fragment.ports() };
        let key = &outermost.unwrap_or(packet.key);
        let any_protocol = ports == Ports::Any && key.hides_protocol();
        (any_protocol || self.accepts(protocol_number(key)))
            && within(&self.src, key.src.number())
            && within(&self.dst, key.dst.number())
            && self.accepts_ports(key, ports)
            && within(&self.dscp, packet.dscp)
            && within(&self.vlan, packet.vlan)
            && within(&self.inner_vlan, second_vlan(outer))
            && self.direction.is_none_or(|only| only == direction)
    }

    /// Returns `true` if the ports of `key` are in the ranges for them.
    fn accepts_ports(&self, key: &FlowKey, ports: Ports) -> bool {
        let (src, dst) = (&self.src_port, &self.dst_port);
        match ports {
            Ports::Known => within(src, key.src.port) && within(dst, key.dst.port),
            Ports::Unknown => !self.asks_for_ports(),
            Ports::Any => true,
        }
    }

    /// True if packets of this [`protocol_number`] are accepted, and have every field that is asked for.
    fn accepts(&self, protocol: u16) -> bool {
        let has_ports =
            [Protocol::TCP, Protocol::UDP].map(|it| u16::from(it.0)).contains(&protocol);
        let accepted = match u8::try_from(protocol) {
            Ok(protocol) => within(&self.protocol, protocol),
            Err(_) => self.protocol.is_empty() && !self.asks_for_ip(),
        };
        accepted && (has_ports || !self.asks_for_ports())
    }

    /// Returns `true` if the filter has a condition that only IP packets can meet.
    const fn asks_for_ip(&self) -> bool {
        !(self.src.is_empty() && self.dst.is_empty() && self.dscp.is_empty())
    }

    /// Returns `true` if the filter has a condition on a port.
    pub(super) const fn asks_for_ports(&self) -> bool {
        !(self.src_port.is_empty() && self.dst_port.is_empty())
    }

    /// Returns `true` if the filter has a condition that depends on the header it is matched with.
    pub(super) const fn asks_for_key(&self) -> bool {
        self.asks_for_ip() || self.asks_for_ports() || !self.protocol.is_empty()
    }

    /// Returns `true` if the filter names protocols or ports.
    #[must_use]
    pub(super) fn names_protocol(&self) -> bool {
        !(self.protocol.is_empty() && self.src_port.is_empty() && self.dst_port.is_empty())
    }

    /// The accepted [`protocol_number`]s as ranges. Empty if any packet is accepted. A range may be empty: its
    /// end precedes its beginning.
    pub(super) fn protocols(&self) -> Vec<Range<u16>> {
        let any = [Range { first: 0, last: u8::MAX }];
        let asked = if self.protocol.is_empty() { &any[..] } else { &self.protocol };
        let with = |first: u8, last: u8| {
            let cut = move |it: &Range<u8>| Range {
                first: u16::from(it.first.max(first)),
                last: u16::from(it.last.min(last)),
            };
            asked.iter().map(cut)
        };
        if self.asks_for_ports() {
            let [Protocol(tcp), Protocol(udp)] = [Protocol::TCP, Protocol::UDP];
            with(tcp, tcp).chain(with(udp, udp)).collect()
        } else if self.protocol.is_empty() && !self.asks_for_ip() {
            Vec::new()
        } else {
            with(0, u8::MAX).collect()
        }
    }

    /// Returns `true` if the filter matches every packet that `other` matches.
    ///
    /// May return `false` although every packet of `other` matches: for example, if the ranges name
    /// every value of a field that `other` leaves open, or if only one of the two filters is `inner`.
    /// Never returns `true` if `other` matches a packet that this filter does not match.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        (self.inner == other.inner || !self.asks_for_key())
            && self.direction.is_none_or(|only| other.direction == Some(only))
            && contains(&self.src, &other.src)
            && contains(&self.dst, &other.dst)
            && contains(&self.src_port, &other.src_port)
            && contains(&self.dst_port, &other.dst_port)
            && contains(&self.dscp, &other.dscp)
            && contains(&self.vlan, &other.vlan)
            && contains(&self.inner_vlan, &other.inner_vlan)
            && (0..=OPAQUE_NUMBER).all(|it| self.accepts(it) || !other.accepts(it))
    }

    /// Rank of the filter. A greater value is more specific.
    #[must_use]
    pub fn specificity(&self) -> Specificity {
        let fields = [
            address_breadth(&self.src),
            address_breadth(&self.dst),
            breadth(&self.src_port, 16),
            breadth(&self.dst_port, 16),
            breadth(&self.protocol, 8),
            breadth(&self.dscp, 6),
            breadth(&self.vlan, 12),
            breadth(&self.inner_vlan, 12),
            self.direction.map_or(ANY, |_| (1, 0)),
        ];
        Specificity {
            pinned: fields.iter().map(|(pinned, _)| pinned).sum(),
            others: Reverse(fields.map(|(_, others)| others)),
        }
    }
}

/// The IP protocol of packets with this key, as filters see it. [`OPAQUE_NUMBER`] for frames
/// without IP.
pub(super) fn protocol_number(key: &FlowKey) -> u16 {
    if key.is_opaque() { OPAQUE_NUMBER } else { u16::from(key.protocol.0) }
}

/// The second VLAN identifier of a packet behind the headers `outer`.
pub(super) fn second_vlan(outer: Option<&Outer>) -> u16 {
    outer.map_or(NO_VLAN, |outer| outer.second_vlan)
}

/// The protocol of frames without IP: one more than the last IP protocol.
const OPAQUE_NUMBER: u16 = 256;

/// Rank of a filter. A greater value is more specific.
///
/// In each field, a filter fixes the width of the field minus the bits that number its accepted
/// values. An IPv4 prefix fixes its length, a port 16 bits, a range of 1,000 ports 6. A field
/// without ranges fixes none.
///
/// The sum over the fields decides. With equal sums, the filter that accepts fewer values in the
/// first field that differs is more specific. So a filter within another one is always more
/// specific. A list of IPv4 and IPv6 addresses counts with the family that has fewer fixed bits.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Specificity {
    pinned: u32,
    /// Number of accepted values minus 1, by field. Fewer values are more specific.
    others: Reverse<[u128; 9]>,
}

impl Specificity {
    /// The number of fixed bits.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        self.pinned
    }
}

fn within<T: Copy + PartialOrd>(ranges: &[Range<T>], value: T) -> bool {
    ranges.is_empty() || ranges.iter().any(|range| range.first <= value && value <= range.last)
}

/// Returns `true` if `wide` has all values of `narrow`.
fn contains<T: Copy + Ord + Into<u128>>(wide: &[Range<T>], narrow: &[Range<T>]) -> bool {
    if wide.is_empty() {
        return true;
    }
    // Most pairs end here, without the work below.
    let Some(one) = narrow.first() else { return false };
    if !within(wide, one.first) {
        return false;
    }
    let wide = merged(wide);
    let inside = |range: &Range<u128>| {
        wide.iter().any(|wide| wide.first <= range.first && range.last <= wide.last)
    };
    merged(narrow).iter().all(inside)
}

/// The values of `ranges`, ascending, as ranges that do not touch.
pub(super) fn merged<T: Copy + Ord + Into<u128>>(ranges: &[Range<T>]) -> Vec<Range<u128>> {
    let wide = |range: &Range<T>| Range { first: range.first.into(), last: range.last.into() };
    let mut ranges: Vec<Range<u128>> =
        ranges.iter().filter(|range| range.first <= range.last).map(wide).collect();
    ranges.sort_unstable_by_key(|range| range.first);
    let mut merged: Vec<Range<u128>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) => {
                last.last = last.last.max(range.last);
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// A pair: how many of the `width` bits `ranges` fix, and the number of accepted values minus 1.
fn breadth<T: Copy + Ord + Into<u128>>(ranges: &[Range<T>], width: u32) -> (u32, u128) {
    if ranges.is_empty() {
        return ANY;
    }
    let others = others(&merged(ranges));
    (width.saturating_sub(bits(others)), others)
}

fn address_breadth(ranges: &[Range<u128>]) -> (u32, u128) {
    if ranges.is_empty() {
        return ANY;
    }
    let merged = merged(ranges);
    let within = |from: Range<u128>| -> Vec<Range<u128>> {
        let cut = |range: &Range<u128>| Range {
            first: range.first.max(from.first),
            last: range.last.min(from.last),
        };
        merged.iter().map(cut).filter(|range| range.first <= range.last).collect()
    };
    let pins = |ranges: &[Range<u128>], width: u32| {
        (!ranges.is_empty()).then(|| width.saturating_sub(bits(others(ranges))))
    };
    let mut ipv6 = within(Range { first: 0, last: IPV4.first - 1 });
    ipv6.extend(within(Range { first: IPV4.last + 1, last: u128::MAX }));
    let pinned = [pins(&within(IPV4), 32), pins(&ipv6, 128)].into_iter().flatten().min();
    (pinned.unwrap_or(0), others(&merged).min(u128::MAX - 1))
}

/// The breadth of a field without ranges. Even its presence is not required.
const ANY: (u32, u128) = (0, u128::MAX);

/// Number of values of disjoint `ranges`, minus one.
fn others(ranges: &[Range<u128>]) -> u128 {
    let sum: u128 = ranges.iter().map(|range| range.last - range.first).sum();
    sum + u128::try_from(ranges.len().saturating_sub(1)).unwrap_or(0)
}

/// Bits that number `others + 1` values.
const fn bits(others: u128) -> u32 {
    u128::BITS - others.leading_zeros()
}
