//! Deficit round robin: one bucket for all flows. Flows take turns, and send bytes in proportion to
//! their weights.
//!
//! Source: RFC 8290, section 4.2 (turns); `aggregates`, section 4.3 (bucket).

use super::common::{CommonBucket, Order};
use super::{Allocation, Share};
use crate::meter::Profile;
use crate::packet::{DeficitRoundRobin, First, FlowIndex, make_room};
use crate::{Bytes, Time, parameters};

parameters! {
    /// No parameters.
    pub Config {}
}

impl Config {
    pub(super) fn build(&self, profile: &Profile, now: Time) -> impl Allocation + use<> {
        CommonBucket::new(profile, Drr::default(), now)
    }
}

/// The waiting members (flows with packets), and the weights of all members.
#[derive(Default)]
struct Drr {
    robin: DeficitRoundRobin<FlowIndex>,
    waiting: First<FlowIndex>,
    weights: Vec<u32>,
}

/// Bytes that a member of weight 1 may send in a turn: a full-size Ethernet frame.
const QUANTUM: i64 = 1_514;

fn quantum(weights: &[u32], member: FlowIndex) -> i64 {
    QUANTUM * i64::from(weights[member.index()])
}

impl Order for Drr {
    fn join(&mut self, member: FlowIndex, share: Share) {
        make_room(&mut self.weights, member.index(), 0);
        self.weights[member.index()] = share.weight.max(1);
    }

    fn wait(&mut self, member: FlowIndex) {
        self.robin.join(&mut self.waiting, member, quantum(&self.weights, member));
    }

    fn first(&mut self) -> Option<FlowIndex> {
        let weights = &self.weights;
        self.robin.next(&mut self.waiting, |member| quantum(weights, member))
    }

    fn served(&mut self, member: FlowIndex, len: Bytes) {
        self.robin.charge(member, len.0.cast_signed());
    }

    fn done(&mut self, member: FlowIndex) {
        self.robin.remove(&mut self.waiting, member);
    }

    fn leave(&mut self, member: FlowIndex) {
        self.robin.remove(&mut self.waiting, member);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{AllWait, shares};
    use super::*;

    /// Catches: a turn that begins without a new quantum; weights that are ignored.
    #[test]
    fn bytes_are_shared_by_weight_whatever_the_size_of_the_packets() {
        let mut all = AllWait::new([100, 1_514, 700]);
        let sent = shares(|profile| Config {}.build(profile, Time::ZERO), &mut all, [1, 2, 3]);
        for (nth, weight) in [(0, 1), (1, 2), (2, 3)] {
            let fair = sent.iter().sum::<u64>() * weight / 6;
            assert!(sent[nth].abs_diff(fair) < 6_000, "{sent:?}: {nth} should have {fair}");
        }
    }
}
