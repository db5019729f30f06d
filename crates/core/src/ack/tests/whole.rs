//! Tests of ACKs that are kept whole, not as records, and of their budget of packet buffers.

use super::{EVERY, MSS, sent};
use crate::ack::testing::{Bench, US, plain};
use crate::packet::{Options, TcpFlags, TcpSegment};

/// A quarter of the buffers of a bench.
const BUDGET: u32 = 1_024;

/// The `n`-th ACK that cannot be a record.
fn special(n: u32) -> TcpSegment {
    TcpSegment { options: Options::Unknown, ..plain(n * MSS) }
}

/// Catches: records, steps or merged ACKs of a flow with AccECN or MPTCP; a dropped old ACK; data that
/// overtakes held ACKs.
#[test]
fn each_ack_of_a_flow_with_accecn_or_mptcp_departs_as_it_arrived() {
    for spec in EVERY {
        let mut bench = sent(spec, 60);
        // TCR rewrites windows only if their scale is known.
        (bench.known.extended, bench.known.scale) = (true, None);
        bench.known.sent = Some(60 * MSS);
        bench.fill(US(0), true);
        let mut went = bench.back(US(1), 0, plain(2 * MSS), &[]);
        let mut came = vec![plain(2 * MSS)];
        for ack in [20, 22, 22, 21, 40] {
            came.push(plain(ack * MSS));
            went.extend(bench.back(US(2), 0, plain(ack * MSS), &[]));
        }
        let counts = bench.control.counts();
        assert!(counts.held > 0 && counts.held == counts.packets, "{spec}: {counts:?}");
        let data = TcpSegment { payload: 100, ..plain(40 * MSS) };
        came.push(data);
        went.extend(bench.back(US(3), 0, data, &[]));
        let acks = |all: &[TcpSegment]| all.iter().map(|it| it.ack / MSS).collect::<Vec<_>>();
        assert_eq!(acks(&went), acks(&came), "{spec}");
        assert_eq!(went, came, "{spec}");
        let counts = bench.control.counts();
        assert_eq!((counts.made, counts.absorbed, counts.held), (0, 0, 0), "{spec}");
    }
}

/// Catches: an unbounded number of whole ACKs; held ACKs of a flow beyond the bound.
/// Catches: a flow whose ACKs are never held again.
#[test]
fn beyond_the_budget_no_ack_is_held_until_one_can_be_a_record_or_acknowledges_all_data() {
    for (again, flags) in [(special(3_000), 0), (plain(1_500 * MSS), TcpFlags::ACK)] {
        // At 100 Mbit/s, 3,000 segments do not make a sender unresponsive.
        let mut bench = Bench::new(EVERY[0], 100);
        bench.ack(US(0), 0, 0);
        (1..=3_000).for_each(|n| bench.data(US(0), 0, n * MSS));
        bench.fill(US(0), true);
        for n in 1..=BUDGET {
            assert!(bench.back(US(1), 0, special(n), &[]).is_empty(), "{n}");
        }
        let went = bench.back(US(2), 0, special(BUDGET + 1), &[]);
        let acks: Vec<_> = went.iter().map(|tcp| tcp.ack / MSS).collect();
        assert_eq!(acks, (1..=BUDGET + 1).collect::<Vec<_>>());
        for n in BUDGET + 2..BUDGET + 100 {
            assert_eq!(bench.back(US(3), 0, special(n), &[]).len(), 1, "{n}");
        }
        assert_eq!(bench.control.counts().held, 0);
        bench.data(US(4), 0, 3_001 * MSS);
        bench.known.sent = Some(3_000 * MSS);
        assert!(bench.back(US(4), 0, again, &[]).is_empty(), "the ACK is held: {flags}");
        bench.known.sent = Some(3_001 * MSS);
        assert!(bench.back(US(5), 0, special(3_001), &[]).is_empty(), "the next ACK is held");
    }
}

/// Catches: a budget for each flow without a common budget; a budget that is not given back.
#[test]
fn all_flows_together_keep_a_quarter_of_the_buffers_whole_and_give_it_back() {
    let mut bench = sent(EVERY[0], 0);
    for member in 0..8 {
        (0..=400).for_each(|n| bench.data(US(0), member, n * MSS));
        bench.ack(US(0), member, 0);
    }
    for _ in 0..2 {
        bench.fill(US(0), true);
        for n in 1..300 {
            for member in 0..8 {
                bench.back(US(1), member, special(n), &[]);
                assert!(bench.pool.in_use() <= BUDGET + 8, "{}", bench.pool.in_use());
            }
        }
        (0..8).for_each(|member| drop(bench.withdraw(US(2), member)));
        assert_eq!(bench.pool.in_use(), 0);
        (0..8).for_each(|member| bench.control.leave(crate::packet::FlowIndex(member)));
        (0..8).for_each(|member| drop(bench.ack(US(2), member, 0)));
    }
    assert!(bench.pool.keep_whole_ack());
}

/// Catches: a window that permits more held ACKs than the budget of whole ACKs.
#[test]
fn the_window_of_a_flow_whose_acks_are_kept_whole_leaves_few_to_be_held() {
    let window = |extended, mbps| {
        let mut bench = Bench::new(EVERY[0], mbps);
        (bench.known.extended, bench.known.scale) = (extended, Some(14));
        let mut acked = 0;
        let mut last = TcpSegment::default();
        for n in 1..2_000 {
            acked += 100;
            bench.data(US(n * 10_000), 0, acked * MSS);
            let ack = TcpSegment { window: u16::MAX, ..plain(acked * MSS) };
            let went = bench.back(US(n * 10_000), 0, ack, &[]);
            last = went.last().copied().unwrap_or(last);
        }
        (u32::from(last.window) << 14) / MSS
    };
    // At 100 Mbit/s, 50.2 ms carry 433 full segments, and 550.2 ms carry 4,750. An ACK has 100.
    assert!((4_840..4_860).contains(&window(false, 100)), "{}", window(false, 100));
    assert!((940..960).contains(&window(true, 100)), "{}", window(true, 100));
    // At 5 Mbit/s, 550.2 ms carry fewer segments than the bound.
    assert_eq!(window(true, 5), window(false, 5));
}
