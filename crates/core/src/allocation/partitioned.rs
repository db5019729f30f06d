//! Partitioned: every flow has a bucket of its own, and nothing is shared.
//!
//! Source: `aggregates`, section 4.2 (ledger 7.1), with weights.
//! Differs: where a part of the burst is smaller than a packet, the packet goes when the member's
//! bucket is full, and is paid off afterwards; otherwise it would wait forever. So that all members
//! together keep the profile even then, packets also pass a bucket of the aggregate.

use serde::Deserialize;

use super::shares::{Part, Shares};
use super::{Allocation, Grant, Heads, Share, Turn};
use crate::meter::{Nanobits, Profile, nanobits};
use crate::packet::{Member, Ring, make_room};
use crate::wheel::TimerWheel;
use crate::{Bytes, Time};

/// How the burst is divided.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What decides a member's part of the burst, besides its weight.
    pub depth: Depth,
}

/// What decides a member's part of the burst, besides its weight.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// Nothing else.
    #[default]
    Equal,
    /// Its round-trip time: what it earns while it waits for ACKs then finds room.
    Rtt,
}

impl Config {
    pub(super) fn build(&self, profile: &Profile, now: Time) -> impl Allocation + use<> {
        Partitioned {
            shares: Shares::new(profile, now),
            depth: self.depth,
            accounts: Vec::new(),
            ready: Ring::default(),
            filled: TimerWheel::new(),
        }
    }
}

struct Partitioned {
    /// What all of them together keep, and what each of them earns.
    shares: Shares,
    depth: Depth,
    accounts: Vec<Account>,
    /// Who waits and may have tokens for it.
    ready: Ring,
    /// Who waits for tokens of its own, and until when, in steps of `shares`.
    filled: TimerWheel,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// What is in its bucket since so many steps were earned.
    tokens: Nanobits,
    earned: u64,
    /// `None` for no member.
    part: Option<Part>,
}

impl Partitioned {
    /// What a member's bucket holds at most.
    fn depth(&self, part: Part) -> Nanobits {
        match self.depth {
            Depth::Equal => self.shares.equal_depth(part),
            Depth::Rtt => self.shares.depth(part),
        }
    }

    /// Brings a member's bucket up to date; its part and what it holds, if it is one.
    fn settle(&mut self, member: Member) -> Option<(Part, Nanobits)> {
        let part = self.accounts.get(member.index())?.part?;
        let depth = self.depth(part);
        let account = &mut self.accounts[member.index()];
        let steps = self.shares.earned() - account.earned;
        let earned = steps.saturating_mul(self.shares.step_of(part));
        account.tokens = account.tokens.saturating_add_unsigned(earned).min(depth);
        account.earned = self.shares.earned();
        Some((part, account.tokens))
    }

    /// Ends a member's part; what its bucket held is lost.
    fn end(&mut self, member: Member) {
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

    fn join(&mut self, now: Time, member: Member, share: Share) {
        self.shares.advance(now);
        self.end(member);
        make_room(&mut self.accounts, member.index(), Account::default());
        let part = Part::of(share);
        self.shares.count(part);
        let (tokens, earned) = (self.depth(part), self.shares.earned());
        self.accounts[member.index()] = Account { tokens, earned, part: Some(part) };
    }

    fn update(&mut self, now: Time, member: Member, share: Share) {
        self.shares.advance(now);
        let part = Part::of(share);
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

    fn leave(&mut self, now: Time, member: Member) {
        self.shares.advance(now);
        self.end(member);
    }

    fn try_take(&mut self, now: Time, member: Member, len: Bytes) -> bool {
        self.shares.advance(now);
        let Some((part, tokens)) = self.settle(member) else { return false };
        let conforms = tokens >= nanobits(len).min(self.depth(part));
        let taken = conforms && self.shares.try_take(len);
        if taken {
            self.accounts[member.index()].tokens -= nanobits(len);
        }
        taken
    }

    fn wait(&mut self, _now: Time, member: Member) {
        let is_member = self.accounts.get(member.index()).is_some_and(|it| it.part.is_some());
        if is_member && self.filled.deadline(member.0).is_none() {
            self.ready.push(member);
        }
    }

    fn tokens(&self, now: Time) -> Bytes {
        self.shares.tokens(now)
    }

    fn grant(&mut self, now: Time, heads: &dyn Heads) -> Turn {
        self.shares.advance(now);
        while let Some(number) = self.filled.pop(Time::from_nanos(self.shares.earned())) {
            self.ready.push(Member(number));
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
                let steps = Shares::steps((needed - tokens).unsigned_abs(), step);
                let filled = self.shares.earned().saturating_add(steps);
                self.filled.set(member.0, Time::from_nanos(filled));
                continue;
            }
            if !self.shares.try_take(bytes) {
                return Turn::At(self.shares.ready_at(bytes));
            }
            self.accounts[member.index()].tokens -= nanobits(bytes);
            self.ready.rotate();
            return Turn::Grant(Grant { member, bytes });
        }
        match self.filled.next_deadline() {
            Some(filled) => Turn::At(self.shares.when(filled.nanos())),
            None => Turn::Idle,
        }
    }
}
