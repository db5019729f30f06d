//! Partitioned: each flow (*member* of the aggregate) has its own token bucket, and shares none of its tokens.
//!
//! Source: `aggregates`, section 4.2 (each flow has its own bucket), with weights.
//! Differs: a flow's part of the burst may be smaller than a packet. The packet then departs once
//! the flow's bucket is full, and the bucket becomes negative. Otherwise the packet would wait
//! forever. Each packet also takes tokens from a bucket of the aggregate, so that all flows
//! together stay within the profile.

use super::shares::{MemberPart, TokenShares};
use super::{Allocation, Grant, Heads, NextGrant, Share};
use crate::meter::{Nanobits, Profile, nanobits};
use crate::packet::{FlowIndex, Ring, make_room};
use crate::wheel::TimerWheel;
use crate::{Bytes, Time, choice, parameters};

parameters! {
    /// Division of the burst.
    pub Config {
        /// What a member's part of the burst depends on, besides its weight.
        depth: Depth = Depth::default();
    }
}

choice! {
    /// What a member's part of the burst depends on, besides its weight.
    #[derive(Default)]
    pub enum Depth {
        /// Nothing else: parts are proportional to the weights.
        Equal = "equal" [default],
        /// The round-trip time: tokens earned while the flow waits for ACKs then fit into its bucket.
        Rtt = "rtt",
    }
}

impl Config {
    pub(super) fn build(&self, profile: &Profile, now: Time) -> impl Allocation + use<> {
        Partitioned {
            shares: TokenShares::new(profile, now),
            depth: self.depth,
            accounts: Vec::new(),
            ready: Ring::default(),
            filled: TimerWheel::new(),
        }
    }
}

struct Partitioned {
    /// The aggregate's bucket, and the tokens that members earn.
    shares: TokenShares,
    depth: Depth,
    accounts: Vec<MemberBucket>,
    /// Members that wait and may have enough tokens.
    ready: Ring<FlowIndex>,
    /// Timers of members that wait for tokens. A timer expires when the member has enough tokens;
    /// times are in steps of `shares`.
    filled: TimerWheel,
}

#[derive(Clone, Copy, Debug, Default)]
struct MemberBucket {
    /// Tokens in the member's bucket when `earned` steps had been earned.
    tokens: Nanobits,
    earned: u64,
    /// `None` if the index has no member.
    part: Option<MemberPart>,
}

impl Partitioned {
    /// Depth of a member's bucket.
    fn depth(&self, part: MemberPart) -> Nanobits {
        match self.depth {
            Depth::Equal => self.shares.equal_depth(part),
            Depth::Rtt => self.shares.depth(part),
        }
    }

    /// Updates a member's bucket. Returns the part and the tokens; `None` if there is no such
    /// member.
    fn settle(&mut self, member: FlowIndex) -> Option<(MemberPart, Nanobits)> {
        let part = self.accounts.get(member.index())?.part?;
        let depth = self.depth(part);
        let account = &mut self.accounts[member.index()];
        let steps = self.shares.earned() - account.earned;
        let earned = steps.saturating_mul(self.shares.step_of(part));
        account.tokens = account.tokens.saturating_add_unsigned(earned).min(depth);
        account.earned = self.shares.earned();
        Some((part, account.tokens))
    }

    /// Removes a member. Its tokens expire.
    fn end(&mut self, member: FlowIndex) {
        self.ready.remove(member);
        self.filled.cancel(member.0);
        let account = self.accounts.get_mut(member.index());
        if let Some(part) = account.and_then(|account| account.part.take()) {
            self.shares.discount(part);
        }
    }
}

impl Allocation for Partitioned {
    fn lends(&self) -> bool {
        false
    }

    fn set_profile(&mut self, now: Time, profile: &Profile) {
        self.shares.advance(now);
        self.shares.set_profile(profile);
    }

    fn join(&mut self, now: Time, member: FlowIndex, share: Share) {
        self.shares.advance(now);
        self.end(member);
        make_room(&mut self.accounts, member.index(), MemberBucket::default());
        let part = MemberPart::of(share);
        self.shares.count(part);
        let (tokens, earned) = (self.depth(part), self.shares.earned());
        self.accounts[member.index()] = MemberBucket { tokens, earned, part: Some(part) };
    }

    fn update(&mut self, now: Time, member: FlowIndex, share: Share) {
        self.shares.advance(now);
        let part = MemberPart::of(share);
        let Some((old, _)) = self.settle(member).filter(|(old, _)| !old.resembles(part)) else {
            return;
        };
        self.shares.count(part);
        self.shares.discount(old);
        self.accounts[member.index()].part = Some(part);
        if self.filled.cancel(member.0) {
            self.ready.push(member);
        }
    }

    fn leave(&mut self, now: Time, member: FlowIndex) {
        self.shares.advance(now);
        self.end(member);
    }

    fn try_take(&mut self, now: Time, member: FlowIndex, len: Bytes) -> bool {
        self.shares.advance(now);
        let Some((part, tokens)) = self.settle(member) else { return false };
        let conforms = tokens >= nanobits(len).min(self.depth(part));
        let taken = conforms && self.shares.try_take(len);
        if taken {
            self.accounts[member.index()].tokens -= nanobits(len);
        }
        taken
    }

    fn wait(&mut self, _now: Time, member: FlowIndex) {
        let is_member = self.accounts.get(member.index()).is_some_and(|it| it.part.is_some());
        if is_member && self.filled.deadline(member.0).is_none() {
            self.ready.push(member);
        }
    }

    fn tokens(&self, now: Time) -> Bytes {
        self.shares.tokens(now)
    }

    fn grant(&mut self, now: Time, heads: &dyn Heads) -> NextGrant {
        self.shares.advance(now);
        while let Some(number) = self.filled.pop(Time::from_nanos(self.shares.earned())) {
            self.ready.push(FlowIndex(number));
        }
        while let Some(member) = self.ready.first() {
            let (Some(bytes), Some((part, tokens))) = (heads.head(member), self.settle(member))
            else {
                self.ready.pop();
                continue;
            };
            let needed = nanobits(bytes).min(self.depth(part));
            if tokens < needed {
                self.ready.pop();
                let step = self.shares.step_of(part);
                let steps = TokenShares::steps((needed - tokens).unsigned_abs(), step);
                let filled = self.shares.earned().saturating_add(steps);
                self.filled.set(member.0, Time::from_nanos(filled));
                continue;
            }
            if !self.shares.try_take(bytes) {
                return NextGrant::At(self.shares.ready_at(bytes));
            }
            self.accounts[member.index()].tokens -= nanobits(bytes);
            self.ready.rotate();
            return NextGrant::Grant(Grant { flow: member, bytes });
        }
        match self.filled.next_deadline() {
            Some(filled) => NextGrant::At(self.shares.when(filled.nanos())),
            None => NextGrant::Idle,
        }
    }
}
