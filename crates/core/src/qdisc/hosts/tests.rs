//! Tests of the queue `hosts`, which shares the rate between hosts, and the part of a host between its flows.

use super::super::testing::{Bench, chance};
use super::*;
use crate::packet::{TcpFlags, TcpSegment};
use crate::{Reason, Time};

const FULL: u32 = 1_514;

fn bench() -> Bench<HostFairQueue> {
    Bench::new(Config::default().build(None, chance()))
}

/// Keeps packets of some bulk flows waiting, and dequeues `packets`. `bulk` lists the host and the
/// flow index of each bulk flow. Returns the bytes that each flow sent.
fn serve(bench: &mut Bench<HostFairQueue>, bulk: &[(u32, u32)], packets: u32) -> Vec<u32> {
    let mut sent = vec![0; 128];
    bulk.iter().for_each(|(host, member)| {
        (0..3).for_each(|_| bench.enqueue_of(*host, *member, FULL));
    });
    for _ in 0..packets {
        let (member, len) = bench.dequeue().unwrap();
        sent[QueueIndex(member).index()] += len;
        if let Some((host, member)) = bulk.iter().find(|(_, it)| *it == member) {
            bench.enqueue_of(*host, *member, FULL);
        }
    }
    sent
}

/// Catches: a round robin of flows instead of hosts; a host that is served once for each of its
/// flows.
#[test]
fn a_host_has_an_equal_share_whatever_its_number_of_flows() {
    let mut bench = bench();
    let many: Vec<_> = (1..=60).map(|member| (1, member)).collect();
    let all = [&many[..], &[(2, 61), (2, 62), (3, 63)]].concat();
    let sent = serve(&mut bench, &all, 3_000);
    let of = |members: std::ops::Range<usize>| sent[members].iter().sum::<u32>();
    for members in [1..61, 61..63, 63..64] {
        assert!(of(members.clone()).abs_diff(1_000 * FULL) < 4 * FULL, "{members:?}: {sent:?}");
    }
    assert!(sent[61].abs_diff(sent[62]) < 3 * FULL, "the flows of one host: {sent:?}");
    assert!(sent[1..61].iter().all(|each| each.abs_diff(of(1..61) / 60) < 6 * FULL), "{sent:?}");
}

/// Catches: a new flow that waits until its host is served in the round robin; a new flow with
/// priority only over the bulk flows of its own host.
#[test]
fn a_new_flow_of_a_busy_host_departs_before_the_bulk_flows_of_all_hosts() {
    let mut bench = bench();
    let bulk: Vec<_> = (1..=8).map(|host| (host, host)).collect();
    serve(&mut bench, &bulk, 100);
    bench.enqueue_of(3, 50, 200);
    assert_eq!(bench.dequeue(), Some((50, 200)));
}

/// A new flow arrives as soon as the packet of the previous flow has departed, as from a host that
/// opens connections without end.
///
/// Catches: packets of new flows that are not charged to their host; an overdraft without a limit.
#[test]
fn a_host_with_only_new_flows_has_no_more_than_its_share() {
    let mut bench = bench();
    let (mut bulk, mut new) = (0, 0);
    (0..3).for_each(|_| bench.enqueue_of(1, 1, FULL));
    for flow in 0..4_000 {
        bench.enqueue_of(2, 10 + flow, 500);
        let (member, len) = bench.dequeue().unwrap();
        if member == 1 {
            bulk += len;
            bench.enqueue_of(1, 1, FULL);
        } else {
            new += len;
        }
    }
    assert!(bulk.abs_diff(new) < 6 * FULL, "{bulk} and {new}");
}

/// Catches: new flows of a host that starve the bulk flows of the same host.
#[test]
fn new_flows_leave_half_of_their_host_share_to_its_bulk_flows() {
    let mut bench = bench();
    let (mut bulk, mut new) = (0, 0);
    (0..3).for_each(|_| bench.enqueue_of(1, 1, FULL));
    for flow in 0..4_000 {
        bench.enqueue_of(1, 10 + flow, 500);
        match bench.dequeue().unwrap() {
            (1, len) => {
                bulk += len;
                bench.enqueue_of(1, 1, FULL);
            }
            (_, len) => new += len,
        }
    }
    assert!(bulk.abs_diff(new) < 8 * FULL, "{bulk} and {new}");
}

/// Catches: ACKs and new flows that count as "ahead" of other packets although no other packet
/// waited.
#[test]
fn acks_and_new_flows_keep_their_priority_after_a_time_without_other_packets() {
    let mut bench = bench();
    for number in 0..10_000 {
        bench.kind.tcp = Some(ack(number));
        bench.enqueue_of(1, 9, 60);
        assert!(bench.dequeue().is_some());
        bench.kind.tcp = None;
        bench.enqueue_of(1, 10 + number % 100, 200);
        assert!(bench.dequeue().is_some());
    }
    serve(&mut bench, &[(1, 1), (1, 2)], 30);
    for tcp in [Some(ack(10_001)), None] {
        bench.kind.tcp = tcp;
        bench.enqueue_of(1, if tcp.is_some() { 9 } else { 120 }, 300);
        let first = [(); 2].map(|()| bench.dequeue().unwrap().1);
        assert!(first.contains(&300), "{first:?}");
    }
}

/// RFC 8290, section 4.2, last paragraph (a new flow that becomes empty is an old flow), applied
/// within a host.
///
/// Catches: a data flow that stays new because its packets arrive just in time; a flow of ACKs that
/// loses its priority by this rule.
#[test]
fn data_that_arrives_just_in_time_does_not_stay_new_but_acks_keep_priority() {
    let mut bench = bench();
    let bulk = [(1, 1), (1, 2), (1, 3)];
    serve(&mut bench, &bulk, 30);
    let count = |bench: &mut Bench<HostFairQueue>| {
        let mut first = 0;
        for _ in 0..40 {
            bench.enqueue_of(1, 9, 60);
            first += u32::from(bench.dequeue().unwrap() == (9, 60));
            while bench.qdisc.bytes_of(QueueIndex(9)) > Bytes::ZERO {
                bench.dequeue();
            }
            bulk.iter().for_each(|(host, member)| {
                (0..3).for_each(|_| bench.enqueue_of(*host, *member, FULL));
            });
            bench.dequeue();
        }
        first
    };
    assert!(count(&mut bench) <= 24);
    bench.kind.tcp = Some(ack(1));
    let data = bench.kind;
    assert!(only_acknowledges(&data));
    let mut first = 0;
    for number in 0..40 {
        bench.kind.tcp = Some(ack(number));
        bench.enqueue_of(1, 9, 60);
        bench.kind.tcp = None;
        first += u32::from(bench.dequeue().unwrap() == (9, 60));
        bench.dequeue();
        bulk.iter().for_each(|(host, member)| bench.enqueue_of(*host, *member, FULL));
    }
    assert!(first >= 39, "{first}");
}

fn ack(number: u32) -> TcpSegment {
    let flags = TcpFlags(TcpFlags::ACK);
    TcpSegment { ack: number, flags, ..TcpSegment::default() }
}

/// Enqueues ACKs of one flow with `numbers`, waits for `millis`, and returns the numbers of the
/// ACKs that depart.
fn departs(
    bench: &mut Bench<HostFairQueue>,
    numbers: impl IntoIterator<Item = u32>,
    millis: u64,
) -> Vec<u32> {
    for number in numbers {
        bench.kind.tcp = Some(ack(number));
        bench.enqueue_of(1, 1, 60);
    }
    bench.now += Duration::from_millis(millis);
    std::iter::from_fn(|| bench.dequeue_whole()).map(|it| it.tcp.unwrap().ack).collect()
}

/// Catches: a limit of 3 or 5 ACKs instead of 4; a count that continues after a departed ACK; a
/// dropped first ACK of a flow.
/// Catches: a limit that also applies when ACKs have waited for long; dropped ACKs of an
/// ACK-controlled flow.
#[test]
fn at_most_four_acks_are_merged_unless_they_have_waited_for_long() {
    let mut bench = bench();
    assert_eq!(departs(&mut bench, 1..=2, 1), [1, 2]);
    assert_eq!(departs(&mut bench, 3..=13, 5), [6, 10, 13]);
    assert_eq!(bench.tally.drops.of(Reason::RedundantAck), 8);
    assert_eq!(bench.tally.drops.losses(), 0);
    assert_eq!(departs(&mut bench, 20..=60, 6), [60]);
    bench.keep_acks(1);
    assert_eq!(departs(&mut bench, 61..=70, 6), (61..=70).collect::<Vec<_>>());
    let off = Config { thin_acks: false, ..Config::default() };
    let mut bench = Bench::new(off.build(None, chance()));
    assert_eq!(departs(&mut bench, 0..10, 50), (0..10).collect::<Vec<_>>());
}

/// A full queue drops from the host with the largest backlog, although another host has the longest
/// flow queue.
///
/// Catches: drops from the longest flow queue of all hosts; drops from the host of the arriving
/// packet.
#[test]
fn a_full_queue_drops_from_the_host_with_the_largest_backlog() {
    let config = Config { limit: Bytes(40_000), ..Config::default() };
    let mut bench = Bench::new(config.build(None, chance()));
    (0..6).for_each(|_| bench.enqueue_of(1, 1, 1_500));
    (0..40).for_each(|flow| bench.enqueue_of(2, 10 + flow, 1_000));
    assert!(bench.tally.drops.of(Reason::QueueFull) > 0);
    assert_eq!(bench.qdisc.bytes_of(QueueIndex(1)), Bytes(9_000));
    bench.drain();
}

/// Catches: a flow that counts for the host of an earlier flow with the same index.
#[test]
fn a_reused_flow_index_is_charged_to_the_host_of_the_new_flow() {
    let mut bench = bench();
    bench.enqueue_of(1, 1, FULL);
    bench.dequeue();
    bench.enqueue_of(2, 1, FULL);
    assert_eq!(bench.qdisc.lines.flows[1].host, Host(2));
    (0..3).for_each(|_| bench.enqueue_of(1, 2, FULL));
    (0..3).for_each(|_| bench.enqueue_of(2, 1, FULL));
    assert_eq!(bench.drain().len(), 7);
    assert_eq!(bench.qdisc.lines.hosts[1].bytes, Bytes::ZERO);
    assert_eq!(Time::ZERO, bench.now);
}
