//! The flows that are members of an aggregate, numbered densely.

use std::time::Duration;

use tidegate_core::allocation::Share;
use tidegate_core::packet::{FlowIndex, make_room, number};

/// Members and their shares; indices are used again.
#[derive(Debug, Default)]
pub(super) struct Members {
    known: Vec<MemberShare>,
    free: Vec<FlowIndex>,
}

#[derive(Clone, Copy, Debug)]
struct MemberShare {
    /// Zero for a free index.
    weight: u32,
    /// Zero until measured, limited to about an hour.
    rtt_micros: u32,
}

const FREE: MemberShare = MemberShare { weight: 0, rtt_micros: 0 };

impl Members {
    pub(super) fn join(&mut self, share: Share) -> FlowIndex {
        let next = FlowIndex(number(self.known.len()));
        let member = self.free.pop().unwrap_or(next);
        make_room(&mut self.known, member.index(), FREE);
        let weight = share.weight.max(1);
        self.known[member.index()] = MemberShare { weight, rtt_micros: micros(share.rtt) };
        member
    }

    pub(super) fn leave(&mut self, member: FlowIndex) {
        self.known[member.index()] = FREE;
        self.free.push(member);
    }

    /// Stores `share`. Returns true if it differs enough to matter: another weight, or a round-trip
    /// time that changed by an eighth.
    pub(super) fn update(&mut self, member: FlowIndex, share: Share) -> bool {
        let known = &mut self.known[member.index()];
        let rtt = micros(share.rtt);
        let matters =
            share.weight != known.weight || rtt.abs_diff(known.rtt_micros) > known.rtt_micros / 8;
        if matters {
            known.weight = share.weight;
            known.rtt_micros = rtt;
        }
        matters
    }

    pub(super) fn share(&self, member: FlowIndex) -> Share {
        let MemberShare { weight, rtt_micros, .. } = self.known[member.index()];
        let rtt = (rtt_micros > 0).then(|| Duration::from_micros(rtt_micros.into()));
        Share { weight, rtt }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (FlowIndex, Share)> {
        let members = (0..).map(FlowIndex).zip(&self.known);
        members
            .filter(|(_, known)| known.weight != FREE.weight)
            .map(|(member, _)| (member, self.share(member)))
    }

    /// Upper bound of the indices of all members.
    pub(super) fn numbers(&self) -> u32 {
        number(self.known.len())
    }

    pub(super) fn count(&self) -> u32 {
        number(self.known.len() - self.free.len())
    }
}

fn micros(rtt: Option<Duration>) -> u32 {
    rtt.map_or(0, |rtt| u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_stay_dense() {
        let share = Share { weight: 1, rtt: None };
        let mut members = Members::default();
        let all: Vec<_> = (0..3).map(|_| members.join(share)).collect();
        members.leave(all[1]);
        assert_eq!(members.iter().map(|(member, _)| member).collect::<Vec<_>>(), [all[0], all[2]]);
        assert_eq!(members.join(share), all[1]);
        assert_eq!(members.count(), 3);
    }

    #[test]
    fn only_changes_that_matter_are_passed_on() {
        let share = |ms| Share { weight: 1, rtt: Some(Duration::from_millis(ms)) };
        let mut members = Members::default();
        let member = members.join(Share { weight: 1, rtt: None });
        assert!(members.update(member, share(80)));
        assert!(!members.update(member, share(85)));
        assert!(members.update(member, share(95)));
        assert!(members.update(member, Share { weight: 2, ..share(95) }));
    }
}
