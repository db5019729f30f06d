//! The common bucket: one bucket for all flows, and the order in which flows are served from it.
//!
//! Source: `aggregates`, section 4.3 (one bucket; an order decides which flow gets the tokens).

use super::{Allocation, Grant, Heads, NextGrant, Share};
use crate::meter::Profile;
use crate::meter::TokenBucket;
use crate::packet::FlowIndex;
use crate::{Bytes, Time};

/// Order in which waiting members (flows with packets) are served.
pub(super) trait Order: Send {
    /// Adds a member, which may wait later.
    fn join(&mut self, member: FlowIndex, share: Share);

    /// `member` has packets waiting. Repeated calls have no effect.
    fn wait(&mut self, member: FlowIndex);

    /// The next member.
    fn first(&mut self) -> Option<FlowIndex>;

    /// The first member received `len` bytes, and may have more packets.
    fn served(&mut self, member: FlowIndex, len: Bytes);

    /// The first member has no more packets.
    fn done(&mut self, member: FlowIndex);

    /// `member`, which was served last, has no more packets.
    fn emptied(&mut self, _member: FlowIndex) {}

    /// Removes `member`; its index may be used again.
    fn leave(&mut self, member: FlowIndex);
}

/// One bucket, and an order.
pub(super) struct CommonBucket<O> {
    bucket: TokenBucket,
    order: O,
    /// The member of the last grant.
    last: Option<FlowIndex>,
}

impl<O: Order> CommonBucket<O> {
    pub(super) fn new(profile: &Profile, order: O, now: Time) -> Self {
        let bucket = TokenBucket::new(profile.mean(), profile.burst(), now);
        Self { bucket, order, last: None }
    }
}

impl<O: Order> Allocation for CommonBucket<O> {
    fn set_profile(&mut self, now: Time, profile: &Profile) {
        self.bucket.set(now, profile.mean(), profile.burst());
    }

    fn join(&mut self, _now: Time, member: FlowIndex, share: Share) {
        self.order.join(member, share);
    }

    fn update(&mut self, _now: Time, member: FlowIndex, share: Share) {
        self.order.join(member, share);
    }

    fn leave(&mut self, _now: Time, member: FlowIndex) {
        self.last = self.last.filter(|last| *last != member);
        self.order.leave(member);
    }

    fn try_take(&mut self, now: Time, member: FlowIndex, len: Bytes) -> bool {
        let taken = self.bucket.try_take(now, len);
        if taken {
            self.order.served(member, len);
        }
        taken
    }

    fn wait(&mut self, _now: Time, member: FlowIndex) {
        self.order.wait(member);
    }

    fn tokens(&self, now: Time) -> Bytes {
        self.bucket.tokens_at(now)
    }

    fn grant(&mut self, now: Time, heads: &dyn Heads) -> NextGrant {
        if let Some(last) = self.last.take()
            && heads.head(last).is_none()
        {
            self.order.emptied(last);
        }
        while let Some(member) = self.order.first() {
            let Some(bytes) = heads.head(member) else {
                self.order.done(member);
                continue;
            };
            if !self.bucket.try_take(now, bytes) {
                return NextGrant::At(self.bucket.ready_at(bytes));
            }
            self.order.served(member, bytes);
            self.last = Some(member);
            return NextGrant::Grant(Grant { flow: member, bytes });
        }
        NextGrant::Idle
    }
}
