//! A segment as an end point sends and takes it.

use crate::packet::{Ecn, SackBlocks, TcpSegment};

/// A TCP segment, and the ECN field of the packet it travels in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Segment {
    /// Its header; `has_sack` says what `sack` says.
    pub header: TcpSegment,
    /// What is acknowledged selectively.
    pub sack: SackBlocks,
    /// The ECN field (RFC 3168, section 5).
    pub ecn: Ecn,
}
