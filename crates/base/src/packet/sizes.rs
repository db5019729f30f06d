//! Usual sizes of packets and segments.

/// Bytes of a full Ethernet frame.
///
/// Source: IEEE 802.3 (1,500 bytes of payload, 14 of header).
pub const FRAME: u32 = 1_514;

/// Payload bytes of a full [`FRAME`] of TCP: IPv4, TCP and its timestamps take 52.
///
/// Source: RFC 7323, appendix A.
pub const USUAL_MSS: u32 = 1_448;

/// Smallest maximum segment size. It leaves room for TCP options.
///
/// Source: Linux, `TCP_MIN_MSS`.
pub const LEAST_MSS: u16 = 88;
