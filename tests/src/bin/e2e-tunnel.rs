//! One end of a tunnel, for a kernel without tunnel support: `e2e-tunnel KIND INTERFACE OWN PEER
//! PEER-MAC`.
//!
//! Packets that the kernel routes to the TUN device `inside` are sent to PEER in a tunnel of KIND.
//! Packets from PEER are delivered to the kernel. The program prints a line for each packet that
//! has a wrong length, checksum or sequence number in a header.

use std::error::Error;
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use tidegate_core::{Packet, PacketPool, Time};
use tidegate_dataplane::{AfPacket, Frame, Interface, PacketMemory, Port, Tun};
use tidegate_e2e::{pause, unhex};
use tidegate_wire::build::{self, Network, Transport};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, interface, own, peer, peer_mac] = words.as_slice() else {
        return Err("usage: e2e-tunnel KIND INTERFACE OWN PEER PEER-MAC".into());
    };
    let own_mac = fs::read_to_string(format!("/sys/class/net/{interface}/address"))?;
    let mac = |text: &str| unhex(&text.replace([':', '\n'], "")).and_then(|it| it.try_into().ok());
    let macs = [mac(&own_mac).ok_or("no address")?, mac(peer_mac).ok_or("no address")?];
    let ends = [own.parse()?, peer.parse()?];
    let numbers = [0; 2];
    Tunnel { kind: kind.clone(), ends, macs, numbers }.run(interface)
}

/// One end of a tunnel.
struct Tunnel {
    kind: String,
    /// The address of this end, and the address of the other end.
    ends: [IpAddr; 2],
    macs: [[u8; 6]; 2],
    /// Number of packets sent, and the last sequence number received.
    numbers: [u32; 2],
}

impl Tunnel {
    fn run(mut self, interface: &str) -> Result<(), Box<dyn Error>> {
        let memory = PacketMemory::new(BUFFERS, AfPacket::BUFFER)?;
        let mut port = AfPacket::open(&Interface::find(interface)?, &memory)?;
        let (mut pool, tun) = (PacketPool::with_capacity(BUFFERS), Tun::create("inside")?);
        let mut buffer = [0; 1 << 16];
        println!("ready");
        loop {
            // While the device is down, there is no packet to read.
            while let Ok(Some(len)) = tun.receive(&mut buffer) {
                let frame = self.wrap(&buffer[..len]);
                let len = u32::try_from(frame.len())?;
                let packet = pool.insert(Packet { len, ..Packet::default() });
                let packet = packet.ok_or("the interface does not send")?;
                memory.set_frame(&packet, Frame::default());
                memory.bytes_mut(&packet, len).copy_from_slice(&frame);
                port.send(&mut pool, packet);
                port.flush(&mut pool);
            }
            while let Some(packet) = port.receive(&mut pool, Time::ZERO) {
                let frame = memory.bytes(&packet, pool[&packet].len).to_vec();
                match self.unwrap(&frame) {
                    // An error is ignored: a device that is down rejects packets.
                    Ok(Some(inner)) => drop(tun.send(inner)),
                    Ok(None) => {}
                    Err(fault) => println!("{fault}"),
                }
                pool.release(packet);
            }
            pause(Duration::from_millis(1));
        }
    }

    /// A frame that carries `inner` through the tunnel.
    fn wrap(&mut self, inner: &[u8]) -> Vec<u8> {
        let [own, peer] = self.ends;
        let v6 = inner[0] >> 4 == 6;
        self.numbers[0] += 1;
        let header = self.header(self.numbers[0], inner.len(), v6);
        let mut frame = build::Frame::echo(own, peer, 0);
        [frame.source, frame.destination] = self.macs;
        frame.payload = header;
        if self.carries_ethernet() {
            frame.payload.extend([2, 0, 0, 0, 7, 1, 2, 0, 0, 0, 7, 2]);
            frame.payload.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0] });
        }
        frame.payload.extend(inner);
        match (&mut frame.network, self.port()) {
            (Network::Ip(ip), Some(port)) => ip.transport = Transport::Udp(port, port),
            (Network::Ip(ip), None) => ip.transport = Transport::Other(self.protocol(v6)),
            (Network::Other(_), _) => {}
        }
        if self.kind == "mpls" {
            frame.network = Network::Other(0x8847);
        }
        frame.bytes()
    }

    /// The inner packet of `frame`, or `None` if the frame does not belong to the tunnel.
    fn unwrap<'a>(&mut self, frame: &'a [u8]) -> Result<Option<&'a [u8]>, String> {
        let Some(carried) = self.after_ip(frame)? else { return Ok(None) };
        let number = self.number(carried);
        let expected = self.numbers[1] + 1;
        if let Some(number) = number {
            self.numbers[1] = number;
            if number & 0xffff != expected & 0xffff {
                println!("number {number} in place of {expected}");
            }
        }
        let ethernet = if self.carries_ethernet() { 14 } else { 0 };
        let start = self.header(0, 0, false).len() + ethernet;
        let inner = carried.get(start..).ok_or("a short packet")?;
        if let Some(fault) = fault_of(inner) {
            return Err(format!("{fault} inside"));
        }
        if self.kind == "gtp" && usize::from(word(carried, 2)) + 8 != carried.len() {
            return Err("a wrong length of GTP-U".to_owned());
        }
        Ok(Some(inner))
    }

    /// Checks the outer headers of `frame`, and returns the payload of its outer IP packet.
    fn after_ip<'a>(&self, frame: &'a [u8]) -> Result<Option<&'a [u8]>, String> {
        let ip = frame.get(14..).unwrap_or_default();
        let carried = match word(frame, 12) {
            0x8847 if self.kind == "mpls" => return Ok(Some(ip)),
            0x0800 if self.ends[0].is_ipv4() => ip.get(..usize::from(word(ip, 2))),
            0x86dd if self.ends[0].is_ipv6() => ip.get(..usize::from(word(ip, 4)) + 40),
            _ => return Ok(None),
        };
        let ip = carried.ok_or("a length beyond the frame")?;
        let (protocol, header) = if self.ends[0].is_ipv4() { (ip[9], 20) } else { (ip[6], 40) };
        let wanted = [self.protocol(false), self.protocol(true)].contains(&protocol);
        if !wanted || (self.port().is_some() && Some(word(ip, header + 2)) != self.port()) {
            return Ok(None);
        }
        if let Some(fault) = fault_of(ip) {
            return Err(format!("{fault} outside"));
        }
        Ok(Some(&ip[header + if self.port().is_some() { 8 } else { 0 }..]))
    }

    /// Returns the headers between the outer IP header and the inner packet, which is IPv4 or IPv6
    /// and has `len` bytes.
    fn header(&self, number: u32, len: usize, v6: bool) -> Vec<u8> {
        let kind = if v6 { [0x86, 0xdd] } else { [0x08, 0] };
        let [_, _, high, low] = number.to_be_bytes();
        match self.kind.as_str() {
            "gre" => [&[0, 0], &kind[..]].concat(),
            "gre-key" => [&[0x20, 0], &kind[..], &[0, 0, 0, 7]].concat(),
            "gre-number" => [&[0x10, 0], &kind[..], &number.to_be_bytes()].concat(),
            "gretap" => vec![0, 0, 0x65, 0x58],
            "geneve" => vec![0, 0, 0x65, 0x58, 0, 0, 7, 0],
            "l2tp" => {
                vec![0x08, 2, 0, 7, 0, 8, high, low, 0, 0, 0xff, 3, 0, if v6 { 0x57 } else { 0x21 }]
            }
            "gtp" => {
                let [len_high, len_low] = u16::try_from(len + 4).unwrap_or(0).to_be_bytes();
                vec![0x32, 255, len_high, len_low, 0, 0, 0, 7, high, low, 0, 0]
            }
            "mpls" => vec![0, 1, 1, 64, 0, 0, high, low],
            _ => Vec::new(),
        }
    }

    /// The sequence number in the tunnel header at the start of `carried`.
    fn number(&self, carried: &[u8]) -> Option<u32> {
        match self.kind.as_str() {
            "gre-number" => Some(u32::from(word(carried, 4)) << 16 | u32::from(word(carried, 6))),
            "l2tp" | "mpls" => Some(word(carried, 6).into()),
            "gtp" => Some(word(carried, 8).into()),
            _ => None,
        }
    }

    fn carries_ethernet(&self) -> bool {
        ["gretap", "geneve", "mpls"].contains(&self.kind.as_str())
    }

    fn port(&self) -> Option<u16> {
        match self.kind.as_str() {
            "geneve" => Some(6081),
            "l2tp" => Some(1701),
            "gtp" => Some(2152),
            _ => None,
        }
    }

    fn protocol(&self, v6: bool) -> u8 {
        match self.kind.as_str() {
            "ip" if v6 => 41,
            "ip" => 4,
            kind if kind.starts_with("gre") => 47,
            _ => 17,
        }
    }
}

/// Checks the length of an IP packet, its header checksum, and the checksum of TCP or UDP. Returns
/// a description of the fault, if any.
fn fault_of(ip: &[u8]) -> Option<&'static str> {
    let v4 = ip.first()? >> 4 == 4;
    let (len, header, protocol) = if v4 {
        (usize::from(word(ip, 2)), 20, *ip.get(9)?)
    } else {
        (usize::from(word(ip, 4)) + 40, 40, *ip.get(6)?)
    };
    let Some(packet) = ip.get(..len).filter(|packet| packet.len() >= header) else {
        return Some("a wrong length");
    };
    if v4 && sum(&packet[..header]) != 0xffff {
        return Some("a wrong checksum of IPv4");
    }
    let (addresses, segment) =
        (&packet[header - if v4 { 8 } else { 32 }..header], &packet[header..]);
    if protocol == 17 && usize::from(word(segment, 4)) != segment.len() {
        return Some("a wrong length of UDP");
    }
    let length = u16::try_from(segment.len()).unwrap_or(0).to_be_bytes();
    let pseudo = [addresses, &[0, protocol], &length, segment].concat();
    let wrong = [6, 17].contains(&protocol) && sum(&pseudo) != 0xffff;
    wrong.then_some("a wrong checksum")
}

/// The one's complement sum of 16-bit words.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(0, |all, pair| {
        let all = all + (u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
        (all & 0xffff) + (all >> 16)
    })
}

fn word(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|it| it.first_chunk()).map_or(0, |it| u16::from_be_bytes(*it))
}

/// Number of frame buffers.
const BUFFERS: u32 = 256;
