//! Frames by the byte: made, sent from one host and recorded on another.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, VlanId};

use crate::process::Process;
use crate::testbed::Host;
use crate::wait::until;

/// Records the frames that arrive at a host.
#[derive(Debug)]
pub struct Recorder(Process);

/// A UDP datagram in a frame.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Who sends it.
    pub from: &'a Host,
    /// Who receives it.
    pub to: &'a Host,
    /// In IPv6 instead of IPv4.
    pub v6: bool,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// VLAN tags, outermost first; at most two.
    pub vlans: &'a [u16],
    /// Payload.
    pub payload: &'a [u8],
}

impl Datagram<'_> {
    /// The bytes of its frame, checksums included.
    ///
    /// # Panics
    ///
    /// If it has more than two VLAN tags, or one that cannot be.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let vlan = |id| VlanId::try_new(id).unwrap_or_else(|error| panic!("{error}"));
        let ethernet = PacketBuilder::ethernet2(self.from.mac, self.to.mac);
        let addresses =
            if self.v6 { (self.from.v6, self.to.v6) } else { (self.from.v4, self.to.v4) };
        let network = match addresses {
            (IpAddr::V6(from), IpAddr::V6(to)) => etherparse::IpHeaders::Ipv6(
                etherparse::Ipv6Header {
                    hop_limit: 64,
                    source: from.octets(),
                    destination: to.octets(),
                    ..Default::default()
                },
                etherparse::Ipv6Extensions::default(),
            ),
            (IpAddr::V4(from), IpAddr::V4(to)) => etherparse::IpHeaders::Ipv4(
                etherparse::Ipv4Header {
                    time_to_live: 64,
                    source: from.octets(),
                    destination: to.octets(),
                    ..Default::default()
                },
                etherparse::Ipv4Extensions::default(),
            ),
            mixed => panic!("addresses of two kinds: {mixed:?}"),
        };
        let network = match *self.vlans {
            [] => ethernet.ip(network),
            [only] => ethernet.single_vlan(vlan(only)).ip(network),
            [outer, inner] => ethernet.double_vlan(vlan(outer), vlan(inner)).ip(network),
            _ => panic!("more than two VLAN tags"),
        };
        let mut frame = Vec::new();
        let written = network.udp(self.ports.0, self.ports.1).write(&mut frame, self.payload);
        written.unwrap_or_else(|error| panic!("{error}"));
        frame
    }
}

/// Sends `frames` from `host`, at once and in this order.
pub fn send(host: &Host, frames: &[Vec<u8>]) {
    let lines: Vec<String> = frames.iter().map(|frame| hex(frame)).collect();
    let mut process = Process::start(host.command(helper()).args(["send", "eth0"]));
    process.feed(&(lines.join("\n") + "\n"));
    let finished = process.finish(Duration::from_secs(30));
    assert!(finished.status.success(), "sending frames: {}", finished.errors);
}

impl Recorder {
    /// Records on `host` from now on.
    #[must_use]
    pub fn start(host: &Host) -> Self {
        let mut process = Process::start(host.command(helper()).args(["record", "eth0"]));
        until("the recorder", Duration::from_secs(10), || {
            assert!(process.runs(), "{}", process.said());
            process.lines().pop()
        });
        Self(process)
    }

    /// The frames so far that `wanted` picks, once there are `count`.
    ///
    /// # Panics
    ///
    /// If there are not that many within `limit`.
    #[must_use]
    pub fn frames(
        &self,
        count: usize,
        limit: Duration,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Vec<Vec<u8>> {
        let so_far = || {
            let lines = self.0.lines();
            let frames = lines.iter().filter_map(|line| unhex(line));
            frames.filter(|frame| wanted(frame)).collect::<Vec<_>>()
        };
        until(&format!("{count} frames, not {}", so_far().len()), limit, || {
            Some(so_far()).filter(|frames| frames.len() >= count)
        })
    }
}

/// The payload of a UDP datagram to `port` in `frame`, and its DS codepoint.
#[must_use]
pub fn datagram(frame: &[u8], port: u16) -> Option<(Vec<u8>, u8)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let dscp = match packet.net? {
        NetSlice::Ipv4(ip) => ip.header().dcp().value(),
        NetSlice::Ipv6(ip) => ip.header().dscp().value(),
        NetSlice::Arp(_) => return None,
    };
    let etherparse::TransportSlice::Udp(udp) = packet.transport? else { return None };
    (udp.destination_port() == port).then(|| (udp.payload().to_vec(), dscp))
}

/// `bytes` in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that `text` is in hexadecimal.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let byte = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

/// The program that sends and records, built together with the tests.
fn helper() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let folder = test.parent().and_then(|deps| deps.parent());
    folder.unwrap_or_else(|| panic!("{} has no folder", test.display())).join("e2e-frames")
}
