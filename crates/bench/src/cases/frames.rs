//! Parsing and rewriting of plain IPv4 TCP frames.

use tidegate_core::Packet;
use tidegate_core::packet::TcpFlags;
use tidegate_wire::build::Frame;
use tidegate_wire::{Checksum, describe, rewrite};

use super::{Case, index};

/// Full-size data segments with timestamps, the most frequent kind of frame.
fn frames(size: u32) -> Vec<Vec<u8>> {
    let frame = |number: u32| {
        let [_, b, c, d] = number.to_be_bytes();
        let mut frame = Frame::tcp(([10, b, c, d], 40_000).into(), ([192, 0, 2, 1], 443).into());
        if let Some(tcp) = frame.tcp_mut() {
            tcp.flags = TcpFlags(TcpFlags::ACK | TcpFlags::PSH);
            tcp.seq = number;
            tcp.options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        }
        frame.payload = vec![0; 1_448];
        frame.bytes()
    };
    (0..size.max(1)).map(frame).collect()
}

fn len(frame: &[u8]) -> u32 {
    u32::try_from(frame.len()).unwrap_or(u32::MAX)
}

/// An operation parses a frame into a packet descriptor.
pub(super) struct Describe(Vec<Vec<u8>>);

impl Describe {
    pub(super) fn new(size: u32) -> Self {
        Self(frames(size))
    }
}

impl Case for Describe {
    fn run(&mut self, operations: u64) -> u64 {
        let mut packet = Packet::default();
        let mut sum = 0;
        for frame in self.0.iter().cycle().take(index(operations)) {
            describe(frame, len(frame), &mut packet);
            sum += packet.tcp.map_or(0, |tcp| u64::from(tcp.seq));
        }
        sum
    }
}

/// An operation writes a different DS codepoint, window and acknowledgement number into a frame.
pub(super) struct Rewrite(Vec<(Vec<u8>, Packet)>);

impl Rewrite {
    pub(super) fn new(size: u32) -> Self {
        let described = |frame: Vec<u8>| {
            let mut packet = Packet::default();
            describe(&frame, len(&frame), &mut packet);
            (frame, packet)
        };
        Self(frames(size).into_iter().map(described).collect())
    }
}

impl Case for Rewrite {
    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0;
        for operation in 0..operations {
            let count = self.0.len();
            let (frame, packet) = &mut self.0[index(operation) % count];
            packet.set_dscp(packet.dscp ^ 46);
            if let Some(tcp) = &mut packet.tcp {
                (tcp.window, tcp.ack) = (tcp.window.wrapping_add(1), tcp.ack.wrapping_add(1_448));
            }
            rewrite(frame, packet, Checksum::Finished);
            sum += u64::from(frame[15]);
        }
        sum
    }
}
