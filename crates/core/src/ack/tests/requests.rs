//! Requests of ACKs under the gate: their credit, and what other flows and rules see of it.

use super::*;
use crate::packet::FlowIndex;

/// Catches: requests of slow start that count twice for ever in a control that observes no slow start.
#[test]
fn a_swap_of_the_release_rule_leaves_no_counts_of_the_gate() {
    let times = |before: bool| {
        let mut bench = Bench::new(EVERY[1], 10);
        if before {
            let mut gate = sent(EVERY[0], 40);
            gate.ack(US(1), 0, 2 * MSS);
            gate.data(US(2), 0, 41 * MSS);
            let numbers = gate.control.numbers(FlowIndex(0)).unwrap();
            bench.control.set_numbers(FlowIndex(0), numbers);
        } else {
            bench.ack(US(0), 0, 0);
            (1..=41).for_each(|n| bench.data(US(0), 0, n * MSS));
            bench.ack(US(1), 0, 2 * MSS);
        }
        bench.known.sent = Some(41 * MSS);
        (2..=20).for_each(|n| drop(bench.ack(US(3), 0, 2 * n * MSS)));
        let all = bench.run_until(US(1_000_000));
        let (first, last) = (all[1].0, all[11].0);
        last.since(first).as_micros()
    };
    assert_eq!(times(true), times(false));
}

/// Catches: credit of a flow that has left, for which others wait.
#[test]
fn nobody_waits_for_the_credit_of_a_flow_that_has_left() {
    let mut bench = Bench::new(EVERY[0], 10);
    bench.known.near = Some(Duration::from_millis(20));
    bench.data(US(0), 1, 1 << 24);
    bench.ack(US(0), 1, 1 << 24);
    (1..=4).for_each(|n| bench.data(US(0), 1, (1 << 24) + n * MSS));
    bench.known.sent = Some(0);
    bench.ack(US(0), 0, 0);
    (1..=40).for_each(|n| bench.data(US(0), 0, n * MSS));
    bench.fill(US(1), true);
    (1..=20).for_each(|n| drop(bench.ack(US(1), 0, 2 * n * MSS)));
    bench.queue.own = Bytes::ZERO;
    assert_eq!(bench.withdraw(US(2), 0).len(), 20);
    bench.control.leave(FlowIndex(0));
    bench.known.sent = Some((1 << 24) + 4 * MSS);
    assert_eq!(bench.ack(US(10_000), 1, (1 << 24) + 2 * MSS).len(), 1);
}

/// A sender in slow start that has filled a reduced window, at a round trip of 40 ms.
fn filled() -> Bench {
    let mut bench = Bench::new(EVERY[0], 10);
    bench.known.near = Some(Duration::from_millis(40));
    let ack = TcpSegment { window: 60_000, ..plain(0) };
    let went = bench.back(US(0), 0, ack, &[]);
    let segments = (u32::from(went[0].window) << 7) / MSS;
    (1..=segments).for_each(|n| bench.data(US(1), 0, n * MSS));
    bench
}

/// Catches: requests of slow start that count twice although the window permits them once, in a turn of several
/// ACKs; the same for ACKs that depart as they arrive.
#[test]
fn a_full_window_is_requested_once() {
    let ack = |n: u32| TcpSegment { window: 60_000, ..plain(2 * n * MSS) };
    let mut bench = filled();
    let at_once = (1..=20).map(|n| bench.back(US(1), 0, ack(n), &[]).len()).sum::<usize>();
    let mut bench = filled();
    bench.fill(US(1), true);
    (1..=20).for_each(|n| assert!(bench.back(US(1), 0, ack(n), &[]).is_empty()));
    let in_turn = bench.fill(US(1), false).len();
    // At 10 Mbit/s, 20 ms carry 25,000 bytes, and the target has two frames more. An ACK moves the edge by two or
    // three segments.
    assert!((7..=10).contains(&at_once) && (7..=10).contains(&in_turn), "{at_once} {in_turn}");
}

/// Catches: divided ACKs that depart together and are each charged the segment that one of them requests.
#[test]
fn divided_acks_that_depart_together_request_their_data_once() {
    let mut bench = filled();
    bench.fill(US(1), true);
    let ack = |n: u32| TcpSegment { window: 60_000, ..plain(n * MSS / 14) };
    (1..=56).for_each(|n| assert!(bench.back(US(1), 0, ack(n), &[]).is_empty()));
    assert_eq!(bench.withdraw(US(2), 0).len(), 56);
    bench.serve(US(2));
    // Four segments, and one more as the edge of a window is rounded up.
    assert!((4..=5).contains(&(bench.account.credit / 1_514)), "{}", bench.account.credit);
}

/// Catches: a window for half of the longest hold, although many ACKs are held all the time.
#[test]
fn a_window_has_less_room_for_holds_while_many_acks_stand() {
    // At 10 Mbit/s, 550.2 ms carry 687,750 bytes.
    for (spec, least, most) in [(EVERY[0], 80_000, 620_000), (EVERY[1], 680_000, 700_000)] {
        let mut bench = Bench::new(spec, 10);
        bench.queue.own = Bytes(1 << 30);
        let mut window = 0;
        for n in 1..=3_000_u32 {
            let now = Time::from_millis(u64::from(n) * 5);
            (2 * n - 1..=2 * n).for_each(|n| bench.data(now, 0, n * MSS));
            let ack = TcpSegment { window: 60_000, ..plain(2 * n * MSS) };
            let went = bench.back(now, 0, ack, &[]);
            window = went.last().map_or(window, |tcp| u32::from(tcp.window) << 7);
        }
        assert!((least..=most).contains(&window), "{spec}: {window}");
    }
}
