//! What kinds of access links add to each packet.
//!
//! Source: the manual page tc-cake(8), section "Manual overhead specification" and below, for the
//! numbers; they count from the IP packet, as operators know them from tc and sqm-scripts. IEEE
//! 802.3 (preamble 8, header 14, FCS 4, gap 12, least frame 64 bytes) for `ethernet`, DOCSIS (header and
//! FCS) for `docsis`, RFC 2684 and RFC 2516 for those over ATM and PTM.
//! Differs: PTM's 64b/65b code is not counted; give 98.4 % of the rate the modem shows.

use serde_json::{Value, json};
use tidegate_core::gateway::Overhead;
use toml::Spanned;
use toml::de::DeValue;

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::{Field, Node, Number, Read, Required, Table, one_of, tables};
use crate::values::number;

/// A kind of link: bytes added to each IP packet, fewest bytes of one, whether in ATM cells.
struct Kind {
    name: &'static str,
    per_packet: i32,
    min: u32,
    atm: bool,
}

const fn kind(name: &'static str, per_packet: i32, min: u32, atm: bool) -> Kind {
    Kind { name, per_packet, min, atm }
}

const KINDS: &[Kind] = &[
    kind("raw", ETHERNET_HEADER, 0, false),
    kind("conservative", 48, 0, true),
    kind("ethernet", 38, 84, false),
    kind("docsis", 18, 64, false),
    kind("pppoe-ptm", 30, 0, false),
    kind("bridged-ptm", 22, 0, false),
    kind("ipoa-vcmux", 8, 0, true),
    kind("ipoa-llcsnap", 16, 0, true),
    kind("bridged-vcmux", 24, 0, true),
    kind("bridged-llcsnap", 32, 0, true),
    kind("pppoa-vcmux", 10, 0, true),
    kind("pppoa-llc", 14, 0, true),
    kind("pppoe-vcmux", 32, 0, true),
    kind("pppoe-llcsnap", 40, 0, true),
];

/// What a frame as we see it has beyond its IP packet.
const ETHERNET_HEADER: i32 = 14;

/// An entry for `overhead`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry(pub(crate) Overhead);

tables! {
    /// What the link adds, by numbers.
    "`overhead`" Numbers {
        /// Bytes added to each IP packet, from -64 to 256: the number of tc-cake(8).
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
        Some(Self(beyond_frame(kind.per_packet, kind.min, kind.atm)))
    }

    fn schema() -> Value {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        json!({ "anyOf": [{ "enum": names }, Numbers::schema()] })
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
        Some(Entry(beyond_frame(per_packet?, min?, false)))
    }
}

/// What is added to the frame, where `per_packet` is added to the IP packet.
const fn beyond_frame(per_packet: i32, min: u32, atm: bool) -> Overhead {
    Overhead { per_packet: per_packet - ETHERNET_HEADER, min, atm }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Packet;

    use super::*;

    fn charge(name: &str, ip_len: u32) -> u32 {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        let overhead = beyond_frame(kind.per_packet, kind.min, kind.atm);
        overhead.charge(&Packet { len: ip_len + 14, ..Packet::default() })
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
