//! A recording of frames that arrive at a gateway. It was generated once and is committed as a
//! capture file, so tests replay the same frames.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_core::packet::TcpFlags;
use tidegate_core::{PortId, Time};
use tidegate_wire::build::{Frame, Link, Tcp, Transport};
use tidegate_wire::pcap;

/// Path of the capture file of [`Recording::mixed`].
pub const MIXED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/recordings/mixed.pcap");

/// MAC addresses of the hosts at the two ports of the gateway. The source address of a frame thus
/// shows at which port it arrives.
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Payload of a full segment.
const MSS: u32 = 1_000;

/// A frame that arrived at a gateway.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// Arrival time. It is different for every frame.
    pub at: Time,
    /// The port of arrival.
    pub port: PortId,
    /// The bytes of the frame.
    pub bytes: Vec<u8>,
}

/// The frames that arrived at a gateway.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Recording(pub Vec<Arrival>);

/// Endpoints of a conversation: the host on the LAN, then the host on the WAN.
type Ends = [SocketAddr; 2];

/// A TCP connection through the gateway.
struct Connection {
    ends: Ends,
    link: Vec<Link>,
    /// The next sequence number of each end.
    next: [u32; 2],
}

impl Recording {
    /// Two seconds of mixed traffic. There are downloads and an upload with handshakes, options, a
    /// loss, SACK blocks, retransmissions and FINs. There are also calls, pings, fragments, IPv4
    /// and IPv6, VLAN tags, tunnels, and ARP.
    #[must_use]
    pub fn mixed() -> Self {
        let mut this = Self::default();
        let [v4, v6] = [["10.20.0.5", "198.51.100.7"], ["[fd20::5]", "[2001:db8::7]"]];
        let ends = |[lan, wan]: [&str; 2], ports: [u16; 2]| -> Ends {
            [(lan, ports[0]), (wan, ports[1])].map(|(host, port)| {
                format!("{host}:{port}").parse().unwrap_or_else(|error| panic!("{host}: {error}"))
            })
        };
        let (ms, us) = (Time::from_millis, Duration::from_micros);
        this.transfer(ms(3), ends(v4, [40_001, 443]), 1, &[], us(40_000));
        this.transfer(ms(11), ends(v4, [40_002, 80]), 1, &[], us(90_000));
        this.transfer(ms(60), ends(v6, [40_003, 443]), 1, &[Link::vlan(7)], us(60_000));
        this.transfer(ms(35), ends(v6, [40_004, 22]), 0, &[], us(70_000));
        this.telephony(ms(5), ends(v4, [5_004, 5_004]));
        this.pings(ms(20), ends(v4, [0, 0]));
        this.pings(ms(21), ends(v6, [0, 0]));
        this.fragments(ms(100), ends(v4, [6_000, 6_001]));
        this.fragments(ms(200), ends(v6, [6_000, 6_001]));
        this.oddities(ms(300), ends(v4, [7_000, 53]));
        this.in_order()
    }

    /// Reads a recording from a capture.
    ///
    /// # Errors
    ///
    /// If the text is not a capture, or a frame has an unknown source address.
    pub fn read(from: impl io::Read) -> io::Result<Self> {
        let arrival = |record: pcap::Record| {
            let source = record.bytes.get(6..12);
            let port = MACS.iter().position(|mac| source == Some(mac));
            let port = port.and_then(|port| u8::try_from(port).ok()).map(PortId);
            let port = port.ok_or_else(|| io::Error::other("a frame from neither side"))?;
            Ok(Arrival { at: record.time, port, bytes: record.bytes })
        };
        pcap::Reader::new(from)?.map(|record| arrival(record?)).collect::<io::Result<_>>().map(Self)
    }

    /// Writes the recording as a capture.
    ///
    /// # Errors
    ///
    /// If writing to `out` fails.
    pub fn write<W: io::Write>(&self, out: W) -> io::Result<W> {
        let mut writer = pcap::Writer::new(out)?;
        self.0.iter().try_for_each(|arrival| writer.write(arrival.at, &arrival.bytes))?;
        writer.finish()
    }

    /// Sorts the frames by time. Changes equal times so that all times differ.
    fn in_order(mut self) -> Self {
        self.0.sort_by_key(|arrival| arrival.at);
        let mut last = Time::ZERO;
        for arrival in &mut self.0 {
            arrival.at = arrival.at.max(last + Duration::from_nanos(137));
            last = arrival.at;
        }
        self
    }

    /// Adds a frame from the host at `port`.
    fn push(&mut self, at: Time, port: usize, mut frame: Frame) {
        (frame.source, frame.destination) = (MACS[port], MACS[1 - port]);
        // Each frame carries its number, so it differs from all other frames.
        let number = u32::try_from(self.0.len()).unwrap_or(u32::MAX).to_be_bytes();
        let start = frame.payload.len().saturating_sub(number.len());
        let room = frame.payload.len() - start;
        frame.payload[start..].copy_from_slice(&number[number.len() - room..]);
        let port = PortId(u8::from(port == 1));
        self.0.push(Arrival { at, port, bytes: frame.bytes() });
    }

    /// A transfer by the end number `sender`, whose window doubles each round trip. One of its
    /// segments is lost upstream of the gateway.
    fn transfer(&mut self, start: Time, ends: Ends, sender: usize, link: &[Link], rtt: Duration) {
        const WINDOWS: [u32; 5] = [2, 4, 8, 12, 12];
        let mut connection = Connection { ends, link: link.to_vec(), next: [1_000, 0xffff_f000] };
        let near = Duration::from_micros(900);
        let spacing = Duration::from_micros(120);
        connection.handshake(self, start, rtt);
        let mut round = start + rtt + near;
        for (nth, window) in (0..).zip(WINDOWS) {
            let first = connection.next[sender];
            for segment in 0..window {
                let at = round + spacing * segment;
                let seq = first.wrapping_add(segment * MSS);
                connection.next[sender] = seq.wrapping_add(MSS);
                let lost = nth == 3 && segment == 4;
                if !lost {
                    connection.data(self, at, sender, seq);
                }
                let hole = (nth == 3 && segment > 4).then(|| first.wrapping_add(4 * MSS));
                match hole {
                    Some(hole) => connection.selective(self, at + near, 1 - sender, hole),
                    None if segment % 2 == 1 => connection.ack(self, at + near, 1 - sender, seq),
                    None => {}
                }
            }
            round += rtt;
            if nth == 3 {
                connection.data(self, round, sender, first.wrapping_add(4 * MSS));
                connection.ack(self, round + near, 1 - sender, connection.next[sender]);
                round += rtt;
            }
        }
        connection.goodbye(self, round, sender, rtt);
    }

    /// A call: small datagrams in both directions, every 20 ms.
    fn telephony(&mut self, start: Time, ends: Ends) {
        for n in 0..60 {
            for port in [0, 1] {
                let mut frame = Frame::udp(ends[port], ends[1 - port]);
                frame.ip_mut().iter_mut().for_each(|ip| ip.dscp = 46);
                frame.payload = vec![0x7f; 160];
                self.push(start + Duration::from_millis(20) * n, port, frame);
            }
        }
    }

    /// Echo requests from the LAN, and their replies.
    fn pings(&mut self, start: Time, ends: Ends) {
        for n in 0..8 {
            let at = start + Duration::from_millis(100) * n;
            for port in [0, 1] {
                let (src, dst) = (ends[port].ip(), ends[1 - port].ip());
                let mut frame = Frame::echo(src, dst, 77);
                if let (1, Some(ip)) = (port, frame.ip_mut()) {
                    let kind = if src.is_ipv4() { 0 } else { 129 };
                    ip.transport = Transport::Icmp(kind, 0, [0, 77, 0, 1]);
                }
                frame.payload = vec![0x50; 56];
                self.push(at + Duration::from_millis(18) * u32::from(port == 1), port, frame);
            }
        }
    }

    /// Datagrams from the WAN in three fragments each.
    fn fragments(&mut self, start: Time, ends: Ends) {
        for n in 0..4 {
            for (part, more) in [(0, true), (1, true), (2, false)] {
                let mut frame = Frame::udp(ends[1], ends[0]);
                frame.ip_mut().iter_mut().for_each(|ip| {
                    ip.identification = n;
                    ip.fragment = Some((part * 100, more));
                });
                frame.payload = vec![0xf0; if part == 0 { 792 } else { 800 }];
                self.push(start + Duration::from_millis(30) * u32::from(n), 1, frame);
            }
        }
    }

    /// ARP frames, and datagrams in every kind of encapsulation.
    fn oddities(&mut self, start: Time, ends: Ends) {
        let second = Link::vlan(8);
        let links = [vec![second, second], vec![Link::Pppoe(3)], vec![Link::Mpls(16)]];
        for n in 0..5 {
            let at = start + Duration::from_millis(40) * n;
            for port in [0, 1] {
                self.push(at, port, Frame::opaque(0x0806, vec![0; 46]));
                for link in &links {
                    let mut frame = Frame::udp(ends[port], ends[1 - port]);
                    (frame.link, frame.payload) = (link.clone(), vec![0x11; 300]);
                    self.push(at, port, frame);
                }
            }
        }
    }
}

impl Connection {
    /// A segment of the end `port`. It passes the gateway at time `at`, and its timestamp option
    /// states this time.
    fn segment(&self, at: Time, port: usize, flags: u8, seq: u32, options: &[u8]) -> Frame {
        let (src, dst) = (self.ends[port], self.ends[1 - port]);
        let clock = u32::try_from(at.nanos() / 1_000).unwrap_or(u32::MAX);
        let echo = clock.saturating_sub(20_000);
        let mut all = [&[1, 1, 8, 10][..], &clock.to_be_bytes(), &echo.to_be_bytes()].concat();
        all.extend(options);
        let tcp = Tcp {
            src: src.port(),
            dst: dst.port(),
            seq,
            ack: if flags & TcpFlags::ACK == 0 { 0 } else { self.next[1 - port] },
            flags: TcpFlags(flags),
            high_flags: 0,
            window: 2_000,
            options: all,
        };
        let mut frame = Frame::ip(src.ip(), dst.ip(), Transport::Tcp(tcp));
        frame.link.clone_from(&self.link);
        frame
    }

    fn handshake(&mut self, to: &mut Recording, start: Time, rtt: Duration) {
        // Maximum segment size 1,460, SACK permitted, windows scaled by 2^7.
        let offers = [2, 4, 5, 180, 4, 2, 1, 3, 3, 7, 1, 1];
        let steps = [(0, TcpFlags::SYN), (1, TcpFlags::SYN | TcpFlags::ACK), (0, TcpFlags::ACK)];
        let times = [start, start + rtt, start + rtt + Duration::from_micros(900)];
        for ((port, flags), at) in steps.into_iter().zip(times) {
            let syn = flags & TcpFlags::SYN != 0;
            let frame =
                self.segment(at, port, flags, self.next[port], if syn { &offers } else { &[] });
            self.next[port] = self.next[port].wrapping_add(u32::from(syn));
            to.push(at, port, frame);
        }
    }

    fn data(&self, to: &mut Recording, at: Time, port: usize, seq: u32) {
        let mut frame = self.segment(at, port, TcpFlags::ACK | TcpFlags::PSH, seq, &[]);
        frame.payload = vec![0xda; usize::try_from(MSS).unwrap_or_default()];
        to.push(at, port, frame);
    }

    /// Acknowledges the segment that begins at `seq`, and all data before it.
    fn ack(&self, to: &mut Recording, at: Time, port: usize, seq: u32) {
        let mut frame = self.segment(at, port, TcpFlags::ACK, self.next[port], &[]);
        let through = seq.wrapping_add(MSS);
        frame.tcp_mut().iter_mut().for_each(|tcp| tcp.ack = through);
        to.push(at, port, frame);
    }

    /// A duplicate ACK of all data before `hole`, with a SACK block of the data after it.
    fn selective(&self, to: &mut Recording, at: Time, port: usize, hole: u32) {
        let blocks = [hole.wrapping_add(MSS), self.next[1 - port]].map(u32::to_be_bytes);
        let option = [&[1, 1, 5, 10][..], blocks.as_flattened()].concat();
        let mut frame = self.segment(at, port, TcpFlags::ACK, self.next[port], &option);
        frame.tcp_mut().iter_mut().for_each(|tcp| tcp.ack = hole);
        to.push(at, port, frame);
    }

    fn goodbye(&mut self, to: &mut Recording, start: Time, sender: usize, rtt: Duration) {
        for (port, at) in [(sender, start), (1 - sender, start + rtt / 2)] {
            let fin = TcpFlags::FIN | TcpFlags::ACK;
            let frame = self.segment(at, port, fin, self.next[port], &[]);
            self.next[port] = self.next[port].wrapping_add(1);
            to.push(at, port, frame);
        }
        let at = start + rtt;
        to.push(at, sender, self.segment(at, sender, TcpFlags::ACK, self.next[sender], &[]));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs::File;

    use super::*;

    #[test]
    fn the_committed_recording_equals_the_output_of_the_example() {
        let file = File::open(MIXED).unwrap_or_else(|error| panic!("{MIXED}: {error}"));
        let read = Recording::read(io::BufReader::new(file)).ok();
        assert!(
            read == Some(Recording::mixed()),
            "write it again: cargo run -p tidegate-e2e --example recording"
        );
    }

    #[test]
    fn all_frames_differ_and_can_be_parsed() {
        let recording = Recording::mixed();
        let mut seen = HashSet::new();
        for Arrival { bytes, .. } in &recording.0 {
            assert!(seen.insert(bytes.clone()), "{bytes:02x?}");
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let mut packet = tidegate_core::Packet::default();
            assert_eq!(tidegate_wire::describe(bytes, len, &mut packet), None);
        }
        assert!((300..600).contains(&seen.len()), "{}", seen.len());
    }
}
