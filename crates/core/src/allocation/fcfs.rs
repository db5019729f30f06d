//! First come, first served: one bucket for all flows. The flow that began to wait first sends next.
//!
//! A flow sends one packet. If it has more packets, it waits again, behind all other waiting flows.
//!
//! Source: `aggregates`, section 4.3 (one bucket for all flows, in the order of waiting).

use super::common::{CommonBucket, Order};
use super::{Allocation, Share};
use crate::meter::Profile;
use crate::packet::{FlowIndex, Ring};
use crate::{Bytes, Time, parameters};

parameters! {
    /// No parameters.
    pub Config {}
}

impl Config {
    pub(super) fn build(&self, profile: &Profile, now: Time) -> impl Allocation + use<> {
        CommonBucket::new(profile, Fcfs::default(), now)
    }
}

/// The waiting members (flows with packets), in the order in which they began to wait.
#[derive(Default)]
struct Fcfs(Ring<FlowIndex>);

impl Order for Fcfs {
    fn join(&mut self, _member: FlowIndex, _share: Share) {}

    fn wait(&mut self, member: FlowIndex) {
        self.0.push(member);
    }

    fn first(&mut self) -> Option<FlowIndex> {
        self.0.first()
    }

    fn served(&mut self, member: FlowIndex, _len: Bytes) {
        if self.0.first() == Some(member) {
            self.0.rotate();
        }
    }

    fn done(&mut self, member: FlowIndex) {
        self.0.remove(member);
    }

    fn emptied(&mut self, member: FlowIndex) {
        self.0.remove(member);
    }

    fn leave(&mut self, member: FlowIndex) {
        self.0.remove(member);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{AllWait, shares};
    use super::super::{Grant, Heads, NextGrant};
    use super::*;
    use crate::Rate;

    /// Waiting packets of 1,000 bytes, by member.
    struct Waiting([u32; 3]);

    impl Heads for Waiting {
        fn head(&self, member: FlowIndex) -> Option<Bytes> {
            (self.0[member.index()] > 0).then_some(Bytes(1_000))
        }
    }

    /// Catches: a flow without packets that keeps its position; a removed flow whose position is
    /// kept for its successor.
    #[test]
    fn a_flow_that_was_empty_or_removed_waits_behind_all_other_flows() {
        let profile = Profile::new(Rate::from_mbps(8), None, Bytes(1_000), Bytes(1_000)).unwrap();
        let mut fcfs = Config {}.build(&profile, Time::ZERO);
        let share = Share { weight: 1, rtt: None };
        (0..3).for_each(|member| fcfs.join(Time::ZERO, FlowIndex(member), share));
        for leaves in [false, true] {
            let at = Time::from_millis(10 + u64::from(leaves) * 10);
            let mut waiting = Waiting([1, 9, 0]);
            [0, 1].into_iter().for_each(|member| fcfs.wait(at, FlowIndex(member)));
            let grant =
                |member| NextGrant::Grant(Grant { flow: FlowIndex(member), bytes: Bytes(1_000) });
            assert_eq!(fcfs.grant(at, &waiting), grant(0));
            waiting.0[0] = 0;
            if leaves {
                fcfs.leave(at, FlowIndex(0));
                fcfs.join(at, FlowIndex(0), share);
            } else {
                assert!(matches!(fcfs.grant(at, &waiting), NextGrant::At(_)));
            }
            waiting.0 = [1, 9, 1];
            [2, 0].into_iter().for_each(|member| fcfs.wait(at, FlowIndex(member)));
            for (later, member) in (1..).zip([1, 2, 0]) {
                assert_eq!(fcfs.grant(at + Duration::from_millis(later), &waiting), grant(member));
            }
            waiting.0 = [0; 3];
            assert_eq!(fcfs.grant(at, &waiting), NextGrant::Idle);
        }
    }

    #[test]
    fn each_flow_sends_one_packet_per_turn_so_longer_packets_get_more_bytes() {
        let mut all = AllWait::new([500, 1_500]);
        let sent = shares(|profile| Config {}.build(profile, Time::ZERO), &mut all, [1, 1]);
        assert!(sent[0].abs_diff(sent[1] / 3) <= 1_500, "{sent:?}");
    }
}
