//! Packet captures: writes the packets that arrive over a link as a pcap file.

use std::io::{self, Write};
use std::mem;

use tidegate_core::packet::{Endpoint, Protocol, SackBlocks};
use tidegate_core::{Packet, Time};
use tidegate_wire::build::{Frame, Ip, Network, Tcp, Transport};
use tidegate_wire::pcap;

use crate::segment::put_options;

/// The destination of a capture.
pub(crate) type Output = Box<dyn Write + Send>;

/// A capture in progress. After its first write error, it records nothing more.
pub(crate) struct Capture {
    writer: Option<pcap::Writer<Output>>,
    error: Option<io::Error>,
    /// Reused buffers: TCP options of a segment, and bytes of a frame.
    options: Vec<u8>,
    bytes: Vec<u8>,
}

impl Capture {
    /// Begins a capture in `out`.
    pub(crate) fn new(out: Output) -> Self {
        let (writer, error) = match pcap::Writer::new(out) {
            Ok(writer) => (Some(writer), None),
            Err(error) => (None, Some(error)),
        };
        Self { writer, error, options: Vec::new(), bytes: Vec::new() }
    }

    /// Adds `packet`, which arrives at `now`, to the capture.
    pub(crate) fn write(&mut self, now: Time, packet: &Packet, sack: &SackBlocks) {
        let Some(writer) = &mut self.writer else { return };
        let (mut frame, zeros) = describe(packet);
        if let (Some(header), Some(tcp)) = (frame.tcp_mut(), &packet.tcp) {
            header.options = mem::take(&mut self.options);
            put_options(tcp, sack, &mut header.options);
        }
        self.bytes.clear();
        frame.append_before(zeros, &mut self.bytes);
        if let Some(header) = frame.tcp_mut() {
            self.options = mem::take(&mut header.options);
        }
        if let Err(error) = writer.write_before_zeros(now, &self.bytes, zeros) {
            (self.writer, self.error) = (None, Some(error));
        }
    }

    /// Ends the capture and returns its first error.
    pub(crate) fn finish(self) -> io::Result<()> {
        match (self.error, self.writer) {
            (Some(error), _) => Err(error),
            (None, writer) => writer.map_or(Ok(()), |writer| writer.finish().map(drop)),
        }
    }
}

/// The Ethernet frame of a packet without TCP options and payload, and the number of payload bytes,
/// which are zeros. Each MAC address ends with the last four bytes of the IP address.
fn describe(packet: &Packet) -> (Frame, usize) {
    let (src, dst) = (packet.key.src, packet.key.dst);
    let (transport, payload) = match packet.tcp {
        Some(tcp) => {
            let header = Tcp {
                src: src.port,
                dst: dst.port,
                seq: tcp.seq,
                ack: tcp.ack,
                flags: tcp.flags,
                high_flags: tcp.high_flags,
                window: tcp.window,
                options: Vec::new(),
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
        whole: false,
        fragment: None,
        options: Vec::new(),
        extensions: Vec::new(),
        transport,
    };
    let zeros = usize::try_from(payload).unwrap_or(0);
    let mut frame = Frame { network: Network::Ip(ip), ..Frame::opaque(0, Vec::new()) };
    (frame.source, frame.destination) = (hardware(src), hardware(dst));
    (frame, zeros)
}

fn hardware(endpoint: Endpoint) -> [u8; 6] {
    let [.., a, b, c, d] = endpoint.number().to_be_bytes();
    [2, 0, a, b, c, d]
}

/// Length of a UDP header in bytes (RFC 768).
const UDP_HEADER: u32 = 8;
