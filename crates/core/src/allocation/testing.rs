//! Test bench for allocations.

use super::{Allocation, Grant, Heads, NextGrant, Share};
use crate::meter::Profile;
use crate::packet::FlowIndex;
use crate::{Bytes, Rate, Time};

/// Members that always have packets waiting, each with its own packet length.
pub(super) struct AllWait<const N: usize>([u64; N]);

impl<const N: usize> AllWait<N> {
    pub(super) const fn new(lens: [u64; N]) -> Self {
        Self(lens)
    }
}

impl<const N: usize> Heads for AllWait<N> {
    fn head(&self, member: FlowIndex) -> Option<Bytes> {
        Some(Bytes(self.0[member.index()]))
    }
}

/// Bytes granted to each member within 2 s at 8 Mbit/s while all members wait all the time.
pub(super) fn shares<A: Allocation, const N: usize>(
    build: impl FnOnce(&Profile) -> A,
    heads: &mut AllWait<N>,
    weights: [u32; N],
) -> [u64; N] {
    let profile = Profile::new(Rate::from_mbps(8), None, Bytes(3_000), Bytes(1_514)).unwrap();
    let mut allocation = build(&profile);
    for (member, weight) in (0..).map(FlowIndex).zip(weights) {
        allocation.join(Time::ZERO, member, Share { weight, rtt: None });
        allocation.wait(Time::ZERO, member);
    }
    let mut sent = [0; N];
    let mut now = Time::ZERO;
    while now < Time::from_secs(2) {
        match allocation.grant(now, heads) {
            NextGrant::Grant(Grant { flow: member, bytes }) => sent[member.index()] += bytes.0,
            NextGrant::At(at) => now = at,
            NextGrant::Idle => unreachable!("all wait"),
        }
    }
    let total: u64 = sent.iter().sum();
    assert!(total.abs_diff(2_000_000 + 3_000) < 3_000, "{total}");
    sent
}
