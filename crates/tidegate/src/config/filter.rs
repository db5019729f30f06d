//! Filters as they are written: each field a value or a list of values.

use std::net::IpAddr;

use ipnet::IpNet;
use tidegate_core::packet::NO_VLAN;
use tidegate_core::policy::{Filter, Range};
use toml::Spanned;

use super::diagnostic::{Diagnostic, Findings};
use super::raw;
use super::read::{List, Token, one_of};
use crate::code::Code;

/// What is wrong with a value: its code, what, and what to write instead where that is known.
pub(crate) struct Wrong(Code, String, Option<String>);

/// `raw` as a filter.
pub(crate) fn filter(raw: &raw::Match, found: &mut Findings) -> Option<Filter> {
    let src = ranges(raw.src.as_ref(), address, found);
    let dst = ranges(raw.dst.as_ref(), address, found);
    let src_port = ranges(raw.src_port.as_ref(), port, found);
    let dst_port = ranges(raw.dst_port.as_ref(), port, found);
    let protocol = ranges(raw.protocol.as_ref(), protocol, found);
    let dscp = ranges(raw.dscp.as_ref(), dscp, found);
    let vlan = ranges(raw.vlan.as_ref(), vlan, found);
    let direction = raw.direction.as_ref().map(|it| *it.get_ref());
    let (src, dst) = (src?, dst?);
    let (src_port, dst_port) = (src_port?, dst_port?);
    let (protocol, dscp, vlan) = (protocol?, dscp?, vlan?);
    ports_fit(raw, &protocol, found);
    Some(Filter { src, dst, src_port, dst_port, protocol, dscp, vlan, direction })
}

/// Every value of a field, in its order.
fn ranges<T>(
    list: Option<&Spanned<List<Token>>>,
    parse: fn(&str) -> Result<Range<T>, Wrong>,
    found: &mut Findings,
) -> Option<Vec<Range<T>>> {
    let Some(list) = list else { return Some(Vec::new()) };
    let mut all = Vec::new();
    let mut good = true;
    for token in &list.get_ref().0 {
        match parse(token.get_ref().0.trim()) {
            Ok(range) => all.push(range),
            Err(wrong) => {
                good = false;
                found.push(wrong.at(token));
            }
        }
    }
    good.then_some(all)
}

impl Wrong {
    /// As an error at `place`.
    pub(crate) fn at<T>(self, place: &Spanned<T>) -> Diagnostic {
        let Self(code, message, help) = self;
        let diagnostic = Diagnostic::error(code, place.span(), message);
        match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }
}

/// TCP, UDP, DCCP, SCTP and UDP-Lite: the ones with ports.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Complains of ports that a protocol listed beside them does not have.
fn ports_fit(raw: &raw::Match, protocol: &[Range<u8>], found: &mut Findings) {
    let without = |it: &Range<u8>| !(it.first..=it.last).all(|it| WITH_PORTS.contains(&it));
    let ports = raw.src_port.as_ref().or(raw.dst_port.as_ref());
    let (Some(ports), Some(listed)) = (ports, &raw.protocol) else { return };
    let places = listed.get_ref().0.iter();
    for (place, _) in places.zip(protocol).filter(|(_, range)| without(range)) {
        let message = format!("`{}` has no ports", place.get_ref().0);
        found.push(
            Diagnostic::error(Code::PortsWithoutProtocol, ports.span(), message)
                .other(place.span(), "the protocol"),
        );
    }
}

fn bounds<T: PartialOrd>(first: T, last: T, text: &str) -> Result<Range<T>, Wrong> {
    if first > last {
        return Err(Wrong(Code::BadRange, format!("`{text}` ends before it begins"), None));
    }
    Ok(Range { first, last })
}

fn address(text: &str) -> Result<Range<u128>, Wrong> {
    let bad =
        || Wrong(Code::BadAddress, format!("`{text}` is not an address, prefix or range"), None);
    if let Some((first, last)) = text.split_once('-') {
        let first: IpAddr = first.trim().parse().map_err(|_| bad())?;
        let last: IpAddr = last.trim().parse().map_err(|_| bad())?;
        if first.is_ipv4() != last.is_ipv4() {
            return Err(bad());
        }
        return bounds(number(first), number(last), text);
    }
    if !text.contains('/') {
        let address = number(text.parse().map_err(|_| bad())?);
        return Ok(Range { first: address, last: address });
    }
    let prefix: IpNet = text.parse().map_err(|_| bad())?;
    if prefix.trunc() != prefix {
        let message =
            format!("`{text}` has bits set beyond its {} prefix bits", prefix.prefix_len());
        let help = format!(
            "write \"{}\" for the prefix, \"{}\" for the host",
            prefix.trunc(),
            prefix.addr()
        );
        return Err(Wrong(Code::HostBits, message, Some(help)));
    }
    Ok(Range { first: number(prefix.network()), last: number(prefix.broadcast()) })
}

/// An address as filters compare it, IPv4 in its IPv6-mapped form.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn port(text: &str) -> Result<Range<u16>, Wrong> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let bad = |_| Wrong(Code::BadPort, format!("`{text}` is not a port or range of ports"), None);
    let (first, last) = (first.trim().parse().map_err(bad)?, last.trim().parse().map_err(bad)?);
    bounds(first, last, text)
}

const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udp-lite", 136),
];

/// An IP protocol by name or number.
pub(crate) fn protocol(text: &str) -> Result<Range<u8>, Wrong> {
    let names: Vec<_> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
    let bad = || {
        let help = format!("{}, or a number from 0 to 255", one_of(text, &names));
        Wrong(Code::BadProtocol, format!("`{text}` is not an IP protocol"), Some(help))
    };
    let named = PROTOCOLS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let number =
        named.map_or_else(|| text.parse(), |(_, number)| Ok(*number)).map_err(|_| bad())?;
    Ok(Range { first: number, last: number })
}

const CODEPOINTS: &[(&str, u8)] = &[
    ("be", 0),
    ("le", 1),
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("va", 44),
    ("ef", 46),
];

/// A DS codepoint by name or number (RFC 2474, 2597, 3246, 5865, 8622).
pub(crate) fn dscp(text: &str) -> Result<Range<u8>, Wrong> {
    let names: Vec<_> = CODEPOINTS.iter().map(|(name, _)| *name).collect();
    let bad = || {
        let help = format!("{}, or a number from 0 to 63", one_of(text, &names));
        Wrong(Code::BadDscp, format!("`{text}` is not a DS codepoint"), Some(help))
    };
    let named = CODEPOINTS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let number =
        named.map_or_else(|| text.parse(), |(_, number)| Ok(*number)).map_err(|_| bad())?;
    if number > 63 {
        return Err(bad());
    }
    Ok(Range { first: number, last: number })
}

fn vlan(text: &str) -> Result<Range<u16>, Wrong> {
    if text == "none" {
        return Ok(Range { first: NO_VLAN, last: NO_VLAN });
    }
    let bad = || Wrong(Code::BadVlan, format!("`{text}` is not a VLAN identifier"), None);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first: u16 = first.trim().parse().map_err(|_| bad())?;
    let last: u16 = last.trim().parse().map_err(|_| bad())?;
    if ![first, last].iter().all(|it| (1..=4094).contains(it)) {
        return Err(bad());
    }
    bounds(first, last, text)
}
