//! Between the bytes of a frame and its description, for every kind of port.

use tidegate_core::{Packet, PacketId, PacketPool, Time};

use crate::memory::PacketMemory;

/// Describes the frame of `packet`: `len` bytes from where the memory says it is.
pub(crate) fn describe(memory: &PacketMemory, packet: &PacketId, len: u32, now: Time) -> Packet {
    let mut described = Packet { len, ..Packet::default() };
    described.arrived = now;
    described.cost = len;
    described.segments = match memory.frame(packet).vnet.segment_size() {
        Some(size) => segments(&described, size),
        None => 1,
    };
    described
}

/// Frames of `size` bytes of payload each that a super-packet stands for.
fn segments(packet: &Packet, size: u16) -> u16 {
    /// Ports, length and checksum of UDP, whose super-packets have no TCP header.
    const UDP_HEADER: u32 = 8;
    let headers = u32::from(packet.transport_offset) + UDP_HEADER;
    let payload = match packet.tcp {
        Some(tcp) => tcp.payload,
        None => packet.len.saturating_sub(headers),
    };
    let segments = payload.div_ceil(u32::from(size.max(1))).max(1);
    u16::try_from(segments).unwrap_or(u16::MAX)
}

/// Writes back into the frame what was rewritten in the description of `packet`.
pub(crate) fn write_back(_memory: &PacketMemory, pool: &mut PacketPool, packet: &PacketId) {
    pool[packet].rewritten = false;
}

#[cfg(test)]
mod tests {
    use tidegate_core::packet::TcpSegment;

    use super::*;

    #[test]
    fn a_super_packet_stands_for_its_payload_in_frames() {
        let tcp = |payload| Some(TcpSegment { payload, ..TcpSegment::default() });
        let packet = |payload| Packet { len: 66 + payload, tcp: tcp(payload), ..Packet::default() };
        assert_eq!(segments(&packet(2 * 1_448), 1_448), 2);
        assert_eq!(segments(&packet(2 * 1_448 + 1), 1_448), 3);
        assert_eq!(segments(&packet(0), 0), 1);
        let udp = Packet { len: 42 + 2_000, transport_offset: 34, ..Packet::default() };
        assert_eq!(segments(&udp, 1_000), 2);
    }
}
