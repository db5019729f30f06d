//! Tests of the marking `heuristic`, which tracks the flows that passed a filter: lists of flows,
//! the factor `rho`, and the number of marks.
//!
//! The list `L_1` has the flows that passed the filter in this interval, and `L_0` those of the
//! last interval. `rho` is the number of all bytes divided by the bytes of the flows in `L_0`. The
//! *projection* is the predicted backlog.

use proptest::prelude::*;

use super::super::testing::TestQueue;
use super::*;
use crate::Packet;
use crate::marking::Marking;
use crate::packet::{FlowId, Protocol};

const FRAME: u32 = 1_054;

fn config(text: &str) -> Config {
    toml::from_str(&format!("tracker = \"paper\"\n{text}")).unwrap()
}

/// A queue with a rate of 8 Mbit/s. The filter passes a flow after its second packet, or slightly later.
fn queue(limit: u64) -> TestQueue<Heuristic> {
    let config = config("threshold = \"2 kB\"\nstages = 1\nbuckets = 4096\nrounds = \"next\"");
    TestQueue::new(config.build(Random::new(1, 1)), Rate::from_mbps(8), Bytes(limit))
}

const SECOND: Duration = Duration::from_secs(1);

fn in_lists(queue: &TestQueue<Heuristic>, flow: u32) -> (bool, bool) {
    let marking = &queue.marking;
    marking.common.memory.find(FlowId(flow)).map_or((false, false), |entry| {
        let Lists { now, last } = lists(marking.common.memory.get(entry), marking.common.interval);
        (now, last)
    })
}

/// Catches: flows of `L_1` in the projection; a flow that stays in `L_0` although it does not pass
/// the filter again; a flow that is removed from `L_0` although it passes again; a tracker that
/// begins again in each interval.
#[test]
fn lists_are_swapped_at_the_end_of_an_interval() {
    let mut queue = queue(1 << 30);
    queue.send(1, FRAME, 1);
    assert_eq!(in_lists(&queue, 1), (false, false));
    queue.send(1, FRAME, 1);
    assert_eq!(in_lists(&queue, 1), (true, false));
    queue.pass(SECOND);
    queue.send(1, FRAME, 1);
    assert_eq!(in_lists(&queue, 1), (false, true));
    let entry = queue.marking.common.memory.find(FlowId(1)).unwrap();
    let window =
        |queue: &TestQueue<Heuristic>| queue.marking.common.memory.get(entry).track.brief().window;
    queue.send(1, FRAME, 3);
    assert_eq!(in_lists(&queue, 1), (true, true));
    let tracked = window(&queue);
    queue.pass(SECOND);
    queue.send(2, FRAME, 1);
    assert_eq!((in_lists(&queue, 1), window(&queue)), ((false, true), tracked));
    queue.pass(SECOND);
    queue.send(2, FRAME, 1);
    assert_eq!(in_lists(&queue, 1), (false, false));
    // After a pause of two intervals, all lists are empty.
    queue.send(3, FRAME, 2);
    queue.pass(SECOND * 2);
    queue.send(2, FRAME, 1);
    assert_eq!(in_lists(&queue, 3), (false, false));
}

/// Flow 1 sends ten packets, two of them before it passes the filter. Flow 2 and a datagram do not pass.
///
/// Catches: a factor `rho` of the wrong interval; a factor that includes bytes of a flow before it
/// passed; a factor that counts bytes only in the interval in which a flow passed for the first
/// time.
#[test]
fn rho_is_evaluated_on_increments_after_the_swap() {
    let mut queue = queue(1 << 30);
    queue.send(1, FRAME, 10);
    queue.send(2, FRAME, 1);
    let other = queue.datagram(9, 500, Protocol::UDP);
    queue.arrive(other);
    queue.depart();
    assert_eq!(queue.marking.rho, Rho::ONE);
    queue.pass(SECOND);
    queue.send(1, FRAME, 5);
    // The packet with which the flow passed counts.
    assert_eq!(queue.marking.rho, Rho::new(11 * 1_054 + 500, 9 * 1_054));
    queue.send(2, FRAME, 1);
    queue.pass(SECOND);
    queue.send(1, FRAME, 1);
    assert_eq!(queue.marking.rho, Rho::new(6 * 1_054, 5 * 1_054));
    assert_eq!(Rho::new(5, 0), Rho::ONE);
}

/// Three flows in `L_0` have windows of three packets, and all their packets are in the queue.
///
/// In frames: `rho = 9 / 6`, `excess = 13 + rho * 3 * 4 - limit`, and the number of marks is `excess / (rho * (3 / 2 + 1))`.
///
/// Catches: the newest packets marked first; a flow that gets two marks; a number of marks that is
/// rounded down; marks although no overflow is projected.
#[test]
fn the_oldest_packets_are_marked_until_the_excess_is_compensated() {
    for (limit, marks) in [(31, 0), (30, 1), (28, 1), (27, 2), (24, 2), (23, 3), (1, 3)] {
        let mut queue = queue(1 << 30);
        queue.rate = Rate::from_bps(0);
        for flow in 1..4 {
            queue.send(flow, FRAME, 3);
        }
        queue.pass(SECOND);
        for round in 0..4 {
            for flow in [3, 1, 2] {
                let packet = queue.segment(flow, FRAME);
                queue.arrive(packet);
                assert!(queue.marked.is_empty(), "{round}");
            }
        }
        queue.limit = Bytes(limit * u64::from(FRAME));
        let packet = queue.datagram(9, FRAME, Protocol::UDP);
        queue.arrive(Packet { flow: FlowId::NONE, ..packet });
        assert_eq!(queue.marked, [3, 1, 2].map(FlowId)[..marks], "{limit}");
        // All flows have a mark in their round, and the datagram is not ECN-capable.
        let before = queue.marked.len();
        queue.limit = Bytes(1);
        let packet = queue.datagram(9, FRAME, Protocol::UDP);
        queue.arrive(Packet { flow: FlowId::NONE, ..packet });
        let packet = queue.datagram(9, FRAME, Protocol::UDP);
        queue.arrive(Packet { flow: FlowId::NONE, ..packet });
        assert_eq!(queue.marked.len(), 3, "{limit} {before}");
        assert!(queue.dropped >= 1);
    }
}

proptest! {
    /// Catches: a change of a tracker, or a removed flow, that does not change the sums; a search
    /// that continues although an older packet may be marked again; false positives that include
    /// flows without a whole interval; a flow that counts twice, or still counts after it was
    /// forgotten.
    #[test]
    fn the_sums_are_those_over_the_lists(
        steps in prop::collection::vec((1u32..9, 1u32..5, 0u64..400, 0u8..8), 1..120),
    ) {
        let mut queue = queue(20_000);
        let mut sent = [0; 10];
        for (flow, count, pause, what) in steps {
            queue.pass(Duration::from_millis(pause));
            for _ in 0..count {
                let packet = queue.segment(flow, FRAME);
                let intervals = queue.marking.tracked().intervals;
                let whole = (0..10).filter(|flow| in_lists(&queue, *flow).1);
                let small = whole.filter(|flow| sent[usize::try_from(*flow).unwrap()] < 2_000).count();
                queue.arrive(packet);
                let report = queue.marking.tracked();
                if report.intervals == intervals + 1 {
                    prop_assert_eq!(report.false_positives, u64::try_from(small).unwrap());
                }
                if report.intervals != intervals {
                    sent = [0; 10];
                }
                sent[usize::try_from(flow).unwrap()] += FRAME;
            }
            match what {
                0 => {
                    queue.marking.forget(FlowId(flow));
                    sent[usize::try_from(flow).unwrap()] = 0;
                }
                1 => (0..8).for_each(|_| queue.depart()),
                _ => queue.depart(),
            }
            let marking = &queue.marking;
            let [mut now, mut last] = [Accounts::new(ProjectedRounds::Next), Accounts::new(ProjectedRounds::Next)];
            for flow in 0..10 {
                let Some(entry) = marking.common.memory.find(FlowId(flow)) else { continue };
                let entry = marking.common.memory.get(entry);
                let flow = entry.track.brief();
                let lists = lists(entry, marking.common.interval);
                if lists.now {
                    now.add_flow(0, &flow, Time::ZERO);
                }
                if lists.last {
                    last.add_flow(0, &flow, Time::ZERO);
                }
            }
            let of = |one, two| Projected(one, Some(two)).all().part();
            prop_assert_eq!(now.all.part(), of(&marking.fresh, &marking.both));
            prop_assert_eq!(last.all.part(), of(&marking.stale, &marking.both));
            let missed = marking.common.memory.has_missed(|entry| {
                lists(entry, marking.common.interval).last && entry.track.is_markable()
            });
            prop_assert!(!missed);
        }
    }
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let error = |text: &str| {
        toml::from_str::<Config>(&format!("tracker = \"paper\"\n{text}")).unwrap_err().to_string()
    };
    assert!(error("interval = \"0 s\"").contains("write for example \"1 s\""));
    assert!(error("threshold = \"0 B\"").contains("12500 B"));
    assert!(error("stages = 0").contains("write for example 3"));
    assert!(error("buckets = 0").contains("write for example 8"));
    assert!(error("k = 0").contains("`k`"));
    assert_eq!(config("").threshold, Bytes(12_500));
}
