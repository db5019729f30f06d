//! Deficit round robin: members share a link in proportion to their quanta, whatever the length of
//! their packets.
//!
//! Each member has a credit in bytes, which the paper calls its deficit counter. Members stand in a ring:
//!
//! ```text
//! turn of member i:    credit[i] += quantum[i]
//! packet of member i:  credit[i] -= length
//! the turn ends when the credit does not cover the next packet; member i then goes to the end of the ring
//! ```
//!
//! While two members always have packets, the bytes that they have sent differ from the ratio of
//! their quanta by less than a quantum and a packet each. If a quantum is at least the longest
//! packet, every turn sends a packet, so the next packet is found in constant time.
//!
//! Two forms of "the credit covers the packet" are in use:
//!
//! - [`next`](DeficitRoundRobin::next): any positive credit covers a packet of any length. The length need not be known
//!   before the packet departs. Credit may become negative. At the end of its turn, a member gets
//!   the quantum for its next turn.
//! - [`covers`](DeficitRoundRobin::covers): the credit is at least the length of the packet. Credit is never negative.
//!   The quantum is added in the turn, and only if the credit of the member is too small without it.
//!
//! Source: Shreedhar and Varghese, "Efficient fair queuing using deficit round robin" (SIGCOMM
//! 1995), section 3, for `covers`; RFC 8290, section 4.2, for `next`. RFC 8290 serves a list of new
//! flows before a list of old flows: a new flow whose credit is used up
//! [`refills`](DeficitRoundRobin::refills) it and moves to the end of the old flows.

use super::{First, Index, Links, make_room, slot};

/// Links of members in rings, and the credit of each member. The caller stores the [`First`] of each ring.
///
/// A member is in at most one ring.
#[derive(Clone, Debug)]
pub struct DeficitRoundRobin<I> {
    links: Links<I>,
    /// Bytes that each member may still send in its turn. Negative if the member sent more.
    credits: Vec<i64>,
}

/// A ring whose members use [`covers`](DeficitRoundRobin::covers).
#[derive(Clone, Copy, Debug)]
pub struct Round<I> {
    ring: First<I>,
    /// The first member has received the quantum of its present turn.
    paid: bool,
}

impl<I: Index> Default for Round<I> {
    fn default() -> Self {
        Self { ring: First::NOBODY, paid: false }
    }
}

impl<I: Index> Round<I> {
    /// The member whose turn it is.
    #[inline]
    pub fn member(self) -> Option<I> {
        self.ring.member()
    }
}

impl<I> Default for DeficitRoundRobin<I> {
    fn default() -> Self {
        Self { links: Links::default(), credits: Vec::new() }
    }
}

impl<I: Index> DeficitRoundRobin<I> {
    /// Appends `member` with a credit of `quantum` to `ring`, unless the member is in a ring. Returns `true` if it was
    /// appended.
    #[inline]
    pub fn join(&mut self, ring: &mut First<I>, member: I, quantum: i64) -> bool {
        let joined = self.links.push(ring, member);
        if joined {
            make_room(&mut self.credits, slot(member.number()), 0);
            self.credits[slot(member.number())] = quantum;
        }
        joined
    }

    /// The next member of `ring` with credit. Each member without credit before it gets its
    /// `quantum` and goes to the end.
    #[inline]
    pub fn next(&mut self, ring: &mut First<I>, quantum: impl Fn(I) -> i64) -> Option<I> {
        loop {
            let member = ring.member()?;
            if !self.skip_spent(ring, &quantum) {
                return Some(member);
            }
        }
    }

    /// Returns `true` if the first member of `ring` had no credit. The member has then received its `quantum` and is at
    /// the end of the ring.
    #[inline]
    pub fn skip_spent(&mut self, ring: &mut First<I>, quantum: impl FnOnce(I) -> i64) -> bool {
        let Some(member) = ring.member() else { return false };
        let spent = self.refills(member, quantum);
        if spent {
            self.links.rotate(ring);
        }
        spent
    }

    /// Returns `true` if `member` had no credit. It has then received its `quantum`, for its next turn.
    #[inline]
    pub fn refills(&mut self, member: I, quantum: impl FnOnce(I) -> i64) -> bool {
        let spent = self.credits[slot(member.number())] <= 0;
        if spent {
            self.credits[slot(member.number())] += quantum(member);
        }
        spent
    }

    /// Appends `member` to `round`, unless the member is in a ring. Until its first turn it has `credit`.
    #[inline]
    pub fn join_round(&mut self, round: &mut Round<I>, member: I, credit: i64) -> bool {
        self.join(&mut round.ring, member, credit)
    }

    /// Returns `true` if the first member of `round` may send `length` bytes in this turn. If its
    /// credit is smaller than `length`, the member gets its `quantum`, but only once in a turn. If
    /// this is not enough, its turn ends.
    #[inline]
    pub fn covers(
        &mut self,
        round: &mut Round<I>,
        length: i64,
        quantum: impl FnOnce() -> i64,
    ) -> bool {
        let Some(member) = round.member() else { return false };
        let credit = &mut self.credits[slot(member.number())];
        if *credit < length && !round.paid {
            round.paid = true;
            *credit = credit.saturating_add(quantum());
        }
        let covers = *credit >= length;
        if !covers {
            round.paid = false;
            self.links.rotate(&mut round.ring);
        }
        covers
    }

    /// Removes `member` from `round`, if the member is there. Its credit stays readable.
    #[inline]
    pub fn remove_from_round(&mut self, round: &mut Round<I>, member: I) {
        if round.member() == Some(member) {
            round.paid = false;
        }
        self.links.remove(&mut round.ring, member);
    }

    /// Ends the turn of the first member of `ring`, whatever its credit. It gets no quantum.
    #[inline]
    pub fn rotate(&self, ring: &mut First<I>) {
        self.links.rotate(ring);
    }

    /// The credit of a member that is, or was, in a ring.
    #[inline]
    pub fn credit(&self, member: I) -> i64 {
        self.credits[slot(member.number())]
    }

    /// Takes `bytes` from the credit of `member`. A member that never was in a ring has no credit, so nothing changes.
    #[inline]
    pub fn charge(&mut self, member: I, bytes: i64) {
        if let Some(credit) = self.credits.get_mut(slot(member.number())) {
            *credit -= bytes;
        }
    }

    /// Removes `member` from `ring`, if the member is there. No other ring may contain it.
    #[inline]
    pub fn remove(&mut self, ring: &mut First<I>, member: I) {
        self.links.remove(ring, member);
    }

    /// Appends `member` to `ring`, unless the member is in a ring. It keeps its credit.
    #[inline]
    pub fn rejoin(&mut self, ring: &mut First<I>, member: I) {
        self.links.push(ring, member);
    }

    /// Moves `member` from one ring to the end of another. It keeps its credit.
    #[inline]
    pub fn relocate(&mut self, from: &mut First<I>, to: &mut First<I>, member: I) {
        self.links.remove(from, member);
        self.links.push(to, member);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::FlowIndex;

    /// The longest packet of the tests, and the smallest quantum.
    const LONGEST: i64 = 1_514;

    /// Members that always have packets. Each has a quantum, and a list of packet lengths that is
    /// repeated.
    fn members() -> impl Strategy<Value = Vec<(i64, Vec<i64>)>> {
        let member = (LONGEST..5_000, prop::collection::vec(1..=LONGEST, 1..6));
        prop::collection::vec(member, 2..7)
    }

    /// Sends `packets` packets. `choose` gets a function for the length of a member's next packet,
    /// and returns the member that sends. Returns the bytes that each member has sent, and checks
    /// their ratio after every packet.
    fn serve(
        members: &[(i64, Vec<i64>)],
        packets: usize,
        mut choose: impl FnMut(&dyn Fn(FlowIndex) -> i64) -> FlowIndex,
    ) -> Result<(), TestCaseError> {
        let mut sent = vec![(0_i64, 0_usize); members.len()];
        for _ in 0..packets {
            let next = |member: FlowIndex| {
                let lengths = &members[member.index()].1;
                lengths[sent[member.index()].1 % lengths.len()]
            };
            let member = choose(&next);
            let length = next(member);
            let (bytes, number) = &mut sent[member.index()];
            (*bytes, *number) = (*bytes + length, *number + 1);
            let each = || sent.iter().zip(members).map(|(sent, it)| (sent.0, it.0));
            for ((a, of_a), (b, of_b)) in each().flat_map(|a| each().map(move |b| (a, b))) {
                // `a / of_a` is the number of turns of a member. Two members differ by at most one
                // turn, and by one packet each.
                let apart = (a * of_b - b * of_a).abs();
                prop_assert!(apart <= of_a * of_b + LONGEST * (of_a + of_b), "{sent:?}");
            }
        }
        Ok(())
    }

    proptest! {
        /// Catches: a turn that begins without the unused credit of the turn before; packets that
        /// are not charged to the credit; equal turns for unequal quanta.
        #[test]
        fn members_share_by_their_quanta_if_any_positive_credit_covers_a_packet(members in members()) {
            let (mut robin, mut ring) = (DeficitRoundRobin::default(), First::NOBODY);
            for (number, (quantum, _)) in (0..).zip(&members) {
                prop_assert!(robin.join(&mut ring, FlowIndex(number), *quantum));
            }
            serve(&members, 300, |length| {
                let member = robin.next(&mut ring, |it| members[it.index()].0).unwrap();
                robin.charge(member, length(member));
                member
            })?;
        }

        /// Catches: a member that gets its quantum once per packet instead of once per turn; a
        /// member that gets no quantum, because the member before it had just received one; a
        /// negative credit.
        #[test]
        fn members_share_by_their_quanta_if_the_credit_is_at_least_the_packet(members in members()) {
            let (mut robin, mut round) = (DeficitRoundRobin::default(), Round::default());
            for number in (0..).take(members.len()) {
                prop_assert!(robin.join_round(&mut round, FlowIndex(number), 0));
            }
            let mut least = 0;
            serve(&members, 300, |length| {
                for _ in 0..=2 * members.len() {
                    let member = round.member().unwrap();
                    let quantum = members[member.index()].0;
                    if robin.covers(&mut round, length(member), || quantum) {
                        robin.charge(member, length(member));
                        least = least.min(robin.credit(member));
                        return member;
                    }
                }
                panic!("no turn sends a packet")
            })?;
            prop_assert_eq!(least, 0);
        }
    }

    /// Catches: a member that gets no quantum, because the member before it received one and was
    /// removed in its turn.
    #[test]
    fn after_a_member_was_removed_in_its_turn_the_next_one_gets_its_quantum() {
        let (mut robin, mut round) = (DeficitRoundRobin::default(), Round::default());
        for number in 0..2 {
            robin.join_round(&mut round, FlowIndex(number), 0);
        }
        assert!(robin.covers(&mut round, 100, || 1_000));
        robin.remove_from_round(&mut round, FlowIndex(0));
        assert!(robin.covers(&mut round, 1_000, || 1_000));
        assert_eq!((round.member(), robin.credit(FlowIndex(1))), (Some(FlowIndex(1)), 1_000));
    }

    /// Catches: a quantum for a flow that still has credit; a flow that gets no quantum when its
    /// credit is used up; a flow that is in both lists.
    #[test]
    fn a_new_flow_becomes_an_old_flow_when_its_credit_is_used_up() {
        let mut robin = DeficitRoundRobin::default();
        let (mut new, mut old) = (First::NOBODY, First::NOBODY);
        robin.join(&mut new, FlowIndex(1), 1_000);
        assert!(!robin.join(&mut old, FlowIndex(1), 9_999));
        robin.charge(FlowIndex(1), 999);
        assert!(!robin.refills(FlowIndex(1), |_| 1_000), "a byte is left");
        robin.charge(FlowIndex(1), 501);
        assert!(robin.refills(FlowIndex(1), |_| 1_000));
        robin.relocate(&mut new, &mut old, FlowIndex(1));
        assert_eq!((new.member(), old.member()), (None, Some(FlowIndex(1))));
        assert_eq!(robin.credit(FlowIndex(1)), 500);
        robin.remove(&mut old, FlowIndex(1));
        assert_eq!(robin.next(&mut old, |_| 1_000), None);
    }
}
