//! Converts the segments of simulated TCP end points to frames, and frames to segments.

use std::net::SocketAddr;

use tidegate_core::Packet;
use tidegate_core::packet::{SackBlocks, TcpFlags};
use tidegate_core::tcp::Segment;

use crate::build::Frame;
use crate::option::{self, MSS, NOP, SACK, SACK_PERMITTED, TIMESTAMPS, WINDOW_SCALE};

/// The frame with the TCP segment `segment` and its `payload`, whose length must be that of the
/// segment.
#[must_use]
pub fn frame(src: SocketAddr, dst: SocketAddr, segment: &Segment, payload: Vec<u8>) -> Frame {
    let mut frame = Frame { payload, ..Frame::tcp(src, dst) };
    if let Some(ip) = frame.ip_mut() {
        ip.ecn = segment.ecn;
    }
    if let Some(tcp) = frame.tcp_mut() {
        let header = &segment.header;
        (tcp.seq, tcp.ack) = (header.seq, header.ack);
        (tcp.flags, tcp.high_flags, tcp.window) = (header.flags, header.high_flags, header.window);
        tcp.options = options(segment);
    }
    frame
}

/// The TCP segment in `frame`, and its payload. `packet` is the frame's descriptor. `None` if it
/// has no TCP header.
#[must_use]
pub fn read<'a>(frame: &'a [u8], packet: &Packet) -> Option<(Segment, &'a [u8])> {
    let header = packet.tcp?;
    let at = usize::from(packet.transport_offset);
    let len = usize::from(frame.get(at + 12)? >> 4) * 4;
    let payload = frame.get(at + len..)?.get(..usize::try_from(header.payload).ok()?)?;
    Some((Segment { header, sack: sack(frame, packet), ecn: packet.ecn }, payload))
}

/// The SACK blocks in the frame that begins with `head`. `packet` is the frame's descriptor. If it
/// states no SACK option, no byte of the frame is read.
#[must_use]
pub fn sack(head: &[u8], packet: &Packet) -> SackBlocks {
    let has = packet.tcp.is_some_and(|tcp| tcp.has_sack);
    let options = if has { packet_options(head, packet) } else { None };
    options.map(sack_blocks).unwrap_or_default()
}

/// The TCP options in the frame that begins with `head`.
pub(crate) fn packet_options<'a>(head: &'a [u8], packet: &Packet) -> Option<&'a [u8]> {
    let header = head.get(usize::from(packet.transport_offset)..)?;
    header.get(20..usize::from(header.get(12)? >> 4) * 4)
}

/// The TCP options of `segment`, padded to a multiple of four bytes.
///
/// Source: RFC 9293, section 3.1; RFC 7323, appendix A, and RFC 2018 (layout); Linux,
/// `tcp_options_write` (order).
#[must_use]
pub fn options(segment: &Segment) -> Vec<u8> {
    let header = &segment.header;
    let syn = header.flags.any(TcpFlags::SYN);
    let mut options = Vec::with_capacity(40);
    if syn && header.mss != 0 {
        options.extend([MSS, 4]);
        options.extend(header.mss.to_be_bytes());
    }
    // SACK-permitted has two bytes, so it can replace the padding of the timestamps option.
    let permitted = if syn && header.sack_permitted { [SACK_PERMITTED, 2] } else { [NOP, NOP] };
    if let Some((value, echo)) = header.timestamps {
        options.extend(permitted);
        options.extend([TIMESTAMPS, 10]);
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
    } else if permitted[0] == SACK_PERMITTED {
        options.extend([NOP, NOP]);
        options.extend(permitted);
    }
    if let (true, Some(shift)) = (syn, header.window_scale) {
        options.extend([NOP, WINDOW_SCALE, 3, shift]);
    }
    if header.has_sack {
        let blocks = segment.sack.as_slice();
        options.extend([NOP, NOP, SACK, u8::try_from(2 + 8 * blocks.len()).unwrap_or(0)]);
        for (first, end) in blocks {
            options.extend(first.to_be_bytes());
            options.extend(end.to_be_bytes());
        }
    }
    options
}

/// The SACK blocks in `options`, of which a TCP header has room for four.
fn sack_blocks(options: &[u8]) -> SackBlocks {
    let mut blocks = SackBlocks::default();
    let found = option::each(options).flatten().filter(|(kind, _)| *kind == SACK);
    for (_, body) in found {
        for block in body.as_chunks::<8>().0 {
            let [a, b, c, d, e, f, g, h] = *block;
            blocks.push((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])));
        }
    }
    blocks
}
