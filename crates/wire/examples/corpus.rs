//! Writes the initial inputs of the fuzzers: `cargo run -p tidegate-wire --example corpus`.

use std::net::SocketAddr;
use std::path::Path;
use std::{fs, io};

use tidegate_core::packet::{Ecn, TcpFlags};
use tidegate_wire::VlanTag;
use tidegate_wire::build::{Frame, Link, Tcp, Transport};

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in ["describe", "rewrite"] {
        fs::create_dir_all(corpus.join(target))?;
    }
    for (name, frame) in named() {
        fs::write(corpus.join("describe").join(&name), &frame)?;
        // New values for a rewrite: DSCP 46, ECN codepoint CE, an ACK number and a window. The
        // updates of the checksum produce carries.
        let values = [0xbb, 0xff, 0xff, 0, 1, 0x80, 0];
        fs::write(corpus.join("rewrite").join(&name), [&values[..], &frame].concat())?;
    }
    Ok(())
}

/// Frames with each encapsulation and each transport, and a few malformed frames.
fn named() -> Vec<(String, Vec<u8>)> {
    let mut frames = Vec::new();
    for (version, src, dst) in [
        (
            "ipv4",
            SocketAddr::from(([10, 0, 0, 1], 40_000)),
            SocketAddr::from(([192, 0, 2, 9], 443)),
        ),
        (
            "ipv6",
            ([0xfd00, 0, 0, 0, 0, 0, 0, 1], 40_000).into(),
            ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 9], 443).into(),
        ),
    ] {
        for (transport, frame) in with_options(src, dst).into_iter().chain(transports(src, dst)) {
            frames.push((format!("{version}-{transport}"), frame));
        }
        for (link, headers) in links() {
            let mut frame = Frame::tcp(src, dst);
            frame.link = headers;
            frames.push((format!("{link}-{version}-tcp"), frame));
        }
    }
    let mut named: Vec<_> =
        frames.iter().map(|(name, frame)| (name.clone(), frame.bytes())).collect();
    named.push(("arp".into(), Frame::opaque(0x0806, vec![0; 46]).bytes()));
    named.push(("spanning-tree".into(), Frame::opaque(38, vec![0x42; 38]).bytes()));
    named.extend(broken(&frames[0].1.bytes()));
    named
}

fn transports(src: SocketAddr, dst: SocketAddr) -> Vec<(&'static str, Frame)> {
    let tcp = |flags, options: &[u8], payload| segment(src, dst, flags, options, payload);
    let with_ip = |mut frame: Frame, change: fn(&mut tidegate_wire::build::Ip)| {
        frame.ip_mut().into_iter().for_each(change);
        frame
    };
    vec![
        ("tcp-fin", tcp(TcpFlags::ACK | TcpFlags::FIN, &[], 0)),
        ("tcp-bad-options", tcp(TcpFlags::SYN, &[2, 4, 5, 180, 3, 0, 1, 1], 3)),
        ("tcp-ect", with_ip(tcp(TcpFlags::ACK, &[], 20), |ip| ip.ecn = Ecn::Ect0)),
        ("udp", Frame { payload: vec![7; 33], ..Frame::udp(src, dst) }),
        ("echo", Frame { payload: vec![7; 56], ..Frame::echo(src.ip(), dst.ip(), 77) }),
        (
            "unreachable",
            Frame {
                payload: vec![0x45; 28],
                ..Frame::ip(src.ip(), dst.ip(), Transport::Icmp(3, 1, [0; 4]))
            },
        ),
        (
            "gre",
            Frame { payload: vec![0; 30], ..Frame::ip(src.ip(), dst.ip(), Transport::Other(47)) },
        ),
        (
            "esp",
            Frame {
                payload: vec![0x11; 40],
                ..Frame::ip(src.ip(), dst.ip(), Transport::Other(50))
            },
        ),
        (
            "first-fragment",
            with_ip(tcp(TcpFlags::ACK, &[], 60), |ip| ip.fragment = Some((0, true))),
        ),
        (
            "last-fragment",
            with_ip(tcp(TcpFlags::ACK, &[], 60), |ip| ip.fragment = Some((10, false))),
        ),
        (
            "options",
            with_ip(tcp(TcpFlags::ACK, &[], 5), |ip| {
                ip.options = vec![0x94, 4, 0, 0];
                ip.extensions = vec![
                    (0, vec![0, 0, 5, 2, 0, 0, 1, 0]),
                    (60, vec![0, 0, 1, 4, 0, 0, 0, 0]),
                    (43, vec![0; 8]),
                ];
            }),
        ),
        (
            "authenticated",
            with_ip(tcp(TcpFlags::ACK, &[], 5), |ip| {
                ip.extensions = vec![(51, [&[0, 4][..], &[0; 22]].concat())];
            }),
        ),
    ]
}

/// TCP segments with options of every kind.
fn with_options(src: SocketAddr, dst: SocketAddr) -> Vec<(&'static str, Frame)> {
    let tcp = |flags, options: &[u8], payload| segment(src, dst, flags, options, payload);
    let timestamps = [1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 0, 9];
    let syn = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
    let sack = [1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 0, 9, 1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let md5 = [&[1, 1, 19, 18][..], &[0x6d; 16]].concat();
    let authenticated = [&[29, 16][..], &[0x61; 14], &timestamps].concat();
    let odd = [1, 8, 10, 0xff, 0xff, 0, 1, 0, 0, 0, 9, 1];
    let blocks = [&timestamps[..], &[1, 1, 5, 26], &[0x33; 24]].concat();
    vec![
        ("tcp-syn", tcp(TcpFlags::SYN, &syn, 0)),
        ("tcp-ack", tcp(TcpFlags::ACK, &timestamps, 0)),
        ("tcp-data", tcp(TcpFlags::ACK | TcpFlags::PSH, &timestamps, 101)),
        ("tcp-sack", tcp(TcpFlags::ACK, &sack, 0)),
        ("tcp-md5", tcp(TcpFlags::ACK, &md5, 9)),
        ("tcp-ao", tcp(TcpFlags::ACK, &authenticated, 9)),
        ("tcp-odd-timestamps", tcp(TcpFlags::ACK, &odd, 9)),
        ("tcp-sack-blocks", tcp(TcpFlags::ACK, &blocks, 0)),
    ]
}

fn segment(src: SocketAddr, dst: SocketAddr, flags: u8, options: &[u8], payload: usize) -> Frame {
    let tcp = Tcp {
        src: src.port(),
        dst: dst.port(),
        seq: 1,
        ack: 0xffff_0001,
        flags: TcpFlags(flags),
        high_flags: 0,
        window: 0x7fff,
        options: options.to_vec(),
    };
    let mut frame = Frame::ip(src.ip(), dst.ip(), Transport::Tcp(tcp));
    frame.payload = vec![0x5a; payload];
    frame
}

fn links() -> Vec<(&'static str, Vec<Link>)> {
    let service = Link::Vlan(VlanTag { tpid: 0x88a8, tci: 0x2064 });
    vec![
        ("vlan", vec![Link::vlan(7)]),
        ("qinq", vec![service, Link::vlan(7)]),
        ("pppoe", vec![Link::Pppoe(1)]),
        ("vlan-pppoe", vec![Link::vlan(7), Link::Pppoe(1)]),
        ("mpls", vec![Link::Mpls(16), Link::Mpls(100)]),
    ]
}

fn broken(frame: &[u8]) -> Vec<(String, Vec<u8>)> {
    let with = |at: usize, value| {
        let mut frame = frame.to_vec();
        frame[at] = value;
        frame
    };
    vec![
        ("empty".into(), Vec::new()),
        ("cut-in-ethernet".into(), frame[..13].to_vec()),
        ("cut-in-ip".into(), frame[..30].to_vec()),
        ("cut-in-tcp".into(), frame[..40].to_vec()),
        ("header-length-16".into(), with(14, 0x44)),
        ("total-length-beyond-frame".into(), with(16, 0xff)),
        ("tcp-offset-0".into(), with(46, 0)),
        ("tcp-offset-60".into(), with(46, 0xf0)),
        ("padded".into(), [frame, &[0; 12]].concat()),
    ]
}
