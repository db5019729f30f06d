//! Deficit round robin: one bucket, byte for byte in turn, by weight.
//!
//! Source: RFC 8290, section 4.2, for the turns; the bucket is that of `aggregates`, section 4.3.

use serde::Deserialize;

use super::common::{CommonBucket, Order};
use super::{Allocation, Share};
use crate::meter::Profile;
use crate::packet::{Member, Ring, make_room};
use crate::{Bytes, Time};

/// No parameters.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn build(&self, profile: &Profile, now: Time) -> impl Allocation + use<> {
        CommonBucket::new(profile, Drr::default(), now)
    }
}

/// Who waits, and how much each may still send in its turn.
#[derive(Default)]
struct Drr {
    turns: Ring,
    credits: Vec<Credit>,
}

#[derive(Clone, Copy, Default)]
struct Credit {
    weight: u32,
    /// Bytes left of the turn; negative if the last packet was longer than that.
    bytes: i64,
}

/// Bytes a member of weight 1 may send in a turn: a full-size Ethernet frame.
const QUANTUM: i64 = 1_514;

impl Credit {
    fn quantum(self) -> i64 {
        QUANTUM * i64::from(self.weight)
    }
}

impl Order for Drr {
    fn join(&mut self, member: Member, share: Share) {
        make_room(&mut self.credits, member.index(), Credit::default());
        self.credits[member.index()].weight = share.weight.max(1);
    }

    fn wait(&mut self, member: Member) {
        if self.turns.push(member) {
            let credit = &mut self.credits[member.index()];
            credit.bytes = credit.quantum();
        }
    }

    fn first(&mut self) -> Option<Member> {
        loop {
            let member = self.turns.first()?;
            let credit = &mut self.credits[member.index()];
            if credit.bytes > 0 {
                return Some(member);
            }
            credit.bytes += credit.quantum();
            self.turns.rotate();
        }
    }

    fn served(&mut self, member: Member, len: Bytes) {
        self.credits[member.index()].bytes -= len.0.cast_signed();
    }

    fn done(&mut self, member: Member) {
        self.turns.remove(member);
    }

    fn leave(&mut self, member: Member) {
        self.turns.remove(member);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{AllWait, shares};
    use super::*;

    /// Kills: a turn that begins with what was left of the last one; ignoring the weight.
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
