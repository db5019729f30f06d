//! Live test of ACK control, which holds ACKs and releases them later. Crafted frames of a
//! connection are compared byte for byte after they passed the gateway.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tidegate_core::packet::TcpFlags;
use tidegate_e2e::{Host, Recorder, Testbed, hex, on_each_backend, send, until};
use tidegate_wire::build::Frame;

on_each_backend! {
    acks_keep_their_flags_options_and_timestamps
}

const LIMIT: Duration = Duration::from_secs(20);

/// With this policy, the data of 30 segments waits in the queue for a quarter of a second.
const POLICY: &str = r#"
[[policy]]
name = "all"
profile = { mean = "1 Mbit/s", burst = "3 kB" }
action = "shape"
allocation = "drr"
ack_control = "postack"
"#;

const MSS: u32 = 1_000;
const SEGMENTS: u32 = 30;

/// A connection between two addresses that no host has. So no kernel answers.
struct Script<'a> {
    bed: &'a Testbed,
    v6: bool,
    port: u16,
    /// Recorders of the frames that arrive at the LAN and at the WAN.
    recorders: [Recorder; 2],
}

impl<'a> Script<'a> {
    fn new(bed: &'a Testbed, v6: bool, port: u16) -> Self {
        let recorders = [Recorder::start(&bed.lan), Recorder::start(&bed.wan)];
        Self { bed, v6, port, recorders }
    }

    /// A segment of the client on the LAN (`sender` is 0) or of the server on the WAN (`sender` is
    /// 1).
    fn segment(&self, sender: usize, (seq, ack): (u32, u32), flags: [u8; 2], more: &[u8]) -> Frame {
        let address = |number: u8| -> IpAddr {
            let v6 = Ipv6Addr::new(0xfd83, 0, 0, 0, 0, 0, 1, number.into());
            if self.v6 { v6.into() } else { Ipv4Addr::new(10, 83, 0, 100 + number).into() }
        };
        let ends = [SocketAddr::new(address(1), self.port), SocketAddr::new(address(2), 80)];
        let hosts: [&Host; 2] = [&self.bed.lan, &self.bed.wan];
        let mut frame = Frame::tcp(ends[sender], ends[1 - sender]);
        (frame.source, frame.destination) = (hosts[sender].mac, hosts[1 - sender].mac);
        if let Some(tcp) = frame.tcp_mut() {
            // This is a window of 12,800 bytes. It is smaller than the data in flight, so ACK
            // control does not lower it further.
            (tcp.seq, tcp.ack, tcp.window) = (seq, ack, 100);
            (tcp.high_flags, tcp.flags) = (flags[0], TcpFlags(flags[1]));
            tcp.options.extend([1, 1, 8, 10]);
            // The timestamp option: the time of this segment, and the time that it echoes.
            tcp.options.extend([seq + ack, ack / 2].map(u32::to_be_bytes).as_flattened());
            tcp.options.extend(more);
        }
        frame
    }

    /// Opens a connection, with these flags and options in its two SYN segments. Then the client
    /// sends data.
    fn opens(&self, flags: [[u8; 2]; 2], more: &[u8]) {
        let scale = [&[2, 4, 3, 232, 1, 3, 3, 7][..], more].concat();
        let ack = TcpFlags::ACK;
        let syn = self.segment(0, (0, 0), [flags[0][0], TcpFlags::SYN | flags[0][1]], &scale);
        let answer = [flags[1][0], TcpFlags::SYN | ack | flags[1][1]];
        let answer = self.segment(1, (0, 1), answer, &scale);
        let _ = self.crosses(0, &[syn]);
        let _ = self.crosses(1, &[answer]);
        let _ = self.crosses(0, &[self.segment(0, (1, 1), [0, ack], &[])]);
        let data = (0..SEGMENTS).map(|n| {
            let mut data = self.segment(0, (1 + n * MSS, 1), [0, ack], &[]);
            data.payload = vec![0; 1_000];
            data.bytes()
        });
        let data: Vec<_> = data.collect();
        send(&self.bed.lan, &data);
        let _ = self.recorders[1].frames(1, LIMIT, |frame| frame == data[0]);
    }

    /// Sends `frames`. Waits until the same number of further frames of this connection has
    /// arrived, and returns these.
    fn crosses(&self, sender: usize, frames: &[Frame]) -> Vec<Vec<u8>> {
        let port = self.port.to_be_bytes();
        let at = if self.v6 { 54 } else { 34 } + if sender == 0 { 0 } else { 2 };
        let ours = |frame: &[u8]| frame.get(at..at + 2) == Some(&port);
        let to = &self.recorders[1 - sender];
        let before = to.frames(0, LIMIT, ours).len();
        send(
            [&self.bed.lan, &self.bed.wan][sender],
            &frames.iter().map(Frame::bytes).collect::<Vec<_>>(),
        );
        to.frames(before + frames.len(), LIMIT, ours).split_off(before)
    }
}

/// ACKs with AccECN, MPTCP or an unknown option arrive unchanged and in order. An ACK of many
/// segments (a stretch ACK) may be released as several ACKs. Each of these has the original
/// timestamp.
///
/// Catches: a released ACK with the flags, the options or the timestamp of another ACK.
fn acks_keep_their_flags_options_and_timestamps(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, POLICY);
    let ecn = TcpFlags::ECE | TcpFlags::CWR;
    let accurate = [[1, ecn], [0, TcpFlags::CWR]];
    let mut port = 1_000;
    for v6 in [false, true] {
        for (flags, syn, kind) in
            [(accurate, &[][..], 172), ([[0; 2]; 2], &[30, 4, 1, 1], 30), ([[0; 2]; 2], &[], 254)]
        {
            port += 1;
            let script = Script::new(bed, v6, port);
            script.opens(flags, syn);
            let acks = (1..=SEGMENTS).map(|n| {
                let number = u8::try_from(n).unwrap_or(0);
                let ace = if flags == accurate { number } else { 0 };
                let low = if ace & 2 > 0 { TcpFlags::CWR } else { 0 }
                    | if ace & 1 > 0 { TcpFlags::ECE } else { 0 };
                let flags = [ace >> 2 & 1, TcpFlags::ACK | low];
                script.segment(1, (1, 1 + n * MSS), flags, &[kind, 8, 0x20, 1, 0, 0, 0, number])
            });
            let acks: Vec<_> = acks.collect();
            let arrived: Vec<_> = script.crosses(1, &acks).iter().map(|it| hex(it)).collect();
            let sent: Vec<_> = acks.iter().map(|it| hex(&it.bytes())).collect();
            assert_eq!(arrived, sent, "{kind}, IPv6: {v6}, {}", gateway.status());
        }
        port += 1;
        let script = Script::new(bed, v6, port);
        script.opens([[0; 2]; 2], &[]);
        let ack = |n| script.segment(1, (1, 1 + n * MSS), [0, TcpFlags::ACK], &[]);
        let _ = script.crosses(1, &[ack(20), ack(30)]);
        // The longest time for which an ACK is held is one second.
        until("all that is held to depart", LIMIT, || {
            held(&gateway.status(), "held").eq(&0).then_some(())
        });
        let arrived = script.recorders[0].frames(4, LIMIT, |frame| {
            let at = if v6 { 54 } else { 34 };
            frame.get(at + 2..at + 4) == Some(&port.to_be_bytes())
                && frame[at + 13] == TcpFlags::ACK
        });
        for frame in &arrived {
            let at = if v6 { 54 } else { 34 };
            let word =
                |at: usize| frame[at..at + 4].iter().fold(0, |all, it| all << 8 | u32::from(*it));
            let (number, echo) = (word(at + 8), word(at + 28));
            let whole = if number <= 1 + 20 * MSS { 1 + 20 * MSS } else { 1 + 30 * MSS };
            assert_eq!(echo, whole / 2, "{number}, {}", hex(frame));
        }
    }
    let status = gateway.status();
    assert!(held(&status, "delayed") > 6 * 10 && held(&status, "split") > 0, "{status}");
}

/// A counter of ACK control, summed over all policies.
fn held(status: &serde_json::Value, name: &str) -> u64 {
    let aggregates = status["aggregates"].as_array().into_iter().flatten();
    aggregates.filter_map(|it| it["ack_control"][name].as_u64()).sum()
}
