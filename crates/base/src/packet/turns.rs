//! Deficit round robin: the members of a ring, such as flows, take turns and share bytes fairly.
//!
//! The first member may send while its credit is positive. When its credit is used up, the member
//! gets a quantum of credit and becomes the last. A packet may exceed the remaining credit. The
//! credit is then negative, and the member can send less in its next turn.
//!
//! Source: RFC 8290, section 4.2, after Shreedhar and Varghese (SIGCOMM 1995).

use super::{First, Links, Member, make_room};

/// The links of members in rings, and the credit of each member. The caller stores the [`First`] of
/// each ring.
///
/// A member is in at most one ring.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    links: Links,
    /// Bytes that each member may still send in its turn. Negative if a packet exceeded the credit.
    credits: Vec<i64>,
}

impl Turns {
    /// Appends `member` with a credit of `quantum` to `ring` unless it is in some ring. Returns
    /// `true` if it was appended.
    #[inline]
    pub fn join(&mut self, ring: &mut First, member: Member, quantum: i64) -> bool {
        let joined = self.links.push(ring, member);
        if joined {
            make_room(&mut self.credits, member.index(), 0);
            self.credits[member.index()] = quantum;
        }
        joined
    }

    /// The next member of `ring` that has credit. Members without credit get their `quantum`, and
    /// move to the end of the ring.
    #[inline]
    pub fn next(&mut self, ring: &mut First, quantum: impl Fn(Member) -> i64) -> Option<Member> {
        loop {
            let member = ring.member()?;
            if self.credits[member.index()] > 0 {
                return Some(member);
            }
            self.credits[member.index()] += quantum(member);
            self.links.rotate(ring);
        }
    }

    /// Ends the turn of the first member of `ring`, which becomes the last.
    #[inline]
    pub fn rotate(&self, ring: &mut First) {
        self.links.rotate(ring);
    }

    /// The credit of a member that is, or was, in a ring.
    #[inline]
    pub fn credit(&self, member: Member) -> i64 {
        self.credits[member.index()]
    }

    /// Subtracts `bytes` from the credit of `member`. Negative `bytes` add credit. No effect for a
    /// member that was never in a ring.
    #[inline]
    pub fn charge(&mut self, member: Member, bytes: i64) {
        if let Some(credit) = self.credits.get_mut(member.index()) {
            *credit -= bytes;
        }
    }

    /// Removes `member` from `ring`, if it is in this ring. It must not be in another ring.
    #[inline]
    pub fn leave(&mut self, ring: &mut First, member: Member) {
        self.links.remove(ring, member);
    }

    /// Appends `member` to `ring` unless it is in some ring. Its credit does not change.
    #[inline]
    pub fn rejoin(&mut self, ring: &mut First, member: Member) {
        self.links.push(ring, member);
    }

    /// Moves `member` from one ring to the end of another. Its credit does not change.
    #[inline]
    pub fn relocate(&mut self, from: &mut First, to: &mut First, member: Member) {
        self.links.remove(from, member);
        self.links.push(to, member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a member that keeps unused credit for its next turn; credit that grows while the
    /// ring is empty; a member in two rings.
    #[test]
    fn bytes_are_shared_by_quantum_whatever_the_size_of_packets() {
        let (mut turns, mut ring, mut other) = (Turns::default(), First::NOBODY, First::NOBODY);
        let (quanta, lengths, mut sent) = ([1_000, 2_000, 3_000], [90, 1_514, 700], [0; 3]);
        for number in 0..3 {
            let member = Member(number);
            assert!(turns.join(&mut ring, member, quanta[member.index()]));
            assert!(!turns.join(&mut other, member, 9_999));
        }
        for _ in 0..6_000 {
            let member = turns.next(&mut ring, |it| quanta[it.index()]).unwrap();
            turns.charge(member, lengths[member.index()]);
            sent[member.index()] += lengths[member.index()];
        }
        let round = sent[0];
        for (sent, parts) in sent.iter().zip(1..) {
            assert!((sent - parts * round).abs() < 6_000, "{sent} of {round} times {parts}");
        }
        turns.relocate(&mut ring, &mut other, Member(1));
        assert_eq!(turns.next(&mut other, |_| 1_000), Some(Member(1)));
        turns.leave(&mut other, Member(1));
        assert_eq!(turns.next(&mut other, |_| 1_000), None);
    }
}
