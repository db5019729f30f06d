//! Tests of timers: each held ACK has a timer, however few buffers are free.

use std::time::Duration;

use proptest::prelude::*;

use super::{EVERY, MSS, sent};
use crate::Time;
use crate::ack::testing::{Bench, US, plain};
use crate::packet::FlowIndex;

const MEMBERS: u32 = 3;

/// An event of a flow.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The sender sends `segments`, and one ACK of `acked` segments returns.
    Round { member: u32, segments: u32, acked: u32 },
    /// Only this many buffers are free from now on.
    Free(usize),
    /// Microseconds pass.
    Passes(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let segments = (0_u32..30, 1_u32..30);
    prop_oneof![
        4 => (0..MEMBERS, segments).prop_map(|(member, (segments, acked))| {
            Event::Round { member, segments, acked }
        }),
        1 => (1_usize..12).prop_map(Event::Free),
        1 => (0_u64..20_000).prop_map(Event::Passes),
    ]
}

/// Sent and acknowledged segments of a flow.
#[derive(Clone, Copy, Default)]
struct Sent {
    sent: u32,
    acked: u32,
}

fn round(bench: &mut Bench, now: Time, member: u32, flow: &mut Sent, (sent, acked): (u32, u32)) {
    for _ in 0..sent {
        flow.sent += 1;
        bench.data(now, member, flow.sent * MSS);
    }
    flow.acked = (flow.acked + acked).min(flow.sent);
    bench.known.sent = Some(flow.sent * MSS);
    bench.back(now, member, plain(flow.acked * MSS), &[]);
}

#[test]
fn nothing_is_held_for_longer_than_the_bound() {
    let mut bench = sent(r#"{ kind = "postack", max_hold = "100 ms" }"#, 40);
    bench.fill(US(0), true);
    (1..=10).for_each(|n| assert!(bench.ack(US(1_000 * u64::from(n)), 0, 2 * n * MSS).is_empty()));
    let went = bench.run_until(US(1_000_000));
    assert_eq!(went.len(), 10);
    for (n, (at, tcp)) in (1..).zip(&went) {
        assert_eq!(tcp.ack, 2 * n * MSS);
        let held = at.since(US(1_000 * u64::from(n)));
        assert!(held < Duration::from_millis(104), "{n}: {held:?}");
    }
    assert_eq!(bench.control.counts().overdue, 10);
}

/// Catches: overdue ACKs of a flow that depart together, or later than the sender's timer allows if the share
/// is small.
/// Catches: duplicates that wait for ACKs; ACKs that wait for longer than `max_hold`.
#[test]
fn overdue_acks_of_a_flow_depart_at_its_share_while_the_timer_of_its_sender_permits() {
    // A frame takes 1.2 ms at 10 Mbit/s. The way takes 50.2 ms, and holds add an eighth of theirs.
    for (members, pause) in [(1, 1_211), (20, 24_224), (100, 50_200)] {
        let mut bench = Bench::new(r#"{ kind = "postack", max_hold = "200 ms" }"#, 10);
        bench.queue.passes = true;
        bench.fill(US(0), true);
        for member in 0..members {
            let end = |n: u32| (member << 24) + n * MSS;
            (0..=7).for_each(|n| bench.data(US(0), member, end(n)));
            (0..=4).for_each(|n| drop(bench.ack(US(1), member, end(n))));
            (0..3).for_each(|_| assert!(bench.ack(US(2), member, end(4)).is_empty()));
        }
        let went = bench.run_until(US(1_000_000));
        let of_first = went.iter().filter(|(_, tcp)| tcp.ack >> 24 == 0);
        let went: Vec<_> = of_first.map(|(at, tcp)| (*at, tcp.ack / MSS)).collect();
        let numbers: Vec<_> = went.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 4, 4, 4]);
        for pair in went.windows(2) {
            let ((first, before), (second, number)) = (pair[0], pair[1]);
            let apart = second.since(first);
            let least = if number > before { Duration::from_micros(pause) } else { Duration::ZERO };
            assert!(apart >= least || second >= US(200_000), "{members}: {apart:?} to {number}");
            assert!(apart < Duration::from_millis(75), "{members}: {apart:?} to {number}");
        }
        // Duplicates restart no timer.
        let apart = went[6].0.since(went[4].0);
        assert!(apart < Duration::from_millis(50), "{members}: {apart:?}");
        assert!(went[6].0 <= US(205_000), "{members}: {:?}", went[6]);
    }
}

/// Catches: an aggregate without a share of its egress between the data and its ACK; a share that does not end, or
/// that ends without a timer.
#[test]
fn an_aggregate_has_a_share_of_its_egress_until_its_last_flow_is_inactive() {
    let mut bench = sent(EVERY[0], 2);
    bench.serve(US(1));
    let mut share = |ms| {
        bench.run_until(Time::from_millis(ms));
        bench.account.rate
    };
    // Intervals of a second. The first packet came in the first of them.
    assert_eq!([10, 999, 1_999].map(&mut share), [10_000_000; 3]);
    assert_eq!(share(2_000), 0);
    assert_eq!(bench.control.ready_at(), None);
    // The share of a flow that leaves ends at once.
    bench.data(Time::from_millis(2_100), 0, 3 * MSS);
    bench.serve(Time::from_millis(2_101));
    assert_eq!(bench.account.rate, 10_000_000);
    bench.control.leave(FlowIndex(0));
    bench.run_until(Time::from_millis(2_102));
    assert_eq!((bench.account.rate, bench.control.ready_at()), (0, None));
}

/// Catches: no timer for the remainder of an ACK whose first step departs because buffers are scarce.
#[test]
fn the_remainder_of_an_ack_that_departs_by_a_step_as_buffers_are_scarce_has_a_timer() {
    for spec in EVERY {
        let mut bench = Bench::with_buffers(spec, 10, 64);
        round(&mut bench, US(0), 0, &mut Sent::default(), (0, 0));
        bench.fill(US(0), true);
        bench.leave_free(4);
        round(&mut bench, US(1), 0, &mut Sent::default(), (40, 40));
        let rest = bench.run_until(Time::from_secs(10));
        assert_eq!(bench.control.counts().held, 0, "{spec}: {} departed", rest.len());
    }
}

proptest! {
    /// Catches: a held ACK without a timer, for several flows with ACKs of any length and any number of free
    /// buffers.
    #[test]
    fn each_held_ack_has_a_timer_however_few_buffers_are_free(
        which in 0_usize..EVERY.len(),
        buffers in prop_oneof![8_u32..64, Just(256_u32), Just(4_096_u32)],
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut bench = Bench::with_buffers(EVERY[which], 10, buffers);
        let (mut flows, mut now) = ([Sent::default(); 3], US(0));
        (0..MEMBERS).for_each(|member| round(&mut bench, now, member, &mut Sent::default(), (0, 0)));
        bench.fill(now, true);
        for event in events {
            match event {
                Event::Round { member, segments, acked } => {
                    let flow = flows.get_mut(usize::try_from(member).unwrap()).unwrap();
                    if bench.pool.in_use() < buffers {
                        round(&mut bench, now, member, flow, (segments, acked));
                    }
                }
                Event::Free(free) => bench.leave_free(free),
                Event::Passes(us) => {
                    now += Duration::from_micros(us);
                    bench.run_until(now);
                }
            }
            let held = bench.control.counts().held;
            prop_assert!(held == 0 || bench.control.ready_at().is_some(), "{held} without a timer");
        }
        // The queue stays full: only timers release.
        bench.run_until(now + Duration::from_secs(100));
        prop_assert_eq!(bench.control.counts().held, 0);
    }
}
