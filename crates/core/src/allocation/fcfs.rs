//! First come, first served: one bucket, the flow that became non-compliant first goes first.
//!
//! A flow that has more to send after its turn becomes non-compliant anew, and waits behind those
//! that already do.
//!
//! Source: `aggregates`, section 4.3 (ledger 7.2).

use serde::Deserialize;

use super::common::{CommonBucket, Order};
use super::{Allocation, Share};
use crate::meter::Profile;
use crate::packet::{Member, Ring};
use crate::{Bytes, Time};

/// No parameters.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn build(&self, profile: &Profile, now: Time) -> impl Allocation + use<> {
        CommonBucket::new(profile, Fcfs::default(), now)
    }
}

/// Who waits, in the order in which they began to.
#[derive(Default)]
struct Fcfs(Ring);

impl Order for Fcfs {
    fn join(&mut self, _member: Member, _share: Share) {}

    fn wait(&mut self, member: Member) {
        self.0.push(member);
    }

    fn first(&mut self) -> Option<Member> {
        self.0.first()
    }

    fn served(&mut self, member: Member, _len: Bytes) {
        if self.0.first() == Some(member) {
            self.0.rotate();
        }
    }

    fn done(&mut self, _member: Member) {
        self.0.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{AllWait, shares};
    use super::*;

    #[test]
    fn packet_for_packet_in_turn_so_that_longer_packets_get_more() {
        let mut all = AllWait::new([500, 1_500]);
        let sent = shares(|profile| Config {}.build(profile, Time::ZERO), &mut all, [1, 1]);
        assert!(sent[0].abs_diff(sent[1] / 3) <= 1_500, "{sent:?}");
    }
}
