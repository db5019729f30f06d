//! Translates the `match` of a policy into an IP headers filter of RFC 4104 and back, as far as
//! such a filter can express it.
//!
//! A filter entry can hold one address, prefix or range, one port or range of ports, one protocol,
//! any DS codepoints, and the direction. Other parts of a `match` go into our own attributes: lists
//! of other values, VLANs, and spellings that a filter cannot reproduce.
//!
//! Source: RFC 4104, sections 5.20, 5.21 and 5.23; RFC 3460, section 5.9.2.
//! Differs:
//! - RFC 4104 states the direction at an interface. Here this interface is the WAN port: output (2)
//!   is `up`, input (1) is `down`.
//! - Negated filters, flow labels, masks with holes and mirrored filters are refused with the
//!   reason.
//! - All filters in a list must match (`EntrySequence` 0 of RFC 3460).

use std::net::IpAddr;

use ipnet::IpNet;
use tidegate_core::packet::Codepoint;
use tidegate_gateway::policy::parse;
use toml::{Table, Value};

use super::entry::Entry;
use crate::Fault;

/// Moves fields of a `match` from `fields` to `filter`, as far as an IP headers filter can express
/// them, and the direction to `rule`. Returns `true` if `filter` received a field.
pub(super) fn write(fields: &mut Table, rule: &mut Entry, filter: &mut Entry) -> bool {
    let before = filter.attributes.len();
    for name in ["src", "dst", "src_port", "dst_port", "protocol", "dscp"] {
        let Some(value) = fields.get(name) else { continue };
        let mut wider = filter.clone();
        let expressed = match name {
            "src" | "dst" => write_address(value, side(name), &mut wider),
            "src_port" | "dst_port" => write_ports(value, side(name), &mut wider),
            "protocol" => write_protocol(value, &mut wider),
            _ => write_codepoints(value, &mut wider),
        };
        let same = || read_fields(&wider).is_ok_and(|read| read.get(name) == Some(value));
        if expressed.is_some() && same() {
            *filter = wider;
            fields.remove(name);
        }
    }
    let direction = fields
        .get("direction")
        .and_then(Value::as_str)
        .and_then(|direction| DIRECTIONS.iter().find(|(name, _)| *name == direction));
    if let Some((_, number)) = direction {
        rule.add(DIRECTION, number.to_string());
        fields.remove("direction");
    }
    filter.attributes.len() > before
}

/// The fields of a `match` that a filter entry expresses.
pub(super) fn read(filter: &Entry) -> Result<Table, Fault> {
    if !filter.is_a(FILTER_CLASS) {
        return Err(filter.malformed(
            "objectClass",
            "is no filter that is supported; write pcelsIPHeadersFilter",
        ));
    }
    if filter.boolean(NEGATED)? {
        return Err(filter.malformed(NEGATED, "is TRUE; a policy cannot match what is not"));
    }
    if filter.has(FLOW_LABEL) {
        return Err(filter.malformed(FLOW_LABEL, "is not supported"));
    }
    read_fields(filter)
}

/// The direction of a list of filters. `None` if the list states none, or both.
pub(super) fn read_direction(rule: &Entry) -> Result<Option<Value>, Fault> {
    let Some(number) = rule.integer(DIRECTION)? else { return Ok(None) };
    if [NOT_APPLICABLE, BOTH].contains(&number) {
        return Ok(None);
    }
    let direction = DIRECTIONS.iter().find(|(_, it)| *it == number);
    match direction {
        Some((name, _)) => Ok(Some(Value::String((*name).to_owned()))),
        None => Err(rule.malformed(DIRECTION, "is not 0 to 3; write a policy for each direction")),
    }
}

fn read_fields(filter: &Entry) -> Result<Table, Fault> {
    let mut fields = Table::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    for name in ["src", "dst"] {
        set(name, read_address(filter, side(name))?);
    }
    for name in ["src_port", "dst_port"] {
        set(name, read_ports(filter, side(name))?);
    }
    set("protocol", read_protocol(filter)?);
    set("dscp", read_codepoints(filter)?);
    Ok(fields)
}

/// The part of an attribute's name for the end that the field `name` is about: `Source` or `Dest`.
fn side(name: &str) -> &'static str {
    if name.starts_with("src") { "Source" } else { "Dest" }
}

fn write_address(value: &Value, side: &str, filter: &mut Entry) -> Option<()> {
    let text = value.as_str()?;
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let (first, last, mask) = if let Some((first, last)) = text.split_once('-') {
        (first.parse().ok()?, Some(last.parse().ok()?), None)
    } else if text.contains('/') {
        let net: IpNet = text.parse().ok()?;
        (net.addr(), None, Some(net.netmask()))
    } else {
        (text.parse().ok()?, None, None)
    };
    let version: &[u8] = if first.is_ipv4() { b"4" } else { b"6" };
    match filter.values(VERSION) {
        [] => filter.add(VERSION, version),
        [other] if other == version => {}
        _ => return None,
    }
    filter.add(&format!("pcelsIPHdr{side}Address"), octets(first));
    if let Some(last) = last {
        filter.add(&format!("pcelsIPHdr{side}AddressEndOfRange"), octets(last));
    }
    if let Some(mask) = mask {
        filter.add(&format!("pcelsIPHdr{side}Mask"), octets(mask));
    }
    Some(())
}

fn read_address(filter: &Entry, side: &str) -> Result<Option<Value>, Fault> {
    let octets = |attribute: &str| -> Result<Option<IpAddr>, Fault> {
        let Some(bytes) = filter.bytes(attribute)? else { return Ok(None) };
        let address = match filter.integer(VERSION)? {
            Some(4) => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
            Some(6) => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
            Some(_) => return Err(filter.malformed(VERSION, "is neither 4 nor 6")),
            None => {
                return Err(filter.malformed(VERSION, "is missing, although there is an address"));
            }
        };
        address
            .map(Some)
            .ok_or_else(|| filter.malformed(attribute, "does not have the size of an address"))
    };
    let attribute = format!("pcelsIPHdr{side}Address");
    let (end, mask) = (format!("{attribute}EndOfRange"), format!("pcelsIPHdr{side}Mask"));
    let text = match (octets(&attribute)?, octets(&end)?, octets(&mask)?) {
        (None, None, None) => return Ok(None),
        (Some(address), None, None) => address.to_string(),
        (Some(first), Some(last), None) => format!("{first}-{last}"),
        (Some(address), None, Some(netmask)) => {
            let net = IpNet::with_netmask(address, netmask).map_err(|_| {
                filter.malformed(&mask, "has holes; write one filter for each prefix")
            })?;
            net.trunc().to_string()
        }
        (Some(_), Some(_), Some(_)) => {
            return Err(filter.malformed(&mask, "is given together with the end of a range"));
        }
        (None, _, _) => return Err(filter.malformed(&attribute, "is missing")),
    };
    Ok(Some(Value::String(text)))
}

fn write_ports(value: &Value, side: &str, filter: &mut Entry) -> Option<()> {
    let (first, last) = match value {
        Value::Integer(port) => (port.to_string(), port.to_string()),
        value => {
            let (first, last) = value.as_str()?.split_once('-')?;
            (first.to_owned(), last.to_owned())
        }
    };
    filter.add(&format!("pcelsIPHdr{side}PortStart"), first);
    filter.add(&format!("pcelsIPHdr{side}PortEnd"), last);
    Some(())
}

fn read_ports(filter: &Entry, side: &str) -> Result<Option<Value>, Fault> {
    let (start, end) = (format!("pcelsIPHdr{side}PortStart"), format!("pcelsIPHdr{side}PortEnd"));
    let within = |attribute: &str| match filter.integer(attribute)? {
        Some(port) if u16::try_from(port).is_err() => {
            Err(filter.malformed(attribute, "is not a port"))
        }
        port => Ok(port),
    };
    match (within(&start)?, within(&end)?) {
        (None, None) => Ok(None),
        (Some(first), Some(last)) if first == last => Ok(Some(Value::Integer(first))),
        (Some(first), Some(last)) => Ok(Some(Value::String(format!("{first}-{last}")))),
        (Some(_), None) => Err(filter.malformed(&end, "is missing")),
        (None, Some(_)) => Err(filter.malformed(&start, "is missing")),
    }
}

fn write_protocol(value: &Value, filter: &mut Entry) -> Option<()> {
    let number = match value {
        Value::Integer(number) => u8::try_from(*number).ok()?,
        value => parse::protocol(value.as_str()?).ok()?.first,
    };
    filter.add(PROTOCOL, number.to_string());
    Some(())
}

fn read_protocol(filter: &Entry) -> Result<Option<Value>, Fault> {
    let Some(number) = filter.integer(PROTOCOL)? else { return Ok(None) };
    let number = u8::try_from(number).map_err(|_| filter.malformed(PROTOCOL, "is not 0 to 255"))?;
    Ok(Some(protocol(number)))
}

/// The name of a protocol in policy files, or its number if it has no name there.
pub(super) fn protocol(number: u8) -> Value {
    let is = |name: &&&str| parse::protocol(name).is_ok_and(|range| range.first == number);
    match PROTOCOL_NAMES.iter().find(is) {
        Some(name) => Value::String((*name).to_owned()),
        None => Value::Integer(i64::from(number)),
    }
}

fn write_codepoints(value: &Value, filter: &mut Entry) -> Option<()> {
    let one = std::slice::from_ref(value);
    for value in value.as_array().map_or(one, Vec::as_slice) {
        let number = match value {
            Value::Integer(number) => u8::try_from(*number).ok()?,
            value => value.as_str()?.parse::<Codepoint>().ok()?.number(),
        };
        let number = number.to_string();
        if filter.values(CODEPOINTS).contains(&number.clone().into_bytes()) {
            // A directory stores equal values only once, so a repeated codepoint would be lost.
            return None;
        }
        filter.add(CODEPOINTS, number);
    }
    Some(())
}

fn read_codepoints(filter: &Entry) -> Result<Option<Value>, Fault> {
    let wrong = || filter.malformed(CODEPOINTS, "is not 0 to 63");
    let mut numbers = Vec::new();
    for text in filter.texts(CODEPOINTS)? {
        numbers.push(text.parse().ok().and_then(Codepoint::new).ok_or_else(wrong)?);
    }
    numbers.sort_unstable_by_key(|codepoint| codepoint.number());
    let mut values: Vec<_> = numbers.into_iter().map(codepoint).collect();
    Ok(match values.len() {
        0 => None,
        1 => values.pop(),
        _ => Some(Value::Array(values)),
    })
}

/// The name of a codepoint, or its number if it has no name.
pub(super) fn codepoint(codepoint: Codepoint) -> Value {
    let is = |name: &&&str| name.parse() == Ok(codepoint);
    match CODEPOINT_NAMES.iter().find(is) {
        Some(name) => Value::String((*name).to_owned()),
        None => Value::Integer(i64::from(codepoint.number())),
    }
}

/// The object class of filter entries.
pub(super) const FILTER_CLASS: &str = "pcelsIPHeadersFilter";
/// The auxiliary object class of rules and conditions that list filters.
pub(super) const LIST_CLASS: &str = "pcelsFilterListAuxClass";
/// The attribute that lists the names of filters.
pub(super) const LIST: &str = "pcelsFilterEntryList";
/// The attribute with the direction of a list of filters.
pub(super) const DIRECTION: &str = "pcelsFilterDirection";

const NEGATED: &str = "pcelsFilterIsNegated";
const FLOW_LABEL: &str = "pcelsIPHdrFlowLabel";
const VERSION: &str = "pcelsIPHdrVersion";
const PROTOCOL: &str = "pcelsIPHdrProtocolID";
const CODEPOINTS: &str = "pcelsIPHdrDSCPList";

/// Values of `pcelsFilterDirection`; RFC 4104, section 5.23.
const DIRECTIONS: [(&str, i64); 2] = [("down", 1), ("up", 2)];
const NOT_APPLICABLE: i64 = 0;
const BOTH: i64 = 3;

/// The names of protocols in policy files.
const PROTOCOL_NAMES: [&str; 12] =
    ["icmp", "igmp", "tcp", "udp", "dccp", "gre", "esp", "ah", "icmpv6", "ospf", "sctp", "udplite"];

/// Names of codepoints, one per codepoint.
const CODEPOINT_NAMES: [&str; 23] = [
    "DF", "LE", "CS1", "CS2", "CS3", "CS4", "CS5", "CS6", "CS7", "AF11", "AF12", "AF13", "AF21",
    "AF22", "AF23", "AF31", "AF32", "AF33", "AF41", "AF42", "AF43", "VA", "EF",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaultKind;

    type Values<'a> = &'a [(&'a str, &'a [u8])];

    fn filter(values: Values<'_>) -> Entry {
        let mut filter = Entry::new("cn=filter".to_owned(), &[FILTER_CLASS]);
        for (name, value) in values {
            filter.add(name, *value);
        }
        filter
    }

    /// Catches: a filter entry with an unsupported part that is ignored. The policy would match
    /// more packets than the filter.
    #[test]
    fn a_filter_that_no_match_can_express_is_refused_with_its_attribute() {
        let source = ("pcelsIPHdrSourceAddress", &[10, 0, 0, 1][..]);
        let four = ("pcelsIPHdrVersion", &b"4"[..]);
        let cases: [(&str, Values<'_>); 11] = [
            ("pcelsFilterIsNegated", &[("pcelsFilterIsNegated", b"TRUE")]),
            ("pcelsIPHdrFlowLabel", &[("pcelsIPHdrFlowLabel", b"\0\0\x01")]),
            ("pcelsIPHdrVersion", &[source]),
            ("pcelsIPHdrVersion", &[source, ("pcelsIPHdrVersion", b"5")]),
            ("pcelsIPHdrSourceAddress", &[source, ("pcelsIPHdrVersion", b"6")]),
            ("pcelsIPHdrSourceMask", &[four, source, ("pcelsIPHdrSourceMask", &[255, 0, 255, 0])]),
            ("pcelsIPHdrDestAddress", &[four, ("pcelsIPHdrDestMask", &[255, 0, 0, 0])]),
            ("pcelsIPHdrDestPortEnd", &[("pcelsIPHdrDestPortStart", b"80")]),
            (
                "pcelsIPHdrDestPortStart",
                &[("pcelsIPHdrDestPortStart", b"65536"), ("pcelsIPHdrDestPortEnd", b"65536")],
            ),
            ("pcelsIPHdrProtocolID", &[("pcelsIPHdrProtocolID", b"256")]),
            ("pcelsIPHdrDSCPList", &[("pcelsIPHdrDSCPList", b"64")]),
        ];
        for (attribute, values) in cases {
            let fault = read(&filter(values)).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Malformed);
            assert!(
                fault.message.contains(&format!("cn=filter: `{attribute}`")),
                "{attribute}: {fault}"
            );
        }
    }

    #[test]
    fn masks_become_prefixes_and_ranges_stay_ranges() {
        let source = |more: Values<'_>| {
            let mut values =
                vec![("pcelsIPHdrVersion", &b"4"[..]), ("pcelsIPHdrSourceAddress", &[10, 1, 2, 3])];
            values.extend_from_slice(more);
            read(&filter(&values)).unwrap()["src"].as_str().unwrap().to_owned()
        };
        assert_eq!(source(&[]), "10.1.2.3");
        assert_eq!(source(&[("pcelsIPHdrSourceMask", &[255, 255, 0, 0])]), "10.1.0.0/16");
        assert_eq!(
            source(&[("pcelsIPHdrSourceAddressEndOfRange", &[10, 1, 2, 9])]),
            "10.1.2.3-10.1.2.9"
        );
    }
}
