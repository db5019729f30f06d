//! A generator of frames with every encapsulation, and a checksum that is slow but obviously
//! correct.

#![allow(dead_code, reason = "each test file uses its part")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use tidegate_core::Packet;
use tidegate_core::packet::{Ecn, TcpFlags};
use tidegate_wire::build::{Frame, Ip, Link, Network, Tcp, Transport};
use tidegate_wire::{Oddity, VlanTag, describe};

/// The descriptor of `frame`, and the fault that the parser found in it.
pub(crate) fn described(frame: &[u8]) -> (Packet, Option<Oddity>) {
    let mut packet = Packet::default();
    let oddity = describe(frame, u32::try_from(frame.len()).unwrap(), &mut packet);
    (packet, oddity)
}

/// Any frame that the parser understands, except fragments.
pub(crate) fn frames() -> impl Strategy<Value = Frame> {
    (links(), any::<bool>(), transports(), 0usize..60, ip_fields()).prop_map(
        |(link, v4, transport, payload, fields)| {
            let (src, dst): (IpAddr, IpAddr) = if v4 {
                (Ipv4Addr::from(fields.src).into(), Ipv4Addr::from(fields.dst).into())
            } else {
                let wide = |low: u32| Ipv6Addr::from(u128::from(low) | 0xfd00 << 112);
                (wide(fields.src).into(), wide(fields.dst).into())
            };
            let transport = match transport {
                Transport::Icmp(_, code, rest) => {
                    Transport::Icmp(if v4 { 8 } else { 128 }, code, rest)
                }
                other => other,
            };
            let ip = Ip {
                src,
                dst,
                dscp: fields.dscp,
                ecn: fields.ecn,
                identification: 7,
                whole: false,
                fragment: None,
                options: vec![1; fields.option_words * 4],
                extensions: fields.extensions,
                transport,
            };
            let payload = (0..payload).map(|n| u8::try_from(n).unwrap()).collect();
            Frame { link, network: Network::Ip(ip), ..Frame::opaque(0, payload) }
        },
    )
}

#[derive(Clone, Debug)]
struct Fields {
    src: u32,
    dst: u32,
    dscp: u8,
    ecn: Ecn,
    option_words: usize,
    extensions: Vec<(u8, Vec<u8>)>,
}

fn ip_fields() -> impl Strategy<Value = Fields> {
    let extensions = prop::sample::subsequence(
        vec![(0, vec![0, 0, 1, 4, 0, 0, 0, 0]), (43, vec![0; 8]), (60, [0, 1].repeat(8))],
        0..=3,
    );
    (any::<u32>(), any::<u32>(), 0u8..64, ecns(), 0usize..3, extensions).prop_map(
        |(src, dst, dscp, ecn, option_words, extensions)| Fields {
            src,
            dst,
            dscp,
            ecn,
            option_words,
            extensions: extensions.into_iter().map(extension).collect(),
        },
    )
}

/// Sets the length field of an extension header: its second byte, in units of 8 bytes after the
/// first 8.
fn extension((kind, mut bytes): (u8, Vec<u8>)) -> (u8, Vec<u8>) {
    bytes[1] = u8::try_from(bytes.len() / 8 - 1).unwrap();
    (kind, bytes)
}

pub(crate) fn ecns() -> impl Strategy<Value = Ecn> {
    prop::sample::select(vec![Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce])
}

fn links() -> impl Strategy<Value = Vec<Link>> {
    let vlan = |tpid, tci| Link::Vlan(VlanTag { tpid, tci });
    prop_oneof![
        Just(vec![]),
        any::<u16>().prop_map(move |tci| vec![vlan(0x8100, tci)]),
        any::<u16>().prop_map(move |tci| vec![vlan(0x88a8, tci), vlan(0x8100, 5)]),
        any::<u16>().prop_map(|session| vec![Link::Pppoe(session)]),
        any::<u16>().prop_map(move |tci| vec![vlan(0x8100, tci), Link::Pppoe(1)]),
        (1u32..1 << 20).prop_map(|label| vec![Link::Mpls(label), Link::Mpls(17)]),
    ]
}

fn transports() -> impl Strategy<Value = Transport> {
    prop_oneof![
        4 => tcp().prop_map(Transport::Tcp),
        1 => (any::<u16>(), any::<u16>()).prop_map(|(src, dst)| Transport::Udp(src, dst)),
        1 => any::<[u8; 4]>().prop_map(|rest| Transport::Icmp(8, 0, rest)),
        1 => Just(Transport::Other(47)),
    ]
}

fn tcp() -> impl Strategy<Value = Tcp> {
    let fields = any::<(u16, u16, u32, u32, u8, u16)>();
    (fields, 0u8..16, tcp_options()).prop_map(|(fields, high_flags, options)| {
        let (src, dst, seq, ack, flags, window) = fields;
        Tcp { src, dst, seq, ack, flags: TcpFlags(flags), high_flags, window, options }
    })
}

/// Valid options that the independent parser knows, in any order, padded to a multiple of four
/// bytes.
fn tcp_options() -> impl Strategy<Value = Vec<u8>> {
    let options = vec![
        vec![1],
        vec![2, 4, 5, 180],
        vec![3, 3, 7],
        vec![4, 2],
        vec![5, 10, 1, 2, 3, 4, 5, 6, 7, 8],
        vec![5, 18, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, 0xff, 0, 0, 1],
        vec![8, 10, 0, 0, 1, 0, 0, 2, 0, 1],
    ];
    prop::sample::subsequence(options, 0..=6)
        .prop_filter("fits", |options| fit(options))
        .prop_shuffle()
        .prop_map(|options| {
            let mut options = options.concat();
            options.resize(options.len().div_ceil(4) * 4, 1);
            options
        })
}

fn fit(options: &[Vec<u8>]) -> bool {
    options.iter().map(Vec::len).sum::<usize>() <= 40
}

/// The one's complement sum of the 16-bit words of all `parts`. Each part is padded to whole words.
pub(crate) fn slow_sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for word in part.chunks(2) {
            let low = word.get(1).copied().unwrap_or(0);
            sum += u32::from(word[0]) * 256 + u32::from(low);
            if sum > 0xffff {
                sum -= 0xffff;
            }
        }
    }
    u16::try_from(sum).unwrap()
}

/// The sum over the innermost TCP, UDP or ICMP packet and its pseudo header. It is 0xffff if the
/// checksum is correct. The packet begins at `transport` and ends with the frame.
pub(crate) fn segment_sum(frame: &[u8], network: usize, transport: usize, protocol: u8) -> u16 {
    let segment = &frame[transport..];
    let len = u32::try_from(segment.len()).unwrap().to_be_bytes();
    let addresses = match frame[network] >> 4 {
        4 => &frame[network + 12..network + 20],
        _ => &frame[network + 8..network + 40],
    };
    match protocol {
        1 => slow_sum(&[segment]),
        _ => slow_sum(&[addresses, &len, &[0, protocol], segment]),
    }
}
