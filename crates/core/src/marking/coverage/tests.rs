//! Tests of the marking `coverage`, which tracks the largest flows: its threshold, the tracked
//! flows, and the rate of other traffic. A marking marks packets before the queue overflows.

use proptest::prelude::*;

use super::super::memory::TrackedFlow;
use super::super::testing::TestQueue;
use super::*;
use crate::marking::{Marking, Tracked};
use crate::packet::{FlowId, Protocol};

const FRAME: u32 = 1_054;
const SECOND: Duration = Duration::from_secs(1);

fn new_queue(threshold: u32) -> TestQueue<Coverage> {
    let text = format!("tracker = \"paper\"\nthreshold = \"{threshold} B\"");
    let config: Config = toml::from_str(&text).unwrap();
    TestQueue::new(config.build(Random::new(1, 1)), Rate::from_mbps(8), Bytes(1 << 30))
}

fn is_tracked(queue: &TestQueue<Coverage>, flow: u32) -> bool {
    queue.marking.common.memory.find(FlowId(flow)).is_some()
}

/// Catches: factors other than 0.8 and 1.25; a threshold that rises although too few bytes are tracked, or falls although the
/// memory is full; a threshold beyond its bounds.
#[test]
fn the_threshold_follows_the_share_of_tracked_bytes() {
    assert_eq!(adapted(1_000, 79, 100, false), 800);
    assert_eq!(adapted(1_000, 80, 100, false), 1_000);
    assert_eq!(adapted(1_000, 90, 100, false), 1_000);
    assert_eq!(adapted(1_000, 91, 100, false), 1_251);
    assert_eq!(adapted(1_000, 10, 100, true), 1_251);
    assert_eq!(adapted(LEAST_THRESHOLD, 0, 100, false), LEAST_THRESHOLD);
    assert_eq!(adapted(u32::MAX / 2, 1, 1, false), u32::MAX / 2);
}

/// Ten flows send a kilobyte per second each, which is less than the threshold.
///
/// Catches: a new threshold that the filter does not use; bytes of the last interval that count in this interval.
#[test]
fn small_flows_are_tracked_once_the_threshold_has_fallen() {
    let mut queue = new_queue(6_000);
    let mut tracked = Vec::new();
    for _ in 0..12 {
        (0..10).for_each(|flow| queue.send(flow, FRAME, 1));
        tracked.push((0..10).filter(|flow| is_tracked(&queue, *flow)).count());
        queue.pass(SECOND);
    }
    // After eight intervals, the threshold of 6,000 bytes is multiplied by 0.8 to the power of 8: less than a frame.
    assert_eq!(tracked.iter().position(|tracked| *tracked == 10), Some(8), "{tracked:?}");
}

/// Catches: a flow that loses its tracker although it has sent the threshold, or keeps it with
/// fewer bytes; a flow that loses a tracker that it got late in the last interval.
///
/// Catches: packets of tracked flows that the filter counts; a small flow with a tracker throughout
/// the interval that is not counted as a false positive.
#[test]
fn flows_that_send_the_threshold_are_preserved() {
    let mut queue = new_queue(3_000);
    // With the other traffic, 85 % of the bytes are tracked, so the threshold is constant.
    queue.send(1, FRAME, 3);
    assert!(is_tracked(&queue, 1));
    queue.pass(SECOND);
    queue.send(1, FRAME, 1);
    assert!(is_tracked(&queue, 1), "it began in the last interval");
    queue.pass(SECOND);
    queue.send(1, FRAME, 1);
    assert!(!is_tracked(&queue, 1), "it sent one packet in the last interval");
    let Tracked { intervals, threshold, false_positives, .. } = queue.marking.tracked();
    assert_eq!((intervals, threshold, false_positives), (2, Bytes(2_400), 1));
    let mut other = new_queue(3_000);
    other.send(1, FRAME, 50);
    for _ in 0..9 {
        other.pass(SECOND);
        other.send(1, FRAME, 50);
        assert!(is_tracked(&other, 1));
        assert_eq!(other.marking.tracked().false_positives, 0);
    }
    other.pass(SECOND * 3);
    other.send(2, FRAME, 4_200);
    assert!(!is_tracked(&other, 1), "the cyclic search has found it");
}

/// A datagram flow sends 4 Mbit/s into a queue with a rate of 8 Mbit/s. After an interval, the
/// projection includes the rate of the datagrams.
///
/// Catches: untracked traffic that is not in the projection, or is multiplied by a factor; a rate measured over more than one
/// interval.
#[test]
fn untracked_traffic_counts_at_its_rate() {
    let mut queue = new_queue(2_000);
    for _ in 0..1_000 {
        queue.pass(Duration::from_millis(1));
        let packet = queue.datagram(7, 500, Protocol::UDP);
        queue.arrive(packet);
        queue.depart();
    }
    queue.send(1, FRAME, 2);
    let bps = queue.marking.untracked.bps();
    assert!((3_990_000..=4_010_000).contains(&bps), "{bps}");
    assert!(queue.marking.sums.all.bytes > 0);
    queue.pass(SECOND * 4);
    queue.send(1, FRAME, 1);
    let later = queue.marking.untracked.bps();
    assert!(later < 10_000, "{later}");
}

/// Catches: an idle flow that stays in the projection; a flow that sends again, but is not in the projection.
#[test]
fn idle_flows_are_not_projected() {
    let mut queue = new_queue(2_000);
    queue.send(1, FRAME, 4);
    assert!(queue.marking.sums.all.part().counts());
    queue.pass(Duration::from_millis(500));
    queue.send(2, FRAME, 1);
    assert!(!queue.marking.sums.all.part().counts());
    assert!(is_tracked(&queue, 1));
    queue.send(1, FRAME, 1);
    assert!(queue.marking.sums.all.part().counts());
}

/// Catches: more than 4,096 tracked flows; a full memory that does not raise the threshold.
#[test]
fn a_full_memory_raises_the_threshold() {
    let mut queue = new_queue(60);
    (0..5_000).for_each(|flow| queue.send(flow, FRAME, 1));
    assert_eq!((0..5_000).filter(|flow| is_tracked(&queue, *flow)).count(), MOST_FLOWS);
    let before = queue.marking.threshold;
    queue.pass(SECOND);
    queue.send(9_000, FRAME, 1);
    assert!(queue.marking.threshold > before);
}

proptest! {
    /// Catches: a mark, a removed flow, an idle flow or a forgotten flow that does not change the sums; a flow that sends the
    /// threshold within an interval, but gets no tracker; a search that continues although an older packet may be marked
    /// again.
    #[test]
    fn the_sums_are_those_over_the_tracked_flows(
        steps in prop::collection::vec((1u32..9, 1u32..5, 0u64..400, 0u8..8), 1..120),
    ) {
        let mut queue = new_queue(4_000);
        queue.limit = Bytes(20_000);
        let (mut sent, mut interval) = ([0; 10], 0);
        for (flow, count, pause, what) in steps {
            queue.pass(Duration::from_millis(pause));
            for _ in 0..count {
                let packet = queue.segment(flow, FRAME);
                queue.arrive(packet);
                if queue.marking.common.interval != interval {
                    (sent, interval) = ([0; 10], queue.marking.common.interval);
                }
                sent[usize::try_from(flow).unwrap()] += FRAME;
            }
            let threshold = queue.marking.threshold;
            prop_assert!(is_tracked(&queue, flow) || sent[usize::try_from(flow).unwrap()] < threshold);
            match what {
                0 => {
                    queue.marking.forget(FlowId(flow));
                    sent[usize::try_from(flow).unwrap()] = 0;
                }
                1 => (0..8).for_each(|_| queue.depart()),
                _ => queue.depart(),
            }
            let marking = &queue.marking;
            let mut sums = Accounts::default();
            for flow in 0..10 {
                let Some(entry) = marking.common.memory.find(FlowId(flow)) else { continue };
                let entry = marking.common.memory.get(entry);
                if entry.counted == IN_SUMS {
                    sums.add_flow(0, &entry.track.brief(), Time::ZERO);
                }
            }
            prop_assert_eq!(sums.all.part(), marking.sums.all.part());
            let markable = |entry: &TrackedFlow| entry.track.is_markable();
            prop_assert!(!marking.common.memory.has_missed(markable));
        }
    }
}

#[test]
fn a_filter_of_more_than_64_kib_is_refused() {
    let error = |text: &str| toml::from_str::<Config>(text).unwrap_err().to_string();
    assert!(error("stages = 5").contains("64 KiB"));
    assert!(error("threshold = \"0 B\"").contains("`threshold`"));
    let default = Config::default();
    assert_eq!(u64::from(default.stages * default.buckets), MOST_COUNTERS);
}
