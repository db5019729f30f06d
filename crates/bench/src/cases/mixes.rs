//! Sets of many typical filters, and packets that match them.

use anyhow::bail;
use tidegate_core::Packet;
use tidegate_core::packet::{Direction, Endpoint, FlowKey, Network, Protocol};
use tidegate_core::random::Random;
use tidegate_gateway::policy::{Action, Filter, Mode, Policy, PolicySet, Range};

use super::{any_index, port};

/// A kind of filter set.
#[derive(Clone, Copy)]
pub(super) enum Mix {
    /// Each filter sets some of the fields, at random.
    Fields,
    /// As at a provider: for each host, one filter for its upward traffic and one for its downward
    /// traffic.
    Hosts,
    /// Each filter has a source and a destination prefix, and ports. The prefixes are short and
    /// overlap the prefixes of other filters.
    Nested,
    /// Each filter has a source prefix and a port.
    Sources,
}

/// The names of all mixes.
pub(crate) const MIXES: [&str; 4] = ["fields", "hosts", "nested", "sources"];

impl Mix {
    pub(super) fn named(name: &str) -> anyhow::Result<Self> {
        Ok(match name {
            "fields" => Self::Fields,
            "hosts" => Self::Hosts,
            "nested" => Self::Nested,
            "sources" => Self::Sources,
            _ => bail!("there is no mix \"{name}\"; use one of {MIXES:?}"),
        })
    }

    fn filter(self, number: u32, random: &mut Random) -> Filter {
        let mut filter = Filter::default();
        match self {
            Self::Fields => some_fields(&mut filter, random),
            Self::Hosts => {
                let host = vec![exactly(MAPPED | 0x0a00_0000 | u128::from(number / 2))];
                if number.is_multiple_of(2) {
                    (filter.src, filter.direction) = (host, Some(Direction::Up));
                } else {
                    (filter.dst, filter.direction) = (host, Some(Direction::Down));
                }
            }
            Self::Nested => {
                filter.src = prefix(random, 0, 8);
                filter.dst = prefix(random, 0, 8);
                filter.dst_port = ports(random);
            }
            Self::Sources => {
                filter.src = prefix(random, 16, 32);
                filter.dst_port = ports(random);
            }
        }
        filter
    }
}

/// A set of `size` policies with filters of this kind, all with action `pass`.
pub(super) fn policies(mix: Mix, size: u32, random: &mut Random) -> anyhow::Result<PolicySet> {
    let mut policy = |number| Policy {
        name: format!("{number:06}"),
        priority: i32::try_from(random.below(5)).unwrap_or_default(),
        filter: mix.filter(number, random),
        action: Action::Pass,
        mode: Mode::Enforce,
        class: None,
        trunk: None,
    };
    Ok(PolicySet::new((0..size).map(&mut policy).collect())?)
}

/// A random packet. With probability 3/4, its fields are set to match a policy of `set`.
pub(super) fn packet(set: &PolicySet, random: &mut Random) -> (Packet, Direction) {
    let (mut src, mut dst) = (address(random), address(random));
    let (mut src_port, mut dst_port) = (port(random), port(random));
    let mut direction = Direction::Up;
    let aim = any_index(set.policies().len(), random);
    if random.below(4) != 0 {
        let filter = &set.policies()[aim].filter;
        src = filter.src.first().map_or(src, |range| range.first);
        dst = filter.dst.first().map_or(dst, |range| range.last);
        src_port = filter.src_port.first().map_or(src_port, |range| range.first);
        dst_port = filter.dst_port.first().map_or(dst_port, |range| range.last);
        direction = filter.direction.unwrap_or(direction);
    }
    let end = |address: u128, port| Endpoint::v6(address.to_be_bytes(), port);
    let protocol = if random.below(4) == 0 { Protocol::UDP } else { Protocol::TCP };
    let key = FlowKey { src: end(src, src_port), dst: end(dst, dst_port), protocol };
    let network = Network::Ipv4;
    let packet = Packet { len: 1_514, segments: 1, network, key, ..Packet::default() };
    (Packet { dscp: dscp(random), vlan: vlan(random), ..packet }, direction)
}

/// The prefix of IPv4-mapped IPv6 addresses.
const MAPPED: u128 = 0xffff << 32;

fn address(random: &mut Random) -> u128 {
    MAPPED | u128::from(random.below(1 << 32))
}

fn dscp(random: &mut Random) -> u8 {
    u8::try_from(random.below(64)).unwrap_or_default()
}

fn vlan(random: &mut Random) -> u16 {
    1 + u16::try_from(random.below(4_094)).unwrap_or_default()
}

const fn exactly<T: Copy>(value: T) -> Range<T> {
    Range { first: value, last: value }
}

/// A random prefix whose length is between `shortest` and `longest` bits.
fn prefix(random: &mut Random, shortest: u64, longest: u64) -> Vec<Range<u128>> {
    let hosts = (1_u128 << (32 - shortest - random.below(longest - shortest + 1))) - 1;
    let address = address(random);
    vec![Range { first: address & !hosts, last: address | hosts }]
}

/// A single port, a hundred ports, or any range of ports.
fn ports(random: &mut Random) -> Vec<Range<u16>> {
    let (one, other) = (port(random), port(random));
    vec![match random.below(3) {
        0 => exactly(one),
        1 => Range { first: one.min(other), last: one.max(other) },
        _ => Range { first: one, last: one.saturating_add(100) },
    }]
}

/// Sets each field of `filter` with probability 1/2.
fn some_fields(filter: &mut Filter, random: &mut Random) {
    let mut wanted = [false; 8];
    wanted.fill_with(|| random.below(2) == 0);
    let [src, dst, src_port, dst_port, protocol, dscps, vlans, direction] = wanted;
    if src {
        filter.src = prefix(random, 8, 32);
    }
    if dst {
        filter.dst = prefix(random, 8, 32);
    }
    if src_port {
        filter.src_port = ports(random);
    }
    if dst_port {
        filter.dst_port = ports(random);
    }
    if protocol {
        filter.protocol = vec![exactly(Protocol::TCP.0)];
    }
    if dscps {
        filter.dscp = vec![Range { first: 0, last: dscp(random) }];
    }
    if vlans {
        filter.vlan = vec![Range { first: 1, last: vlan(random) }];
    }
    if direction {
        filter.direction = Some(Direction::Up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If no packet matched, the case would measure only the cost of packets without a policy.
    #[test]
    fn most_packets_match_a_policy_and_some_match_none() {
        let mut random = Random::new(1, 0);
        for name in MIXES {
            let set = policies(Mix::named(name).unwrap(), 100, &mut random).unwrap();
            let found = (0..1_000).filter(|_| {
                let (packet, direction) = packet(&set, &mut random);
                set.lookup(&packet, direction).is_some()
            });
            let found = found.count();
            assert!((300..1_000).contains(&found), "{name}: {found}");
        }
    }
}
