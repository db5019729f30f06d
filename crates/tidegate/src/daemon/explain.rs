//! Explains which policy applies to a packet, and which other policies match it.

use std::net::IpAddr;

use tidegate_core::packet::{
    Direction, Endpoint, FlowKey, NO_VLAN, Network, Outer, Packet, Protocol, Tunnel, TunnelKind,
};
use tidegate_gateway::policy::{Filter, Mode, Policy, PolicySet, Range, parse};

use super::policy_set;
use crate::api::{Candidate, Charged, Explanation, Question};
use crate::code::Code;
use crate::config::Config;
use crate::describe;
use crate::output::Failure;

/// Explains how `config` treats the packet in `question`, and why.
pub(crate) fn explain(config: &Config, question: &Question) -> Result<Explanation, Failure> {
    let set = policy_set(config)?;
    let (packet, direction) = packet(question)?;
    let outer = outer(question)?;
    let matching = set.matching_inside(&packet, outer.as_ref(), direction);
    let matching: Vec<_> = matching.filter_map(|it| set.get(it)).collect();
    let winner = matching.first().copied();
    Ok(Explanation {
        policy: winner.map(|policy| policy.name.clone()),
        action: winner.map_or_else(|| "pass: no policy matches it".to_owned(), action),
        why: why(&matching),
        policies: candidates(&set, (&packet, outer.as_ref()), direction),
        charged: LENGTHS.map(|ip_bytes| charged(config, &packet, ip_bytes)).to_vec(),
        flows: Vec::new(),
    })
}

/// Lengths of two example packets, from the IP header on: an ACK with timestamps, and a full packet
/// over PPPoE.
const LENGTHS: [u32; 2] = [52, 1_492];

/// The bytes, with the overhead of the link, that the link is charged for a packet like `packet`
/// that has `ip_bytes` bytes from its IP header on.
fn charged(config: &Config, packet: &Packet, ip_bytes: u32) -> Charged {
    /// Bytes of two addresses and the ethertype.
    const ETHERNET: u16 = 14;
    /// Bytes of a VLAN tag (IEEE 802.1Q).
    const TAG: u16 = 4;
    let network_offset = if packet.vlan == NO_VLAN { ETHERNET } else { ETHERNET + TAG };
    let len = ip_bytes + u32::from(network_offset);
    let packet = Packet { len, network_offset, ..*packet };
    Charged { ip_bytes, bytes: config.gateway.overhead.charge(&packet) }
}

fn action(policy: &Policy) -> String {
    let action = describe::action(&policy.action);
    match policy.mode {
        Mode::Enforce => action,
        Mode::Observe => format!("nothing, it only observes; if it acted: {action}"),
    }
}

/// Why the first of the `matching` policies precedes the second.
fn why(matching: &[&Policy]) -> String {
    let (winner, other) = match matching {
        [] => return "no policy matches".to_owned(),
        [only] => return format!("only {} matches", only.name),
        [winner, other, ..] => (winner, other),
    };
    let (w, o) = (&winner.name, &other.name);
    if winner.priority != other.priority {
        return format!(
            "{w} has the higher priority: {} over {} of {o}",
            winner.priority, other.priority
        );
    }
    let (narrow, wide) = (winner.filter.specificity(), other.filter.specificity());
    if narrow != wide {
        let more = match (narrow.bits(), wide.bits()) {
            (narrow, wide) if narrow != wide => {
                format!("it pins {narrow} bits of the header, {o} {wide}")
            }
            _ => format!("it lists fewer values than {o}"),
        };
        return format!("{w} and {o} have the same priority, and {w} is more specific: {more}");
    }
    format!("{w} and {o} are equally specific, and {w} comes first in the alphabet")
}

/// A packet and its outer headers.
type HeaderView<'a> = (&'a Packet, Option<&'a Outer>);

fn candidates(set: &PolicySet, packet: HeaderView<'_>, direction: Direction) -> Vec<Candidate> {
    let candidate = |policy: &Policy| Candidate {
        policy: policy.name.clone(),
        priority: policy.priority,
        matches: policy.filter.matches_inside(packet.0, packet.1, direction),
        differs_in: differs_in(&policy.filter, packet, direction),
    };
    set.policies().iter().map(candidate).collect()
}

/// The first field of `filter` that the packet does not match, if any.
fn differs_in(filter: &Filter, packet: HeaderView<'_>, direction: Direction) -> Option<String> {
    let matches = |filter: &Filter| filter.matches_inside(packet.0, packet.1, direction);
    if matches(filter) {
        return None;
    }
    let any = || Filter { inner: filter.inner, ..Filter::default() };
    let alone = [
        ("direction", Filter { direction: filter.direction, ..any() }),
        ("protocol", Filter { protocol: filter.protocol.clone(), ..any() }),
        ("src", Filter { src: filter.src.clone(), ..any() }),
        ("dst", Filter { dst: filter.dst.clone(), ..any() }),
        ("src_port", Filter { src_port: filter.src_port.clone(), ..any() }),
        ("dst_port", Filter { dst_port: filter.dst_port.clone(), ..any() }),
        ("dscp", Filter { dscp: filter.dscp.clone(), ..any() }),
        ("vlan", Filter { vlan: filter.vlan.clone(), ..any() }),
        ("vlan.inner", Filter { inner_vlan: filter.inner_vlan.clone(), ..any() }),
    ];
    let differs = alone.iter().find(|(_, filter)| !matches(filter));
    differs.map(|(name, _)| (*name).to_owned())
}

/// A filter for the fields that `question` specifies.
pub(super) fn filter(question: &Question) -> Result<Filter, Failure> {
    let (packet, direction) = packet(question)?;
    let (src, dst) = (packet.key.src, packet.key.dst);
    let address = |given: &Option<String>, of: Endpoint| {
        given.iter().map(|_| Range { first: of.number(), last: of.number() }).collect()
    };
    let port =
        |given: Option<u16>| given.iter().map(|it| Range { first: *it, last: *it }).collect();
    Ok(Filter {
        direction: Some(direction),
        src: address(&question.src, src),
        dst: address(&question.dst, dst),
        src_port: port(question.src_port),
        dst_port: port(question.dst_port),
        ..Filter::default()
    })
}

/// The packet that `question` describes.
fn packet(question: &Question) -> Result<(Packet, Direction), Failure> {
    let bad = |message: String| Failure::input(Code::BadPacket, message);
    let field = |text: &str, error: parse::FieldError| bad(format!("`{text}`: {error}"));
    let protocol =
        parse::protocol(&question.protocol).map_err(|it| field(&question.protocol, it))?;
    let dscp = parse::dscp(&question.dscp).map_err(|it| field(&question.dscp, it))?;
    let [src, dst] = addresses(question)?;
    let key = FlowKey {
        src: endpoint(src, question.src_port),
        dst: endpoint(dst, question.dst_port),
        protocol: Protocol(protocol.first),
    };
    let has_ports = [Protocol::TCP, Protocol::UDP].contains(&key.protocol);
    if !has_ports && question.src_port.or(question.dst_port).is_some() {
        return Err(bad(format!("`{}` has no ports", question.protocol)));
    }
    let direction = Direction::BOTH.into_iter().find(|it| it.name() == question.direction);
    let direction = direction
        .ok_or_else(|| bad(format!("`{}` is not a direction: up or down", question.direction)))?;
    let network = if dst.is_ipv4() { Network::Ipv4 } else { Network::Ipv6 };
    let vlan = question.vlan.unwrap_or(NO_VLAN);
    Ok((Packet { key, network, vlan, dscp: dscp.first, ..Packet::default() }, direction))
}

/// The headers around the packet: the second VLAN tag, and the tunnel.
fn outer(question: &Question) -> Result<Option<Outer>, Failure> {
    let mut outer = Outer::default();
    outer.second_vlan = question.inner_vlan.unwrap_or(NO_VLAN);
    if let Some(tunnel) = tunnel(question)? {
        outer.push(tunnel);
    }
    Ok((!outer.is_empty()).then_some(outer))
}

fn tunnel(question: &Question) -> Result<Option<Tunnel>, Failure> {
    let (Some(src), Some(dst)) = (&question.tunnel_src, &question.tunnel_dst) else {
        return Ok(None);
    };
    let bad = |message: String| Failure::input(Code::BadPacket, message);
    let address = |text: &str| text.parse().map_err(|_| bad(format!("`{text}` is not an address")));
    let (src, dst): (IpAddr, IpAddr) = (address(src)?, address(dst)?);
    let kind = TunnelKind::ALL.into_iter().find(|it| it.name() == question.tunnel);
    let kind = kind.ok_or_else(|| bad(format!("`{}` is no tunnel", question.tunnel)))?;
    let inner_is_v4 =
        question.dst.as_ref().or(question.src.as_ref()).is_some_and(|it| !it.contains(':'));
    let (protocol, port) = match kind {
        TunnelKind::Ip => (if inner_is_v4 { 4 } else { 41 }, None),
        TunnelKind::Gre => (47, None),
        TunnelKind::Vxlan => (17, Some(4789)),
        TunnelKind::Geneve => (17, Some(6081)),
        TunnelKind::GtpU => (17, Some(2152)),
        TunnelKind::L2tp => (17, Some(1701)),
        TunnelKind::Pseudowire => return Err(bad("a pseudowire has no addresses".to_owned())),
    };
    let (src, dst) = (endpoint(src, port), endpoint(dst, port));
    let key = FlowKey { src, dst, protocol: Protocol(protocol) };
    Ok(Some(Tunnel { key, kind, id: None, vlan: NO_VLAN, may_edit: true }))
}

/// Returns both addresses. A missing address becomes the unspecified address of the family that the
/// given address has.
fn addresses(question: &Question) -> Result<[IpAddr; 2], Failure> {
    let bad = |message: String| Failure::input(Code::BadPacket, message);
    let read = |text: &Option<String>| match text {
        Some(text) => {
            text.parse::<IpAddr>().map(Some).map_err(|_| bad(format!("`{text}` is not an address")))
        }
        None => Ok(None),
    };
    let unspecified = |other: IpAddr| match other {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    let both = match (read(&question.src)?, read(&question.dst)?) {
        (Some(src), Some(dst)) => [src, dst],
        (Some(src), None) => [src, unspecified(src)],
        (None, Some(dst)) => [unspecified(dst), dst],
        (None, None) => return Err(bad("say at least --src or --dst".to_owned())),
    };
    if both[0].is_ipv4() != both[1].is_ipv4() {
        return Err(bad(format!("{} and {} are of different families", both[0], both[1])));
    }
    Ok(both)
}

fn endpoint(address: IpAddr, port: Option<u16>) -> Endpoint {
    let port = port.unwrap_or(0);
    match address {
        IpAddr::V4(address) => Endpoint::v4(address.octets(), port),
        IpAddr::V6(address) => Endpoint::v6(address.octets(), port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a charge without the configured overhead; a VLAN tag charged twice, because the
    /// configured overhead already contains it.
    #[test]
    fn explanations_show_the_bytes_that_short_and_long_packets_use_on_the_link() {
        let text = "[gateway]\nlan = \"lan\"\nwan = \"wan\"\nrate = { up = \"1 Mbit/s\" }\noverhead = { per_packet = 18, min = 90 }\n";
        let config = crate::config::parse("policy.toml", text, None).0.unwrap();
        let charged = |vlan| {
            let protocol = "tcp".to_owned();
            let (dscp, direction) = ("DF".to_owned(), "up".to_owned());
            let dst = Some("192.0.2.1".to_owned());
            let question = Question { dst, protocol, dscp, direction, vlan, ..Question::default() };
            explain(&config, &question)
                .unwrap()
                .charged
                .iter()
                .map(|it| it.bytes)
                .collect::<Vec<_>>()
        };
        let per_packet = charged(None)[1] - 1_492;
        assert_eq!((per_packet, charged(None)[0]), (18, 90));
        assert_eq!(charged(Some(7)), charged(None));
    }

    /// Catches: addresses compared as text, so that two spellings of an address differ; a filter on
    /// a field that the question does not mention; flows of the opposite direction in the list.
    #[test]
    fn the_spelling_of_an_address_does_not_change_which_flows_are_listed() {
        let question = Question {
            dst: Some("2001:db8:0:0::1".to_owned()),
            dst_port: Some(443),
            protocol: "tcp".to_owned(),
            dscp: "DF".to_owned(),
            direction: "up".to_owned(),
            ..Question::default()
        };
        let only = filter(&question).unwrap();
        let flow = |dst: &str, dst_port| {
            let asked = Question {
                src: Some("2001:db8::9".to_owned()),
                src_port: Some(5_000),
                dst: Some(dst.to_owned()),
                dst_port: Some(dst_port),
                ..question.clone()
            };
            packet(&asked).unwrap().0
        };
        assert!(only.matches(&flow("2001:db8::1", 443), Direction::Up));
        assert!(!only.matches(&flow("2001:db8::1", 443), Direction::Down));
        assert!(!only.matches(&flow("2001:db8::2", 443), Direction::Up));
        assert!(!only.matches(&flow("2001:db8::1", 80), Direction::Up));
    }

    /// Catches: the second VLAN tag missing in the packet, or in the list of fields that do not
    /// match.
    #[test]
    fn a_policy_can_match_the_inner_vlan_tag() {
        let text = "[gateway]\nlan = \"a\"\nwan = \"b\"\n[[policy]]\nname = \"customer\"\naction = \"pass\"\n\
                    match = { vlan = { outer = 100, inner = 20 } }\n";
        let config = crate::config::parse("it.toml", text, None).0.unwrap();
        let ask = |inner_vlan| {
            let question = Question {
                dst: Some("10.0.0.1".to_owned()),
                protocol: "tcp".to_owned(),
                dscp: "DF".to_owned(),
                direction: "up".to_owned(),
                vlan: Some(100),
                inner_vlan,
                ..Question::default()
            };
            let explained = explain(&config, &question).unwrap();
            (explained.policy, explained.policies[0].differs_in.clone())
        };
        assert_eq!(ask(Some(20)), (Some("customer".to_owned()), None));
        assert_eq!(ask(Some(21)), (None, Some("vlan.inner".to_owned())));
        assert_eq!(ask(None), (None, Some("vlan.inner".to_owned())));
    }
}
