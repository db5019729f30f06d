//! Tests the link-layer overhead that a gateway adds to each packet, for each kind of link and for
//! frames with all kinds of headers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use tidegate_config::policy_file;
use tidegate_core::{Machine, Time};
use tidegate_gateway::policy::PolicySet;
use tidegate_gateway::{Gateway, GatewayConfig};
use tidegate_wire::build::{Frame, Link};
use tidegate_wire::describe;

/// The headers between Ethernet and IP that the operator's `per_packet` number already includes.
#[derive(Clone, Copy)]
enum Contains {
    Nothing,
    Pppoe,
    Everything,
}

use Contains::{Everything, Nothing, Pppoe};

/// For each kind: bytes added to the IP packet, minimum bytes, whether ATM cells are used, and the
/// headers contained.
const KINDS: &[(&str, u64, u64, bool, Contains)] = &[
    ("\"raw\"", 14, 0, false, Nothing),
    ("\"conservative\"", 48, 0, true, Everything),
    ("\"ethernet\"", 38, 84, false, Nothing),
    ("\"docsis\"", 18, 64, false, Nothing),
    ("\"pppoe-ptm\"", 30, 0, false, Pppoe),
    ("\"bridged-ptm\"", 22, 0, false, Nothing),
    ("\"ipoa-vcmux\"", 8, 0, true, Everything),
    ("\"ipoa-llcsnap\"", 16, 0, true, Everything),
    ("\"bridged-vcmux\"", 24, 0, true, Nothing),
    ("\"bridged-llcsnap\"", 32, 0, true, Nothing),
    ("\"pppoa-vcmux\"", 10, 0, true, Everything),
    ("\"pppoa-llc\"", 14, 0, true, Everything),
    ("\"pppoe-vcmux\"", 32, 0, true, Pppoe),
    ("\"pppoe-llcsnap\"", 40, 0, true, Pppoe),
    ("{ per_packet = 34, min = 68 }", 34, 68, false, Everything),
];

/// A frame whose IP packet has `len` bytes.
fn frame(len: usize, vlan: bool, pppoe: bool) -> Vec<u8> {
    let (src, dst) = ("10.0.0.1:5000".parse().unwrap(), "192.0.2.1:9".parse().unwrap());
    let mut frame = Frame { payload: vec![7; len - 28], ..Frame::udp(src, dst) };
    frame.link.extend(vlan.then(|| Link::vlan(7)));
    frame.link.extend(pppoe.then_some(Link::Pppoe(1)));
    let bytes = frame.bytes();
    assert_eq!(bytes.len(), 14 + 4 * usize::from(vlan) + 8 * usize::from(pppoe) + len);
    bytes
}

fn config(overhead: &str) -> GatewayConfig {
    let text = format!(
        "[gateway]\nlan = \"a\"\nwan = \"b\"\nrate = {{ up = \"2 Mbit/s\" }}\noverhead = {overhead}\n"
    );
    policy_file::parse("it.toml", &text, None).0.unwrap().gateway
}

/// The time in which a gateway with a backlog sends `count` frames after its initial burst.
fn time_of(frame: &[u8], overhead: &str, count: u32) -> Duration {
    let mut gateway = Gateway::new(&config(overhead), PolicySet::default(), Time::ZERO);
    let (mut now, mut begin, mut sent) = (Time::ZERO, None, 0);
    loop {
        while gateway.pool().in_use() < 64 {
            let id = gateway.pool().reserve().unwrap();
            let len = u32::try_from(frame.len()).unwrap();
            assert_eq!(describe(frame, len, &mut gateway.pool()[&id]), None);
            gateway.handle_packet(now, Gateway::LAN, id);
        }
        while let Some(id) = gateway.poll_transmit(now, Gateway::WAN) {
            gateway.pool().release(id);
            sent += 1;
            // The first frames are the burst, which departs at once.
            if sent == 200 {
                begin = Some(now);
            }
            if sent == 200 + count {
                return now.since(begin.unwrap());
            }
        }
        if let Some(next) = gateway.poll_timeout(now) {
            now = now.max(next);
        }
    }
}

/// Catches: PPPoE bytes added although the operator's number includes them; a VLAN tag that is not
/// counted; the minimum applied to the bytes of the frame instead of the bytes on the link.
#[test]
fn each_kind_of_link_adds_its_overhead_for_all_headers_of_a_frame() {
    for (name, per_packet, min, atm, contains) in KINDS {
        for len in [52, 1_492] {
            for (vlan, pppoe) in [(false, false), (true, false), (false, true), (true, true)] {
                let tag = if vlan { 4 } else { 0 };
                let session = if pppoe { 8 } else { 0 };
                let counted = match contains {
                    Nothing => tag + session,
                    Pppoe => tag,
                    Everything => 0,
                };
                let bytes = (u64::try_from(len).unwrap() + per_packet + counted).max(*min);
                let bytes = if *atm { bytes.div_ceil(48) * 53 } else { bytes };
                let count = 1_000;
                let taken = time_of(&frame(len, vlan, pppoe), name, count).as_secs_f64();
                let right = f64::from(count) * f64::from(u32::try_from(bytes).unwrap()) * 8.0 / 2e6;
                let off = (taken / right - 1.0).abs();
                assert!(off < 0.005, "{name} {len} {vlan} {pppoe}: {taken} s, not {right} s");
            }
        }
    }
}
