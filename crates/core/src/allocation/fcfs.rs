//! First come, first served: one bucket for all flows. The flow that began to wait first sends next.
//!
//! A flow sends one packet. If it has more packets, it goes to the end of the line.
//!
//! Source: `aggregates`, section 4.3 (ledger 7.2).

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

/// The waiting members, in the order of waiting.
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
    use super::super::{Grant, Heads, Turn};
    use super::*;
    use crate::Rate;

    /// Waiting packets of 1,000 bytes, by member.
    struct Waiting([u32; 3]);

    impl Heads for Waiting {
        fn head(&self, member: FlowIndex) -> Option<Bytes> {
            (self.0[member.index()] > 0).then_some(Bytes(1_000))
        }
    }

    /// Catches: a flow without packets that stays in line; a flow that leaves and keeps its position.
    #[test]
    fn who_has_sent_all_it_had_or_has_left_comes_back_at_the_end_of_the_line() {
        let profile = Profile::new(Rate::from_mbps(8), None, Bytes(1_000), Bytes(1_000)).unwrap();
        let mut fcfs = Config {}.build(&profile, Time::ZERO);
        let share = Share { weight: 1, rtt: None };
        (0..3).for_each(|member| fcfs.join(Time::ZERO, FlowIndex(member), share));
        for leaves in [false, true] {
            let at = Time::from_millis(10 + u64::from(leaves) * 10);
            let mut waiting = Waiting([1, 9, 0]);
            [0, 1].into_iter().for_each(|member| fcfs.wait(at, FlowIndex(member)));
            let grant =
                |member| Turn::Grant(Grant { flow: FlowIndex(member), bytes: Bytes(1_000) });
            assert_eq!(fcfs.grant(at, &waiting), grant(0));
            waiting.0[0] = 0;
            if leaves {
                fcfs.leave(at, FlowIndex(0));
                fcfs.join(at, FlowIndex(0), share);
            } else {
                assert!(matches!(fcfs.grant(at, &waiting), Turn::At(_)));
            }
            waiting.0 = [1, 9, 1];
            [2, 0].into_iter().for_each(|member| fcfs.wait(at, FlowIndex(member)));
            for (later, member) in (1..).zip([1, 2, 0]) {
                assert_eq!(fcfs.grant(at + Duration::from_millis(later), &waiting), grant(member));
            }
            waiting.0 = [0; 3];
            assert_eq!(fcfs.grant(at, &waiting), Turn::Idle);
        }
    }

    #[test]
    fn packet_for_packet_in_turn_so_that_longer_packets_get_more() {
        let mut all = AllWait::new([500, 1_500]);
        let sent = shares(|profile| Config {}.build(profile, Time::ZERO), &mut all, [1, 1]);
        assert!(sent[0].abs_diff(sent[1] / 3) <= 1_500, "{sent:?}");
    }
}
