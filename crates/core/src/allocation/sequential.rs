//! Sequential: one bucket; flows are served in the order of their list.
//!
//! The first flow with waiting packets gets all tokens until none of its packets waits. The other
//! flows get the remaining tokens.
//!
//! Source: `aggregates`, section 4.3 (one bucket for all flows, in the order of their list).
//! Differs: a new flow takes the list position of a flow that has ended, if there is such a
//! position. The paper does not define the position of a new flow.

use super::bits::Bits;
use super::common::{CommonBucket, Order};
use super::{Allocation, Share};
use crate::meter::Profile;
use crate::packet::{FlowIndex, number};
use crate::{Bytes, Time, parameters};

parameters! {
    /// No parameters.
    pub Config {}
}

impl Config {
    pub(super) fn build(&self, profile: &Profile, now: Time) -> impl Allocation + use<> {
        CommonBucket::new(profile, Sequential::default(), now)
    }
}

/// The waiting members, by index.
#[derive(Default)]
struct Sequential(Bits);

impl Order for Sequential {
    fn join(&mut self, _member: FlowIndex, _share: Share) {}

    fn wait(&mut self, member: FlowIndex) {
        self.0.insert(member.index());
    }

    fn first(&mut self) -> Option<FlowIndex> {
        self.0.first().map(number).map(FlowIndex)
    }

    fn served(&mut self, _member: FlowIndex, _len: Bytes) {}

    fn done(&mut self, member: FlowIndex) {
        self.0.remove(member.index());
    }

    fn remove(&mut self, member: FlowIndex) {
        self.0.remove(member.index());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{AllWait, shares};
    use super::*;

    #[test]
    fn the_first_flow_of_the_list_gets_all_tokens_that_it_can_use() {
        let mut all = AllWait::new([1_000; 4]);
        let sent = shares(|profile| Config {}.build(profile, Time::ZERO), &mut all, [1; 4]);
        assert_eq!(sent[1..], [0, 0, 0]);
    }

    #[test]
    fn a_flow_with_new_packets_is_served_before_the_flows_after_it_in_the_list() {
        let mut order = Sequential::default();
        [2, 1].into_iter().for_each(|member| order.wait(FlowIndex(member)));
        assert_eq!(order.first(), Some(FlowIndex(1)));
        order.done(FlowIndex(1));
        order.wait(FlowIndex(0));
        assert_eq!(order.first(), Some(FlowIndex(0)));
    }
}
