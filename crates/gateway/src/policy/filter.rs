//! Filters: a filter selects the packets of a policy by header fields (RFC 2475: multi-field classifier).

use std::cmp::Reverse;

use tidegate_core::packet::{Direction, FlowKey, NO_VLAN, Outer, Packet, Ports, Protocol};

/// Matches packets whose fields all lie within the given ranges. An empty list accepts any value.
///
/// - A packet that does not have a field never matches ranges for this field. Only TCP and UDP have ports. Frames without
///   IP have no addresses, no protocol and no DS codepoint.
/// - IPv4 addresses are in their IPv6-mapped form, as in [`Endpoint::number`](tidegate_core::packet::Endpoint::number).
/// - A later fragment of a datagram does not contain ports. If the gateway does not know them, the fragment matches no
///   ranges for ports. An exception is [`Ports::Any`]: such a fragment matches all ranges for ports. If its protocol is
///   hidden too, it also matches all ranges for the protocol.
///
/// ```
/// use tidegate_core::packet::{Direction, Endpoint, FlowKey, Network, Packet, Protocol};
/// use tidegate_gateway::policy::{Filter, parse};
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
    /// VLAN identifiers of the second tag. [`NO_VLAN`] is the identifier of frames without a second
    /// tag.
    pub inner_vlan: Vec<Range<u16>>,
    /// Direction in which the packet crosses the gateway. `None`: both directions.
    pub direction: Option<Direction>,
    /// For packets in tunnels: `true` compares addresses, ports and protocol with the innermost header, `false` with the
    /// outermost header. DS codepoint and VLAN are always those of the outermost header.
    pub inner: bool,
}

/// The values from `first` to `last`, both inclusive.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Range<T> {
    /// The lowest value.
    pub first: T,
    /// The highest value, not below `first`.
    pub last: T,
}

/// The IPv4 addresses, in IPv6-mapped form.
pub(super) const IPV4: Range<u128> =
    Range { first: 0xffff << 32, last: (0xffff << 32) | 0xffff_ffff };

impl Filter {
    /// Returns `true` if `packet`, which travels in `direction` and not in a tunnel, matches.
    #[must_use]
    pub fn matches(&self, packet: &Packet, direction: Direction) -> bool {
        self.matches_inside(packet, None, direction)
    }

    /// Returns `true` if `packet`, which travels in `direction`, matches. `outer` has the outer headers of a packet in a
    /// tunnel.
    #[must_use]
    pub fn matches_inside(
        &self,
        packet: &Packet,
        outer: Option<&Outer>,
        direction: Direction,
    ) -> bool {
        let outermost = if self.inner { None } else { outer.and_then(Outer::key) };
        // Fragments are not searched for tunnels. So a packet in a tunnel is no fragment, and its
        // outermost header has ports if its protocol has ports.
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

    /// Returns `true` if the ports of `key` lie within the ranges for ports.
    fn accepts_ports(&self, key: &FlowKey, ports: Ports) -> bool {
        let (src, dst) = (&self.src_port, &self.dst_port);
        match ports {
            Ports::Known => within(src, key.src.port) && within(dst, key.dst.port),
            Ports::Unknown => !self.asks_for_ports(),
            Ports::Any => true,
        }
    }

    /// Returns `true` if packets with this [`protocol_number`] are accepted, and have all fields for which the filter has
    /// ranges.
    fn accepts(&self, protocol: u16) -> bool {
        let has_ports =
            [Protocol::TCP, Protocol::UDP].map(|it| u16::from(it.0)).contains(&protocol);
        let accepted = match u8::try_from(protocol) {
            Ok(protocol) => within(&self.protocol, protocol),
            Err(_) => self.protocol.is_empty() && !self.asks_for_ip(),
        };
        accepted && (has_ports || !self.asks_for_ports())
    }

    /// Returns `true` if the filter has ranges for addresses or DS codepoints, which only IP packets have.
    const fn asks_for_ip(&self) -> bool {
        !(self.src.is_empty() && self.dst.is_empty() && self.dscp.is_empty())
    }

    /// Returns `true` if the filter has ranges for ports.
    pub(super) const fn asks_for_ports(&self) -> bool {
        !(self.src_port.is_empty() && self.dst_port.is_empty())
    }

    /// Returns `true` if the filter has ranges for IP fields or ports, so that the choice of outer or inner header
    /// matters.
    pub(super) const fn asks_for_key(&self) -> bool {
        self.asks_for_ip() || self.asks_for_ports() || !self.protocol.is_empty()
    }

    /// Returns `true` if the filter has ranges for protocols or ports.
    #[must_use]
    pub(super) fn names_protocol(&self) -> bool {
        !(self.protocol.is_empty() && self.src_port.is_empty() && self.dst_port.is_empty())
    }

    /// The accepted [`protocol_number`]s as ranges. The list is empty if the filter accepts any protocol. A range may be
    /// empty, with `last` below `first`.
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
    /// The answer `true` is always right. The answer `false` may be wrong. An example is a filter whose ranges contain
    /// every port, if `other` has no ranges for ports. Another is a pair of which only one filter is `inner`.
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

    /// The measure of how specific the filter is. A greater value is more specific.
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

/// The IP protocol of packets with this flow key. [`OPAQUE_NUMBER`] for frames without IP.
pub(super) fn protocol_number(key: &FlowKey) -> u16 {
    if key.is_opaque() { OPAQUE_NUMBER } else { u16::from(key.protocol.0) }
}

/// VLAN identifier of the second tag of a packet with the outer headers `outer`.
pub(super) fn second_vlan(outer: Option<&Outer>) -> u16 {
    outer.map_or(NO_VLAN, |outer| outer.second_vlan)
}

/// Number used as the protocol of frames without IP: one more than the highest IP protocol number.
const OPAQUE_NUMBER: u16 = 256;

/// A measure of how specific a filter is. A greater value is more specific.
///
/// The measure is the number of *fixed bits*, added up over all fields. In each field, it is the width of the field minus
/// the bits needed to number the accepted values. An IPv4 prefix of length 24 fixes 24 bits, and a port 16 bits. A range
/// of 1,000 ports fixes `16 - 10 = 6` bits. A field without ranges fixes none.
///
/// If two filters have the same sum, the first field with different numbers of accepted values decides. The filter that
/// accepts fewer values there is more specific. So a filter that matches only a part of another filter's packets is
/// always more specific. In a list of IPv4 and IPv6 addresses, the family with fewer fixed bits counts.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Specificity {
    /// Number of fixed bits.
    pinned: u32,
    /// Number of accepted values minus 1, for each field. Fewer values are more specific.
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

/// Returns `true` if the ranges `wide` contain all values of the ranges `narrow`.
fn contains<T: Copy + Ord + Into<u128>>(wide: &[Range<T>], narrow: &[Range<T>]) -> bool {
    if wide.is_empty() {
        return true;
    }
    // A cheap test that is `false` for most pairs.
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

/// The same values as in `ranges`, as ascending ranges that neither overlap nor touch.
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

/// For a field of `width` bits: the number of bits that `ranges` fix, and the number of accepted values minus 1.
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

/// The result of [`breadth`] for a field without ranges: no fixed bits, and more values than any range has.
const ANY: (u32, u128) = (0, u128::MAX);

/// Number of values in disjoint `ranges`, minus one.
fn others(ranges: &[Range<u128>]) -> u128 {
    let sum: u128 = ranges.iter().map(|range| range.last - range.first).sum();
    sum + u128::try_from(ranges.len().saturating_sub(1)).unwrap_or(0)
}

/// Bits needed to number `others + 1` values.
const fn bits(others: u128) -> u32 {
    u128::BITS - others.leading_zeros()
}
