//! Kinds of access links, and the bytes that each kind adds to an IP packet.
//!
//! A frame in the gateway may have headers between Ethernet and IP (VLAN tags, PPPoE). The kind of
//! link decides whether these headers are added to the bytes in the table:
//!
//! - `pppoe-*`: the bytes of the table include PPPoE and PPP. Such headers of the frame are not
//!   added again.
//! - Kinds that carry whole Ethernet frames: all headers of the frame are added.
//! - IP without Ethernet (`ipoa-*`, `pppoa-*`), `conservative`, and numbers of the operator:
//!   nothing is added. The packet counts from its IP header on.
//!
//! Source: for the numbers, the manual page tc-cake(8), section "Manual overhead specification" and
//! below. They are relative to the IP packet, as in tc and sqm-scripts. `ethernet`: IEEE 802.3
//! (preamble 8, header 14, FCS 4, gap 12, smallest frame 64 bytes). `docsis`: DOCSIS (header and
//! FCS). ATM and PTM: RFC 2684 and RFC 2516.
//!
//! Differs: the 64b/65b code of PTM is not counted; configure 98.4 % of the modem's rate.

use serde_json::{Value, json};
use tidegate_core::link::{Headers, Overhead};
use toml::Spanned;
use toml::de::DeValue;

use crate::added::Mechanisms;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::{Field, Node, Number, Read, Required, Table, one_of, tables};
use crate::values::number;

/// A kind of access link.
struct LinkKind {
    name: &'static str,
    /// Bytes added to each IP packet.
    per_packet: i32,
    /// Smallest number of bytes that a packet occupies on the link.
    min: u32,
    atm: bool,
    /// Headers between Ethernet and IP that are not counted again: `per_packet` includes them, or
    /// they do not cross the link.
    contains: Headers,
}

const fn kind(
    name: &'static str,
    per_packet: i32,
    min: u32,
    atm: bool,
    contains: Headers,
) -> LinkKind {
    LinkKind { name, per_packet, min, atm, contains }
}

const KINDS: &[LinkKind] = &[
    kind("raw", ETHERNET_HEADER, 0, false, Headers::None),
    kind("conservative", 48, 0, true, Headers::All),
    kind("ethernet", 38, 84, false, Headers::None),
    kind("docsis", 18, 64, false, Headers::None),
    kind("pppoe-ptm", 30, 0, false, Headers::Pppoe),
    kind("bridged-ptm", 22, 0, false, Headers::None),
    kind("ipoa-vcmux", 8, 0, true, Headers::All),
    kind("ipoa-llcsnap", 16, 0, true, Headers::All),
    kind("bridged-vcmux", 24, 0, true, Headers::None),
    kind("bridged-llcsnap", 32, 0, true, Headers::None),
    kind("pppoa-vcmux", 10, 0, true, Headers::All),
    kind("pppoa-llc", 14, 0, true, Headers::All),
    kind("pppoe-vcmux", 32, 0, true, Headers::Pppoe),
    kind("pppoe-llcsnap", 40, 0, true, Headers::Pppoe),
];

/// Length of the Ethernet header, in bytes.
const ETHERNET_HEADER: i32 = 14;

/// The field `overhead` as written: the name of a kind, or numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry(pub(crate) Overhead);

tables! {
    /// The overhead of the link in numbers.
    "`overhead`" Numbers {
        /// Bytes added to each IP packet, from -64 to 256: the number of tc-cake(8). Headers of the frame between
        /// Ethernet and IP do not count.
        "per_packet" => per_packet: Required<Number>,
        /// Fewest bytes a packet occupies, from 0 to 256. Default: 0.
        "min" => min: Option<Spanned<Number>>,
    }
}

impl Read for Entry {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        if matches!(node.get_ref(), DeValue::Table(_)) {
            return Numbers::read(node, found)?.overhead(found);
        }
        let name = String::read(node, found)?;
        let Some(kind) = KINDS.iter().find(|kind| kind.name == name) else {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            let message = format!("`{name}` is not a kind of link");
            let help = format!("{}; or {{ per_packet, min }}", one_of(&name, &names));
            found.push(Diagnostic::error(Code::UnknownName, node.span(), message).help(help));
            return None;
        };
        Some(Self(kind.overhead()))
    }

    fn schema(added: &Mechanisms) -> Value {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        json!({ "anyOf": [{ "enum": names }, Numbers::schema(added)] })
    }
}

impl Numbers {
    fn overhead(&self, found: &mut Findings) -> Option<Entry> {
        let per_packet =
            self.per_packet.get().and_then(|it| number(it, "per_packet", -64..=256, found));
        let min = match &self.min {
            Some(min) => number(min, "min", 0..=256, found),
            None => Some(0),
        };
        let (per_packet, min) = (per_packet?, min?);
        let name = "numbers of the operator";
        Some(Entry(
            LinkKind { name, per_packet, min, atm: false, contains: Headers::All }.overhead(),
        ))
    }
}

impl LinkKind {
    /// The overhead relative to the Ethernet frame, not to the IP packet.
    const fn overhead(&self) -> Overhead {
        let Self { per_packet, min, atm, contains, .. } = *self;
        Overhead { per_packet: per_packet - ETHERNET_HEADER, min, atm, contains }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Packet;

    use super::*;

    fn charge(name: &str, ip_len: u32) -> u32 {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        kind.overhead().charge(&Packet { len: ip_len + 14, ..Packet::default() })
    }

    #[test]
    fn the_numbers_count_from_the_ip_packet_as_in_tc_cake() {
        assert_eq!(charge("raw", 1_500), 1_514);
        assert_eq!(charge("ethernet", 1_500), 1_538);
        assert_eq!(charge("ethernet", 40), 84);
        assert_eq!(charge("docsis", 1_500), 1_518);
        assert_eq!(charge("pppoe-llcsnap", 1_500), 33 * 53); // 1,540 bytes in 33 cells
    }
}
