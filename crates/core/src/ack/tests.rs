//! Requirements on every ACK control.

mod requests;
mod responds;
mod stops;
mod timers;
mod whole;

use std::time::Duration;

use proptest::prelude::*;

use super::Counts;
use super::testing::{Bench, FRAME, MSS, US, plain};
use crate::flow::before;
use crate::packet::{TcpFlags, TcpSegment};
use crate::{Bytes, Rate, Time};

const EVERY: [&str; 4] = [
    "\"postack\"",
    r#"{ kind = "postack", release = "bucket" }"#,
    r#"{ kind = "postack", release = "virtual-queue" }"#,
    "\"tcr\"",
];

/// A bench whose flow `member` has sent `segments`, and whose first ACK has passed.
fn sent(spec: &str, segments: u32) -> Bench {
    let mut bench = Bench::new(spec, 10);
    bench.ack(US(0), 0, 0);
    (1..=segments).for_each(|n| bench.data(US(0), 0, n * MSS));
    bench
}

#[test]
fn a_closed_gate_holds_acks_and_an_open_one_lets_them_go_in_order() {
    let mut bench = sent(EVERY[0], 40);
    bench.fill(US(0), true);
    for n in 1..=20 {
        assert!(bench.ack(US(u64::from(n)), 0, 2 * n * MSS).is_empty());
    }
    let counts = bench.control.counts();
    assert_eq!((counts.held, counts.packets, counts.absorbed), (20, 1, 19));
    // ACKs depart up to the target of the queue. The first ACK requests four segments, as its sender is in
    // slow start. After its credit has expired, more ACKs depart.
    let first = bench.fill(US(30), false);
    assert_eq!(first.iter().map(|tcp| tcp.ack).collect::<Vec<_>>(), [2 * MSS]);
    let rest = bench.run_until(US(200_000));
    let acks: Vec<_> = rest.iter().map(|(_, tcp)| tcp.ack).collect();
    assert_eq!(acks, (2..=20).map(|n| 2 * n * MSS).collect::<Vec<_>>());
    assert_eq!(bench.control.counts().held, 0);
}

#[test]
fn an_ack_that_is_made_again_says_what_it_said() {
    let mut bench = sent(EVERY[0], 40);
    bench.fill(US(0), true);
    let came: Vec<_> = (1..=3)
        .map(|n| TcpSegment {
            window: u16::try_from(500 + n).unwrap(),
            timestamps: Some((100 + n, 50 + n)),
            ..plain(n * 2 * MSS)
        })
        .collect();
    came.iter().for_each(|tcp| assert!(bench.back(US(1), 0, *tcp, &[]).is_empty()));
    let went = bench.withdraw(US(2), 0);
    for (came, went) in came.iter().zip(&went) {
        assert_eq!((went.ack, went.window), (came.ack, came.window));
        assert_eq!(went.timestamps, Some((103, came.timestamps.unwrap().1)));
    }
    assert_eq!(went.len(), 3);
}

/// Catches: a duplicate ACK that is merged with a plain ACK, so that the sender misses a loss.
#[test]
fn duplicates_keep_their_number_their_blocks_and_their_order() {
    let mut bench = sent(EVERY[0], 40);
    bench.fill(US(0), true);
    bench.ack(US(1), 0, 2 * MSS);
    (0..3).for_each(|_| assert!(bench.ack(US(2), 0, 2 * MSS).is_empty()));
    let blocks = [(4 * MSS, 5 * MSS), (8 * MSS, 9 * MSS)];
    assert!(bench.back(US(3), 0, plain(2 * MSS), &blocks).is_empty());
    bench.ack(US(4), 0, 10 * MSS);
    let went = bench.withdraw(US(5), 0);
    let acks: Vec<_> = went.iter().map(|tcp| tcp.ack / MSS).collect();
    assert_eq!(acks, [2, 2, 2, 2, 2, 10]);
    let blocks: Vec<_> = went.iter().map(|tcp| tcp.has_sack).collect();
    assert_eq!(blocks, [false, false, false, false, true, false]);
}

#[test]
fn packets_that_are_never_held_depart_at_once_after_the_acks_held_before_them() {
    let never = [
        TcpSegment { flags: TcpFlags(TcpFlags::ACK | TcpFlags::FIN), ..plain(4 * MSS) },
        TcpSegment { flags: TcpFlags(TcpFlags::ACK | TcpFlags::RST), ..plain(4 * MSS) },
        TcpSegment { flags: TcpFlags(TcpFlags::ACK | TcpFlags::URG), ..plain(4 * MSS) },
        TcpSegment { window: 0, ..plain(4 * MSS) },
    ];
    for spec in EVERY {
        for tcp in never {
            let mut bench = sent(spec, 40);
            bench.fill(US(0), true);
            bench.ack(US(1), 0, 2 * MSS);
            let held = bench.control.counts().held;
            let went = bench.back(US(2), 0, tcp, &[]);
            assert_eq!(went.len(), usize::try_from(held).unwrap() + 1, "{spec}: {tcp:?}");
            assert_eq!(went.last().map(|it| it.flags), Some(tcp.flags));
            assert_eq!(bench.control.counts().held, 0);
        }
    }
}

/// Catches: small segments that are enlarged; a broken digest.
#[test]
fn senders_are_asked_for_small_segments_where_the_policy_says_so() {
    let syn = |mss, authenticated| TcpSegment {
        flags: TcpFlags(TcpFlags::SYN | TcpFlags::ACK),
        mss,
        authenticated,
        ..plain(1)
    };
    let asked = |spec, syn| Bench::new(spec, 10).back(US(0), 0, syn, &[])[0].mss;
    let small = r#"{ kind = "tcr", mss = "536 B" }"#;
    assert_eq!(asked(small, syn(1_460, false)), 536);
    assert_eq!(asked(small, syn(256, false)), 256);
    assert_eq!(asked(small, syn(0, false)), 0);
    assert_eq!(asked(small, syn(1_460, true)), 1_460);
    assert_eq!(asked("\"tcr\"", syn(1_460, false)), 1_460);
}

#[test]
fn a_window_that_opens_again_is_never_held() {
    let mut bench = sent(EVERY[0], 40);
    bench.fill(US(0), true);
    bench.back(US(1), 0, TcpSegment { window: 0, ..plain(2 * MSS) }, &[]);
    assert_eq!(bench.ack(US(2), 0, 2 * MSS), [2 * MSS]);
    assert!(bench.ack(US(3), 0, 4 * MSS).is_empty());
}

#[test]
fn data_passes_held_acks_and_they_are_not_too_old_afterwards() {
    let mut bench = sent(EVERY[0], 40);
    bench.fill(US(0), true);
    assert!(
        bench
            .back(US(1), 0, TcpSegment { timestamps: Some((7, 1)), ..plain(2 * MSS) }, &[])
            .is_empty()
    );
    let data = TcpSegment { payload: 100, timestamps: Some((9, 2)), window: 500, ..plain(4 * MSS) };
    let went = bench.back(US(2), 0, data, &[]);
    // The data departs with the number of the last departed ACK.
    assert_eq!((went.len(), went[0].payload, went[0].ack, went[0].seq), (1, 100, 0, 1));
    let edge = |tcp: &TcpSegment| tcp.ack + (u32::from(tcp.window) << 7);
    assert!(edge(&went[0]) <= edge(&data) && edge(&went[0]) >= 512 << 7);
    let later = bench.withdraw(US(3), 0);
    assert_eq!(later.iter().map(|tcp| tcp.ack).collect::<Vec<_>>(), [2 * MSS, 4 * MSS]);
    for tcp in &later {
        assert_eq!((tcp.payload, tcp.seq), (0, 101), "behind the data");
        assert!(tcp.timestamps.unwrap().0 >= 9, "PAWS would drop it");
    }
}

/// Catches: an ACK that departs after data has overtaken it, with its own old timestamp or sequence number.
#[test]
fn an_ack_that_data_has_overtaken_is_not_too_old() {
    let mut bench = sent(EVERY[0], 40);
    bench.fill(US(0), true);
    let ack = TcpSegment { timestamps: Some((7, 1)), ..plain(2 * MSS) };
    assert!(bench.back(US(1), 0, ack, &[]).is_empty());
    let data = TcpSegment { payload: 100, timestamps: Some((9, 2)), ..plain(0) };
    assert_eq!(bench.back(US(2), 0, data, &[]), [data]);
    let went = bench.withdraw(US(3), 0);
    let expected = TcpSegment { seq: 101, timestamps: Some((9, 1)), ..ack };
    assert_eq!(went, [expected]);
}

/// Catches: a duplicate cut from data that repeats a held ACK.
#[test]
fn data_that_repeats_a_held_ack_is_no_duplicate() {
    let mut bench = sent(EVERY[0], 40);
    bench.fill(US(0), true);
    assert!(bench.ack(US(1), 0, 2 * MSS).is_empty());
    for n in 0..5 {
        let data = TcpSegment { seq: 1 + 100 * n, payload: 100, ..plain(2 * MSS) };
        let went = bench.back(US(2), 0, data, &[]);
        assert_eq!((went.len(), went[0].payload, went[0].ack), (1, 100, 0));
    }
    let went = bench.withdraw(US(3), 0);
    assert_eq!(went.iter().map(|tcp| tcp.ack).collect::<Vec<_>>(), [2 * MSS]);
}

#[test]
fn a_stretch_ack_goes_on_in_steps_of_two_segments() {
    let mut bench = sent(EVERY[0], 60);
    bench.fill(US(0), true);
    assert!(bench.ack(US(1), 0, 44 * MSS).is_empty());
    let mut went = bench.fill(US(2), false);
    went.extend(bench.run_until(US(500_000)).into_iter().map(|(_, tcp)| tcp));
    let acks: Vec<_> = went.iter().map(|tcp| tcp.ack / MSS).collect();
    assert_eq!(acks[..3], [2, 4, 6]);
    assert_eq!(acks.last(), Some(&44));
    assert!(acks.windows(2).all(|pair| pair[1] - pair[0] <= 4));
    let edges: Vec<_> = went.iter().map(|tcp| tcp.ack + (u32::from(tcp.window) << 7)).collect();
    assert!(edges.windows(2).all(|pair| pair[0] <= pair[1]), "{edges:?}");
    assert!(edges.iter().all(|edge| *edge <= 44 * MSS + (512 << 7)));
}

/// Catches: a hold so long that the sender's timer expires; a longest hold that never grows.
/// Catches: the same longest hold for short and for long paths.
#[test]
fn holds_grow_by_no_more_at_a_time_than_the_timers_of_a_sender_allow() {
    let ms = Duration::from_millis;
    // The round trip, if it is known, and the longest first hold and step.
    for (far, first, step) in [(Some(ms(30)), 30, 42), (Some(ms(400)), 150, 24), (None, 150, 24)] {
        let mut bench = sent(EVERY[0], 60);
        bench.known.far = far;
        bench.fill(US(0), true);
        let (mut now, mut holds) = (US(0), vec![]);
        for n in 1..=30 {
            assert!(bench.ack(now, 0, 2 * n * MSS).is_empty());
            let went = bench.run_until(Time::from_secs(100));
            assert_eq!(went.len(), 1);
            holds.push(went[0].0.since(now));
            now = went[0].0;
        }
        assert!(holds[0] + ms(2) >= ms(first) && holds[0] < ms(first + 4), "{holds:?}");
        assert!(holds.windows(2).all(|pair| pair[1] < pair[0] + ms(step)), "{holds:?}");
        assert!(holds[29] > ms(300) && holds.iter().all(|hold| *hold < ms(1_004)), "{holds:?}");
    }
}

/// Catches: flows that share by ACKs, so that a flow with fewer, larger ACKs gets more.
#[test]
fn flows_take_turns_byte_for_byte() {
    let mut bench = Bench::new(EVERY[0], 10);
    bench.fill(US(0), true);
    let first = |member: u32| member << 24;
    for member in 0..2 {
        bench.data(US(0), member, first(member));
        bench.ack(US(0), member, first(member));
    }
    // One flow acknowledges every segment, the other every fourth.
    for n in 1..=400 {
        for member in [0, 1] {
            let end = first(member) + n * MSS;
            bench.data(US(0), member, end);
            if member == 0 || n % 4 == 0 {
                bench.ack(US(u64::from(n)), member, end);
            }
        }
    }
    let mut last = [first(0), first(1)];
    bench.fill(US(400), false);
    for (_, tcp) in bench.run_until(US(140_000)) {
        last[usize::from(tcp.ack >= first(1))] = tcp.ack;
    }
    let bytes = [last[0], last[1] - first(1)];
    let [one, other] = bytes.map(f64::from);
    assert!(one > 50_000.0 && (one / other - 1.0).abs() < 0.2, "{one} {other}");
}

#[test]
fn tcr_makes_the_window_what_the_rate_needs_and_paces() {
    let mut bench = sent(EVERY[3], 40);
    // 10 Mbit/s carry 62,750 bytes in 50.2 ms. With one segment more, rounded up, these are 45 segments of
    // 1,448 bytes.
    bench.known.scale = Some(2);
    let went = bench.back(US(1_000), 0, TcpSegment { window: 60_000, ..plain(2 * MSS) }, &[]);
    assert_eq!(u32::from(went[0].window) << 2, 45 * MSS);
    let next = bench.back(US(1_001), 0, TcpSegment { window: 60_000, ..plain(4 * MSS) }, &[]);
    assert!(next.is_empty());
    let at = bench.control.ready_at().unwrap();
    // Two segments as frames, at 10 Mbit/s.
    assert_eq!(at, US(1_000) + Rate::from_mbps(10).time_for(Bytes(u64::from(2 * FRAME))));
}

/// Catches: a window computed in 32 bits, which overflows.
#[test]
fn no_window_is_reduced_if_the_rate_needs_more_than_a_field_can_advertise() {
    for spec in ["'postack'", "'tcr'"] {
        for gbps in [1, 10, 40, 100, 400, 1_000] {
            let mut bench = Bench::new(spec, gbps * 1_000);
            (1..=8).for_each(|n| bench.data(US(0), 0, n * MSS));
            for (n, window) in [(1, 512), (2, 2_000), (3, 30_000)] {
                let at = 1_000 * u64::from(n);
                let ack = TcpSegment { window, ..plain(n * 2 * MSS) };
                let mut went = bench.back(US(at), 0, ack, &[]);
                went.extend(bench.run_until(US(at + 900)).into_iter().map(|(_, tcp)| tcp));
                assert_eq!(went.last().unwrap().window, window, "{spec} {gbps}");
            }
        }
    }
}

/// Catches: a share of the rate for a flow that only receives.
#[test]
fn a_flow_whose_data_goes_the_other_way_has_no_share_of_the_rate() {
    let mut bench = sent(EVERY[3], 40);
    bench.known.scale = Some(2);
    for n in 0..10 {
        let data = TcpSegment { payload: MSS, seq: n * MSS, ..plain(0) };
        assert_eq!(bench.back(US(900), 1, data, &[]).len(), 1);
    }
    let went = bench.back(US(1_000), 0, TcpSegment { window: 60_000, ..plain(2 * MSS) }, &[]);
    assert_eq!(u32::from(went[0].window) << 2, 45 * MSS);
}

/// Catches: P1 (the release rule with a bucket) that keeps a long queue for ever, or that stops while the queue
/// is long.
#[test]
fn a_bucket_releases_less_while_the_queue_is_longer_than_three_frames() {
    // The backlog beyond three frames is zero, a half, and far more than the bytes of 200 ms at 10 Mbit/s.
    for (waits, part) in [(3 * 1_514, 1.0), (3 * 1_514 + 125_000, 0.5), (1 << 30, 0.3)] {
        let mut bench = sent(EVERY[1], 9);
        bench.queue.own = Bytes(waits);
        bench.serve(US(0));
        bench.data(US(0), 0, 10 * MSS);
        assert!(bench.ack(US(0), 0, 2 * MSS).is_empty());
        let takes = bench.control.ready_at().unwrap().since(US(0));
        let ratio = carries(2).as_secs_f64() / takes.as_secs_f64();
        assert!((ratio - part).abs() < 0.001, "{waits}: {ratio}");
    }
}

/// Catches: a flow that is slowed by the backlog of other flows.
#[test]
fn a_bucket_paces_a_flow_without_backlog_at_its_rate_whatever_the_common_backlog() {
    let mut bench = sent(EVERY[1], 10);
    bench.queue.own = Bytes(1 << 30);
    bench.serve(US(0));
    assert!(bench.ack(US(0), 0, 2 * MSS).is_empty());
    let takes = bench.control.ready_at().unwrap().since(US(0));
    assert!(takes < carries(2) * 105 / 100, "{takes:?}");
}

/// Catches: P2 (the release rule with a virtual queue) that keeps a long queue for ever.
#[test]
fn a_virtual_queue_is_slower_while_the_queue_is_longer_than_three_frames() {
    for (waits, part) in [(3 * 1_514, 1.0), (3 * 1_514 + 125_000, 0.5)] {
        let mut bench = sent(EVERY[2], 0);
        bench.queue.own = Bytes(waits);
        bench.serve(US(0));
        (1..=10).for_each(|n| bench.data(US(0), 0, n * MSS));
        assert!(bench.ack(US(0), 0, 10 * MSS).is_empty());
        let takes = bench.control.ready_at().unwrap().since(US(0));
        let ratio = carries(10).as_secs_f64() / takes.as_secs_f64();
        assert!((ratio - part).abs() < 0.001, "{waits}: {ratio}");
    }
}

/// Time of full segments at 10 Mbit/s.
fn carries(segments: u32) -> Duration {
    Rate::from_mbps(10).time_for(Bytes(u64::from(segments * FRAME)))
}

/// Catches: P1 that releases more than the rate, as ACKs that did not wait cost nothing.
#[test]
fn a_bucket_is_charged_for_acks_that_departed_early() {
    let mut bench = sent(EVERY[1], 40);
    let flags = TcpFlags(TcpFlags::ACK | TcpFlags::URG);
    let urgent = TcpSegment { flags, ..plain(4 * MSS) };
    assert_eq!(bench.back(US(0), 0, urgent, &[]).len(), 1);
    assert!(bench.ack(US(0), 0, 6 * MSS).is_empty());
    assert_eq!(bench.control.ready_at(), Some(US(0) + carries(4 + 2)));
}

/// Catches: P1 that releases less than the rate if it is called late.
#[test]
fn a_bucket_that_is_served_late_loses_nothing() {
    let mut bench = sent(EVERY[1], 40);
    assert!(bench.ack(US(0), 0, 2 * MSS).is_empty());
    assert!(bench.ack(US(0), 0, 4 * MSS).is_empty());
    assert_eq!(bench.serve(US(1_000) + carries(2)).len(), 1);
    assert_eq!(bench.control.ready_at(), Some(US(0) + carries(4)));
}

#[test]
fn a_gate_looks_again_when_leave_has_run_out_but_not_for_what_has_to_leave_the_queue_first() {
    let mut bench = sent(EVERY[0], 40);
    let went = [2, 4, 6].map(|segments| bench.ack(US(0), 0, segments * MSS).len());
    assert_eq!(went, [1, 0, 0]);
    assert!(bench.control.ready_at() < Some(US(10_000)));
    bench.fill(US(0), true);
    assert!(bench.control.ready_at() > Some(US(40_000)));
}

#[test]
fn a_gate_that_is_seldom_looked_at_asks_for_what_is_carried_in_between() {
    let went = |poll_interval| {
        let mut bench = sent(EVERY[0], 40);
        bench.queue.ahead.poll_interval = Duration::from_micros(poll_interval);
        (1..20).map(|n| bench.ack(US(0), 0, 2 * n * MSS).len()).sum::<usize>()
    };
    // At 10 Mbit/s, the poll intervals carry 5,000 and 25,000 bytes. The target is two frames more, and
    // each ACK requests four in slow start.
    assert_eq!((went(0), went(4_000), went(20_000)), (1, 2, 5));
}

/// Catches: a flood of duplicate ACKs that takes unlimited memory.
#[test]
fn a_flood_of_duplicates_holds_a_bounded_number_and_the_oldest_depart() {
    let mut bench = sent(EVERY[0], 40);
    bench.fill(US(0), true);
    let went: usize = (0..10_000).map(|_| bench.ack(US(1), 0, 0).len()).sum();
    let counts = bench.control.counts();
    assert_eq!((counts.held, counts.packets), (4_096, 1));
    assert_eq!((went, counts.overdue), (10_000 - 4_096, 10_000 - 4_096));
}

/// Catches: held ACKs that take the last packet buffers.
#[test]
fn a_flood_of_selective_acks_leaves_buffers_for_others() {
    let mut bench = sent(EVERY[0], 40);
    bench.fill(US(0), true);
    for _ in 0..10_000 {
        bench.back(US(1), 0, plain(0), &[(2 * MSS, 3 * MSS)]);
    }
    assert!(bench.pool.in_use() < 4_096, "{}", bench.pool.in_use());
    assert!(bench.pool.insert(crate::Packet::default()).is_some());
}

/// Catches: ACKs of single bytes that take unlimited memory.
#[test]
fn acks_of_single_bytes_take_few_records_and_no_more_depart_than_arrived() {
    let mut bench = sent(EVERY[0], 40);
    bench.fill(US(0), true);
    (1..=20_000).for_each(|n| assert!(bench.ack(US(1), 0, n).is_empty()));
    assert!(bench.control.counts().held <= 257, "{:?}", bench.control.counts());
    let went = bench.withdraw(US(2), 0);
    assert!(went.len() <= 257 && went.last().map(|it| it.ack) == Some(20_000));
}

/// Catches: SACK blocks of data never sent that are not counted, or that keep their ACK from being held.
#[test]
fn false_selective_acks_are_counted_and_held() {
    for (blocks, lies) in [
        ([(2 * MSS, 3 * MSS), (39 * MSS, 40 * MSS)], 0),
        ([(2 * MSS, 3 * MSS), (40 * MSS, 41 * MSS)], 1),
        ([(3 * MSS, 2 * MSS), (5 * MSS, 5 * MSS)], 1),
        ([(0, MSS), (2 * MSS, 3 * MSS)], 0), // the first arrived twice (RFC 2883)
    ] {
        let mut bench = sent(EVERY[0], 40);
        bench.fill(US(0), true);
        assert!(bench.back(US(1), 0, plain(MSS), &blocks).is_empty());
        let counts = bench.control.counts();
        assert_eq!((counts.unsent, counts.held), (lies, 1), "{blocks:?}");
    }
}

#[test]
fn acks_of_what_was_never_sent_and_of_less_than_before_are_counted_and_release_nothing() {
    let mut bench = sent(EVERY[0], 40);
    bench.fill(US(0), true);
    assert!(bench.ack(US(1), 0, 8 * MSS).is_empty());
    assert_eq!(bench.ack(US(2), 0, 41 * MSS), [41 * MSS]); // as it came: the sender ignores it
    assert!(bench.ack(US(3), 0, 4 * MSS).is_empty());
    let counts = bench.control.counts();
    assert_eq!((counts.unsent, counts.stale, counts.held), (1, 1, 1));
    assert_eq!(bench.withdraw(US(4), 0).len(), 1);
}

/// Number of segments that were sent.
const DATA: u32 = 100;

/// Packets that a hostile receiver, or a host in between, may send.
#[derive(Clone, Copy, Debug)]
struct Lie {
    member: u32,
    ack: u32,
    window: u16,
    payload: u32,
    flags: u8,
    block: Option<(u32, u32)>,
    after_us: u64,
    open: bool,
}

fn lie() -> impl Strategy<Value = Lie> {
    let ack = prop_oneof![4 => 0_u32..200_000, 1 => any::<u32>()];
    let block = prop::option::weighted(0.3, (any::<u32>(), any::<u32>()));
    let near = prop::option::weighted(0.3, (0_u32..200_000, 0_u32..200_000));
    let flags = prop_oneof![8 => Just(TcpFlags::ACK), 1 => any::<u8>()];
    let window = prop_oneof![4 => Just(512_u16), 1 => any::<u16>()];
    let payload = prop_oneof![4 => Just(0_u32), 1 => 1_u32..3_000];
    (0_u32..3, ack, window, payload, flags, block, near, 0_u64..3_000, any::<bool>()).prop_map(
        |(member, ack, window, payload, flags, block, near, after_us, open)| Lie {
            member,
            ack,
            window,
            payload,
            flags,
            block: block.or(near),
            after_us,
            open,
        },
    )
}

proptest! {
    /// Packets are neither lost nor created, except for the steps of stretch ACKs. An ACK of unsent data
    /// departs only as it arrived.
    ///
    /// Catches: counting a stale ACK's packet twice; steps for data that was never carried.
    #[test]
    fn returning_packets_are_neither_lost_nor_amplified(
        lies in prop::collection::vec(lie(), 1..300),
        which in 0_usize..4,
    ) {
        let mut bench = Bench::new(EVERY[which], 10);
        for member in 0..3 {
            (1..=DATA).for_each(|n| bench.data(US(0), member, n * MSS));
        }
        let mut now = US(0);
        let mut most = 0_u64;
        for lie in lies {
            now += Duration::from_micros(lie.after_us);
            bench.fill(now, !lie.open);
            let tcp = TcpSegment {
                seq: 1,
                ack: lie.ack,
                window: lie.window,
                payload: lie.payload,
                flags: TcpFlags(lie.flags),
                ..plain(0)
            };
            let blocks: Vec<_> = lie.block.into_iter().collect();
            let went = bench.back(now, lie.member, tcp, &blocks);
            most += 1 + u64::from(lie.payload > 0);
            for it in &went {
                prop_assert!(it.ack == lie.ack || !before(DATA * MSS, it.ack), "{it:?}");
            }
            bench.check();
        }
        for member in 0..3 {
            bench.withdraw(now, member);
        }
        let Counts { held, packets, split, .. } = bench.control.counts();
        prop_assert_eq!((held, packets), (0, 0));
        prop_assert!(bench.outs <= most + split, "{} of {most}", bench.outs);
        prop_assert!(split <= u64::from(3 * DATA), "{split} steps");
    }

    /// A sender sees no difference between P1 (bucket), P2 (virtual queue) and a queue for its flow.
    /// This needs an ACK of every segment, and a constant path to the receiver.
    ///
    /// Source: `postack`, R001-9, theorem: `d(k) = max(a(k), d(k-1)) + L/r` does not change when `a` is
    /// shifted.
    ///
    /// Catches: P1 that releases the next ACK before the rate has carried the data of the last one.
    #[test]
    fn a_sender_sees_no_difference_between_bucket_virtual_queue_and_a_queue_for_its_flow(
        gaps in prop::collection::vec(prop_oneof![Just(0_u64), 0_u64..4_000], 1..60),
    ) {
        const FAR: u64 = 40_000;
        let service = Rate::from_mbps(10).time_for(Bytes(u64::from(FRAME)));
        let mut arrivals = vec![];
        let mut at = 0;
        for gap in gaps {
            at += gap;
            arrivals.push(US(at));
        }
        let mut free = Time::ZERO;
        let fair: Vec<_> = arrivals.iter().map(|arrival| {
            free = free.max(*arrival) + service;
            free + Duration::from_micros(FAR)
        }).collect();
        for spec in &EVERY[1..3] {
            let mut bench = Bench::new(spec, 10);
            bench.ack(US(0), 0, 0);
            let mut events: Vec<_> = (1_u32..).zip(&arrivals)
                .flat_map(|(n, at)| [(*at, true, n), (*at + Duration::from_micros(FAR), false, n)])
                .collect();
            events.sort_by_key(|(at, data, n)| (*at, !data, *n));
            let mut seen = vec![];
            let mut latest = 0;
            for (at, data, n) in events {
                let passed = bench.run_until(Time::from_nanos(at.nanos().saturating_sub(1)));
                seen.extend(passed.iter().map(|(at, tcp)| (*at, tcp.ack)));
                if data {
                    latest = latest.max(n);
                    bench.data(at, 0, n * MSS);
                } else {
                    bench.known.sent = Some(latest * MSS);
                    seen.extend(bench.ack(at, 0, n * MSS).into_iter().map(|ack| (at, ack)));
                }
            }
            seen.extend(bench.run_until(Time::from_secs(100)).iter().map(|(at, tcp)| (*at, tcp.ack)));
            let expected: Vec<_> =
                (1_u32..).zip(&fair).map(|(n, at)| (*at, n * MSS)).collect();
            prop_assert_eq!(&seen, &expected, "{}", spec);
        }
    }
}
