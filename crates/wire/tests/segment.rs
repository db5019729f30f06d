//! A TCP segment does not change when one end point encodes it and the other decodes it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod frames;

use std::net::SocketAddr;

use frames::{ecns, segment_sum};
use proptest::prelude::*;
use tidegate_core::Packet;
use tidegate_core::packet::{Options, SackBlocks, TcpFlags, TcpSegment};
use tidegate_core::tcp::Segment;
use tidegate_wire::describe;
use tidegate_wire::segment::{frame, options, read};

fn syns() -> impl Strategy<Value = (u16, Option<u8>, bool)> {
    (any::<u16>(), prop::option::of(0u8..=14), any::<bool>())
}

/// Segments whose options fit into the header: at most four SACK blocks, or three beside
/// timestamps.
fn segments() -> impl Strategy<Value = (Segment, Vec<u8>)> {
    let numbers = (any::<u32>(), any::<u32>(), any::<u16>(), any::<u8>());
    let times = prop::option::of((any::<u32>(), any::<u32>()));
    let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..=4);
    let payload = prop::collection::vec(any::<u8>(), 0..50);
    (numbers, times, blocks, syns(), ecns(), payload).prop_map(
        |((seq, ack, window, flags), timestamps, mut blocks, syn, ecn, payload)| {
            let flags = TcpFlags(flags);
            blocks.truncate(if timestamps.is_some() { 3 } else { 4 });
            let (mss, window_scale, sack_permitted) = match flags.any(TcpFlags::SYN) {
                true => {
                    blocks.clear();
                    syn
                }
                false => (0, None, false),
            };
            let mut sack = SackBlocks::default();
            blocks.iter().for_each(|block| assert!(sack.push(*block)));
            let header = TcpSegment {
                authenticated: false,
                seq,
                ack,
                payload: u32::try_from(payload.len()).unwrap(),
                timestamps,
                window,
                mss,
                flags,
                window_scale,
                sack_permitted,
                has_sack: !sack.is_empty(),
                options: Options::None,
                high_flags: u8::try_from(seq % 16).unwrap(),
            };
            (Segment { header, sack, ecn }, payload)
        },
    )
}

proptest! {
    /// Catches: SACK blocks that are read one byte too early; SACK-permitted without its length; a
    /// window scale without its padding; an ECN field that is not transferred.
    #[test]
    fn a_segment_is_read_as_it_was_written((segment, payload) in segments(), v6 in any::<bool>()) {
        let at = |address: &str| address.parse::<SocketAddr>().unwrap();
        let (src, dst) = match v6 {
            true => (at("[fd00::1]:5"), at("[fd00::2]:6")),
            false => (at("10.0.0.1:5"), at("10.0.0.2:6")),
        };
        let bytes = frame(src, dst, &segment, payload.clone()).bytes();
        let mut packet = Packet::default();
        let oddity = describe(&bytes, u32::try_from(bytes.len()).unwrap(), &mut packet);
        prop_assert_eq!(oddity, None);
        prop_assert_eq!(read(&bytes, &packet), Some((segment, &payload[..])));
        let transport = usize::from(packet.transport_offset);
        prop_assert_eq!(segment_sum(&bytes, 14, transport, 6), 0xffff);
    }
}

#[test]
fn a_syn_has_the_options_of_linux_in_their_order() {
    let header = TcpSegment {
        flags: TcpFlags(TcpFlags::SYN),
        mss: 1_460,
        timestamps: Some((0x0102_0304, 0)),
        window_scale: Some(7),
        sack_permitted: true,
        ..TcpSegment::default()
    };
    let expected = [2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7];
    assert_eq!(options(&Segment { header, ..Segment::default() }), expected);
}
