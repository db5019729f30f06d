//! Tests of unresponsive flows that become responsive again.

use crate::ack::testing::{Bench, FRAME, MSS, US};
use crate::packet::FlowIndex;
use crate::{Bytes, Rate, Time};

/// Catches: a lone flow that never becomes responsive again, because its own bytes count as those of other
/// flows.
/// Catches: ACKs held while the flow is unresponsive.
#[test]
fn a_lone_flow_is_responsive_again_once_it_sends_no_more_than_its_acks_request() {
    let mut bench = Bench::new("'postack'", 10);
    let (mut sent, mut at) = (0, US(0));
    assert_eq!(bench.ack(at, 0, 0).len(), 1);
    let takes = |kbps| Rate::from_kbps(kbps).time_for(Bytes(FRAME.into()));
    while at < Time::from_secs(1) {
        sent += 1;
        bench.data(at, 0, sent * MSS);
        at += takes(25_000);
    }
    assert!(!bench.control.responds(FlowIndex(0)));
    let mut acked = 0;
    let mut go = |until| {
        while at < Time::from_secs(until) {
            (sent, acked) = (sent + 1, acked + 1);
            bench.data(at, 0, sent * MSS);
            bench.queue.left += Bytes(FRAME.into());
            assert_eq!(bench.ack(at, 0, acked * MSS).len(), 1);
            at += takes(10_000);
            if bench.control.responds(FlowIndex(0)) {
                break;
            }
        }
        bench.control.responds(FlowIndex(0))
    };
    assert!(!go(3));
    assert!(go(8));
}

/// Catches: a flow that counts as unresponsive until its connection ends; an aggregate without a timer that
/// ends this.
#[test]
fn a_flow_whose_sender_stopped_is_no_longer_counted_as_unresponsive() {
    let mut bench = Bench::new("'postack'", 10);
    assert_eq!(bench.ack(US(0), 0, 0).len(), 1);
    (1..=2_000).for_each(|n| bench.data(US(u64::from(n) * 500), 0, n * MSS));
    assert_eq!(bench.control.unresponsive(), 1);
    bench.run_until(Time::from_secs(2));
    assert!(!bench.control.responds(FlowIndex(0)), "a second is no pause");
    bench.run_until(Time::from_secs(10));
    assert_eq!(bench.control.unresponsive(), 0);
    assert!(bench.control.responds(FlowIndex(0)));
}
