//! Captures: the packets that arrive over a link, as bytes that any analyser reads.

use std::io::{self, Write};

use tidegate_core::packet::{Endpoint, Protocol, SackBlocks};
use tidegate_core::{Packet, Time};
use tidegate_wire::build::{Frame, Ip, Network, Tcp, Transport};
use tidegate_wire::pcap;

use crate::segment::options;

/// Where a capture is written to.
pub(crate) type Output = Box<dyn Write + Send>;

/// A capture being written; the first error ends it.
pub(crate) struct Capture {
    writer: Option<pcap::Writer<Output>>,
    error: Option<io::Error>,
}

impl Capture {
    /// Begins a capture in `out`.
    pub(crate) fn new(out: Output) -> Self {
        match pcap::Writer::new(out) {
            Ok(writer) => Self { writer: Some(writer), error: None },
            Err(error) => Self { writer: None, error: Some(error) },
        }
    }

    /// Adds a packet that was seen at `now`.
    pub(crate) fn write(&mut self, now: Time, packet: &Packet, sack: &SackBlocks) {
        let Some(writer) = &mut self.writer else { return };
        let (frame, zeros) = describe(packet, sack);
        if let Err(error) = writer.write_before_zeros(now, &frame, zeros) {
            (self.writer, self.error) = (None, Some(error));
        }
    }

    /// Ends the capture.
    pub(crate) fn finish(self) -> io::Result<()> {
        match (self.error, self.writer) {
            (Some(error), _) => Err(error),
            (None, writer) => writer.map_or(Ok(()), |writer| writer.finish().map(drop)),
        }
    }
}

/// The Ethernet frame of a packet up to its payload, and how many zeros that is. Its checksums are right,
/// and its hardware addresses end with the last four bytes of the network addresses.
fn describe(packet: &Packet, sack: &SackBlocks) -> (Vec<u8>, usize) {
    let (src, dst) = (packet.key.src, packet.key.dst);
    let (transport, payload) = match packet.tcp {
        Some(tcp) => {
            let header = Tcp {
                src: src.port,
                dst: dst.port,
                seq: tcp.seq,
                ack: tcp.ack,
                flags: tcp.flags,
                window: tcp.window,
                options: options(&tcp, sack),
            };
            (Transport::Tcp(header), tcp.payload)
        }
        None if packet.key.protocol == Protocol::UDP => {
            let headers = u32::from(packet.transport_offset) + UDP_HEADER;
            (Transport::Udp(src.port, dst.port), packet.len.saturating_sub(headers))
        }
        None => (Transport::Other(packet.key.protocol.0), 0),
    };
    let ip = Ip {
        src: src.address(),
        dst: dst.address(),
        dscp: packet.dscp,
        ecn: packet.ecn,
        identification: 0,
        fragment: None,
        options: Vec::new(),
        extensions: Vec::new(),
        transport,
    };
    let zeros = usize::try_from(payload).unwrap_or(0);
    let mut frame = Frame { network: Network::Ip(ip), ..Frame::opaque(0, Vec::new()) };
    (frame.source, frame.destination) = (hardware(src), hardware(dst));
    (frame.bytes_before(zeros), zeros)
}

fn hardware(endpoint: Endpoint) -> [u8; 6] {
    let [.., a, b, c, d] = endpoint.number().to_be_bytes();
    [2, 0, a, b, c, d]
}

/// Source: RFC 768.
const UDP_HEADER: u32 = 8;
