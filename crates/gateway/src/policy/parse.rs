//! Parsers for the fields of a filter in policy files: addresses, ports, VLANs, protocols and DS codepoints.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;
use tidegate_core::packet::{Codepoint, NotACodepoint};

use super::Range;
use super::filter::IPV4;

/// The reason why a text is not a valid field of a filter.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// The text is neither an address, nor a prefix, nor a range of addresses.
    #[error(
        "`{text}` is not an address; write for example \"10.0.0.0/8\", \"10.0.0.1\", \"10.0.0.1-10.0.0.9\" or \"2001:db8::/32\""
    )]
    Address {
        /// The text.
        text: String,
    },
    /// The text is a prefix whose host bits are not zero, such as `10.0.0.1/24`.
    #[error(
        "`{text}` has bits set beyond its prefix; write \"{prefix}\" for all of it, or \"{address}\" for that address alone"
    )]
    HostBits {
        /// The text.
        text: String,
        /// The prefix with zero host bits.
        prefix: IpNet,
        /// The address without the prefix length.
        address: IpAddr,
    },
    /// The text is a range from an IPv4 address to an IPv6 address, or from IPv6 to IPv4.
    #[error("`{text}` begins in one address family and ends in the other; write a range for each")]
    Families {
        /// The text.
        text: String,
    },
    /// The text is a range whose end is below its beginning.
    #[error("`{text}` ends before it begins; write \"{swapped}\"")]
    Backwards {
        /// The text.
        text: String,
        /// The range in the right order.
        swapped: String,
    },
    /// The text is not a DS codepoint.
    #[error("`{text}` is not a DS codepoint; write {NotACodepoint}")]
    Codepoint {
        /// The text.
        text: String,
    },
    /// The text is neither a valid number nor a known name.
    #[error("`{text}` is not {kind}; write {expected}")]
    Number {
        /// The text.
        text: String,
        /// Kind of the field with an article, for example "a port".
        kind: &'static str,
        /// Description of the valid forms.
        expected: &'static str,
    },
}

/// Parses an address, a prefix or a range of addresses: `2001:db8::1`, `10.0.0.0/8`, `10.0.0.1-10.0.0.9`.
///
/// IPv4 addresses are in IPv6-mapped form, but do not belong to an IPv6 prefix. So `::/0` becomes two ranges.
///
/// ```
/// use tidegate_gateway::policy::parse::{addresses, show_addresses};
///
/// let prefix = addresses("10.0.0.0-10.0.0.255").unwrap();
/// assert_eq!(show_addresses(&prefix[0]), "10.0.0.0/24");
/// // The error proposes the two texts that may be meant.
/// let error = addresses("10.0.0.1/24").unwrap_err().to_string();
/// assert!(error.contains("10.0.0.0/24") && error.contains("10.0.0.1"), "{error}");
/// ```
///
/// # Errors
///
/// If the text has another form, a prefix has host bits that are not zero, or a range ends before it begins.
pub fn addresses(text: &str) -> Result<Vec<Range<u128>>, FieldError> {
    let wrong = || FieldError::Address { text: text.to_owned() };
    let (first, last) = if let Some((first, last)) = text.split_once('-') {
        let address = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| wrong());
        (address(first)?, address(last)?)
    } else if text.contains('/') {
        let net: IpNet = text.trim().parse().map_err(|_| wrong())?;
        if net != net.trunc() {
            let (prefix, address) = (net.trunc(), net.addr());
            return Err(FieldError::HostBits { text: text.to_owned(), prefix, address });
        }
        (net.network(), net.broadcast())
    } else {
        let address = text.trim().parse().map_err(|_| wrong())?;
        (address, address)
    };
    if first.is_ipv4() != last.is_ipv4() {
        return Err(FieldError::Families { text: text.to_owned() });
    }
    if first > last {
        let swapped = format!("{last}-{first}");
        return Err(FieldError::Backwards { text: text.to_owned(), swapped });
    }
    Ok(without_mapped(Range { first: number(first), last: number(last) }))
}

/// Formats a range of addresses as one address, a prefix or a range. [`addresses`] parses the result.
#[must_use]
pub fn show_addresses(range: &Range<u128>) -> String {
    let address = |number: u128| Ipv6Addr::from_bits(number).to_canonical();
    let (first, last) = (address(range.first), address(range.last));
    let host_bits = range.first ^ range.last;
    let is_prefix = host_bits & host_bits.wrapping_add(1) == 0 && range.first & host_bits == 0;
    if host_bits == 0 {
        return first.to_string();
    }
    if !is_prefix {
        return format!("{first}-{last}");
    }
    let length = host_bits.leading_zeros();
    let length = if matches!(first, IpAddr::V4(_)) { length - IPV4_BITS } else { length };
    format!("{first}/{length}")
}

/// Bits of an IPv4-mapped address before the IPv4 address.
///
/// Source: RFC 4291, section 2.5.5.2.
const IPV4_BITS: u32 = 96;

/// Parses a port or a range of ports: `443`, `8000-8080`.
///
/// # Errors
///
/// If the text has another form, a port is not from 1 to 65535, or the range ends before it begins.
pub fn ports(text: &str) -> Result<Range<u16>, FieldError> {
    range(
        text,
        1..=u16::MAX,
        "a port",
        "a number from 1 to 65535, or a range such as \"8000-8080\"",
    )
}

/// Parses a VLAN identifier or a range of them: `100`, `100-199`.
///
/// # Errors
///
/// If the text has another form, an identifier is not from 1 to 4094, or the range ends before it begins.
pub fn vlans(text: &str) -> Result<Range<u16>, FieldError> {
    let expected = "a number from 1 to 4094, or a range such as \"100-199\"";
    range(text, 1..=4094, "a VLAN identifier", expected)
}

/// Parses an IP protocol by name, in upper or lower case, or by number: `tcp`, `47`.
///
/// # Errors
///
/// If the text is neither a number from 1 to 255 nor a known name.
pub fn protocol(text: &str) -> Result<Range<u8>, FieldError> {
    named(text, &PROTOCOLS, 1..=u8::MAX).ok_or_else(|| FieldError::Number {
        text: text.to_owned(),
        kind: "an IP protocol",
        expected: "a number from 1 to 255, or tcp, udp, icmp, icmpv6, igmp, gre, esp, ah, ospf, sctp, udplite or dccp",
    })
}

/// Parses a DS codepoint by name, in upper or lower case, or by number: `EF`, `AF11`, `46`.
///
/// # Errors
///
/// If the text is neither a number from 0 to 63 nor a known name.
pub fn dscp(text: &str) -> Result<Range<u8>, FieldError> {
    let codepoint: Codepoint =
        text.parse().map_err(|_| FieldError::Codepoint { text: text.to_owned() })?;
    Ok(Range { first: codepoint.number(), last: codepoint.number() })
}

/// Names and numbers of protocols.
///
/// Source: RFC 5237, section 2 (the registry of protocol numbers).
const PROTOCOLS: [(&str, u8); 12] = [
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
    ("sctp", 132),
    ("udplite", 136),
];

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// `range` without IPv4-mapped addresses. A range of IPv4 addresses only stays unchanged.
fn without_mapped(range: Range<u128>) -> Vec<Range<u128>> {
    let (below, above) = (range.first < IPV4.first, range.last > IPV4.last);
    let apart = range.last < IPV4.first || range.first > IPV4.last;
    if apart || !(below || above) {
        return vec![range];
    }
    let below = below.then_some(Range { first: range.first, last: IPV4.first - 1 });
    let above = above.then_some(Range { first: IPV4.last + 1, last: range.last });
    below.into_iter().chain(above).collect()
}

fn range(
    text: &str,
    limits: RangeInclusive<u16>,
    kind: &'static str,
    expected: &'static str,
) -> Result<Range<u16>, FieldError> {
    let number = |text: &str| decimal(text).filter(|number| limits.contains(number));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (Some(first), Some(last)) = (number(first), number(last)) else {
        return Err(FieldError::Number { text: text.to_owned(), kind, expected });
    };
    if first > last {
        let swapped = format!("{last}-{first}");
        return Err(FieldError::Backwards { text: text.to_owned(), swapped });
    }
    Ok(Range { first, last })
}

fn named(text: &str, names: &[(&str, u8)], limits: RangeInclusive<u8>) -> Option<Range<u8>> {
    let text = text.trim();
    let by_name = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let number = by_name.map(|(_, number)| *number).or_else(|| decimal(text))?;
    limits.contains(&number).then_some(Range { first: number, last: number })
}

/// Parses a number that consists of digits only, without a sign.
fn decimal<T: FromStr>(text: &str) -> Option<T> {
    let text = text.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> u128 {
        number(text.parse().unwrap())
    }

    #[test]
    fn addresses_prefixes_and_ranges_are_parsed() {
        let one = |text| match addresses(text).unwrap().as_slice() {
            [range] => (range.first, range.last),
            more => panic!("{more:?}"),
        };
        assert_eq!(one("10.0.0.0/8"), (address("10.0.0.0"), address("10.255.255.255")));
        assert_eq!(one("10.0.0.1"), (address("10.0.0.1"), address("10.0.0.1")));
        assert_eq!(one("10.0.0.1 - 10.0.0.9"), (address("10.0.0.1"), address("10.0.0.9")));
        assert_eq!(one("0.0.0.0/0"), (IPV4.first, IPV4.last));
        assert_eq!(one("2001:db8::/32").1, address("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"));
    }

    #[test]
    fn the_prefix_of_all_ipv6_addresses_contains_no_ipv4_address() {
        let [below, above] = addresses("::/0").unwrap().try_into().unwrap();
        assert_eq!((below.first, below.last + 1), (0, IPV4.first));
        assert_eq!((above.first - 1, above.last), (IPV4.last, u128::MAX));
        assert_eq!(addresses("::ffff:10.0.0.1").unwrap(), addresses("10.0.0.1").unwrap());
    }

    #[test]
    fn an_error_says_what_to_write_instead() {
        let error = |text| addresses(text).unwrap_err().to_string();
        assert!(
            error("10.1.2.3/8").contains("write \"10.0.0.0/8\" for all of it, or \"10.1.2.3\"")
        );
        assert!(error("2001:db8::1/32").contains("\"2001:db8::/32\""));
        assert!(error("10.0.0.9-10.0.0.1").contains("write \"10.0.0.1-10.0.0.9\""));
        assert!(error("10.0.0.1-::1").contains("other"));
        for text in ["", "10.0.0", "10.0.0.0/33", "host", "1-2-3", "10.0.0.1/", "-", "::/129"] {
            assert!(error(text).contains("not an address"), "{text}");
        }
        assert!(ports("90-80").unwrap_err().to_string().contains("write \"80-90\""));
        assert!(ports("0").unwrap_err().to_string().contains("from 1 to 65535"));
    }

    #[test]
    fn ports_and_vlans_stay_within_their_bounds() {
        let range = |range: Range<u16>| (range.first, range.last);
        assert_eq!(range(ports("443").unwrap()), (443, 443));
        assert_eq!(range(ports("8000-8080").unwrap()), (8000, 8080));
        assert_eq!(range(ports("1-65535").unwrap()), (1, 65_535));
        assert_eq!(range(vlans("4094").unwrap()), (4094, 4094));
        for text in ["", "-", "0", "65536", "+80", "-80", "80-", "http", "1-2-3", "0x50"] {
            assert!(ports(text).is_err(), "{text}");
        }
        assert!(vlans("0").is_err() && vlans("4095").is_err());
    }

    #[test]
    fn protocols_go_by_name_or_number() {
        let value = |range: Result<Range<u8>, FieldError>| range.unwrap().first;
        assert_eq!(
            ["tcp", "UDP", "icmpv6", "47"].map(|text| value(protocol(text))),
            [6, 17, 58, 47]
        );
        for text in ["", "0", "256", "http", "-1"] {
            assert!(protocol(text).is_err(), "{text}");
        }
    }
}
