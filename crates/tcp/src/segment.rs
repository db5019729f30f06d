//! A segment as an end point sends and receives it.

use tidegate_base::packet::{Ecn, SackBlocks, TcpFlags, TcpSegment};

/// A TCP segment, and the ECN field of its packet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Segment {
    /// The TCP header. If `has_sack` is set, `sack` is valid.
    pub header: TcpSegment,
    /// The SACK blocks.
    pub sack: SackBlocks,
    /// The ECN field (RFC 3168, section 5).
    pub ecn: Ecn,
}

impl Segment {
    /// Length of the header on the wire in bytes, options included.
    #[must_use]
    pub fn header_len(&self) -> u32 {
        let header = &self.header;
        let blocks = u32::try_from(self.sack.as_slice().len()).unwrap_or(0);
        let timestamps = if header.timestamps.is_some() { 12 } else { 0 };
        let sack = if header.has_sack { 4 + 8 * blocks } else { 0 };
        let syn = if header.flags.any(TcpFlags::SYN) {
            let mss = if header.mss > 0 { 4 } else { 0 };
            let scale = if header.window_scale.is_some() { 4 } else { 0 };
            // With timestamps, SACK-permitted takes the place of their padding.
            let alone = header.sack_permitted && header.timestamps.is_none();
            mss + scale + if alone { 4 } else { 0 }
        } else {
            0
        };
        20 + timestamps + sack + syn
    }
}
