//! Tests of ACKs that a SYN has stopped.

use super::{EVERY, MSS, sent};
use crate::Time;
use crate::ack::testing::US;
use crate::packet::FlowIndex;

/// A SYN may stop the ACKs of a flow, and the first of them may be due before they resume.
///
/// Catches: departure times that are forgotten while ACKs are stopped, so that all depart at once.
#[test]
fn stopped_acks_keep_their_departure_times() {
    for spec in &EVERY[1..3] {
        let mut bench = sent(spec, 60);
        bench.fill(US(0), true);
        let held = (1..=60).filter(|n| bench.ack(US(1_000), 0, n * MSS).is_empty()).count();
        bench.control.stop(US(2_000), FlowIndex(0));
        assert!(bench.run_until(US(20_000)).is_empty(), "{spec}");
        bench.resume(US(20_000), 0);
        let at_once = bench.serve(US(20_000)).len();
        // 10 Mbit/s carry 17 segments in 20 ms.
        assert!(held > 30 && at_once < 20, "{spec}: {at_once} of {held}");
        bench.run_until(Time::from_secs(2));
        assert_eq!(bench.control.counts().held, 0, "{spec}");
    }
}
