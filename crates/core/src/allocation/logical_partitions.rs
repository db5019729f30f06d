//! Logical partitions: one bucket with a part for each flow; what is unused is shared.
//!
//! A member that has nothing waiting saves its share of what is earned, up to its part of the
//! burst. What it earns beyond that, and what members with packets waiting earn, is the excess. A
//! member sends from its own savings first; when they are used up, it takes turns with the others
//! that wait, by deficit round robin on the excess. Savings it enters the round with are its first
//! deficit.
//!
//! Source: aggregates, section 7.3 of the ledger; Shreedhar and Varghese, "Efficient fair queuing
//! using deficit round robin" (SIGCOMM 1995).
//! Differs: the excess is the content of the bucket less all savings, so it cannot be given out
//! twice (the printed estimate can). Who waits puts its share into the round instead of saving for
//! a packet of its own: the round gives it back by the same weights, and a packet's worth of tokens
//! never lies idle while somebody waits. A packet longer than what others leave goes when the
//! bucket is full. When nobody waits ([`try_take`](Allocation::try_take)), the excess goes to who
//! asks first.

use serde::Deserialize;

use super::shares::{Part, Shares};
use super::{Allocation, Grant, Heads, Share, Turn};
use crate::meter::{Nanobits, Profile, TokenBucket, nanobits};
use crate::packet::{Member, Rings};
use crate::wheel::TimerWheel;
use crate::{Bytes, Time};

/// No parameters.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn build(&self, profile: &Profile, now: Time) -> LogicalPartitions {
        LogicalPartitions::new(profile, now)
    }
}

/// Everything takes constant time, amortised, in the number of members.
#[derive(Clone, Debug)]
pub(super) struct LogicalPartitions {
    /// All tokens: savings and excess.
    bucket: TokenBucket,
    shares: Shares,
    savings: Savings,
    accounts: Vec<Account>,
    /// Who is in which [`State`]; those who save in the order in which they are looked at.
    rings: Rings<3>,
    /// Who has had its quantum for this turn.
    turn: Option<Member>,
    /// The longest packet seen: what a turn is worth, so that each turn sends one.
    quantum: Nanobits,
    /// When a member that is filling may be full, in steps of `shares`.
    full: TimerWheel,
}

/// What all members save.
#[derive(Clone, Copy, Debug, Default)]
struct Savings {
    /// Their sum when so many steps were earned.
    sum: i128,
    earned: u64,
    /// Weight of those who are not full.
    weight: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Savings when so many steps were earned, or the deficit in the round.
    tokens: Nanobits,
    earned: u64,
    part: Part,
    /// The tick in which it last sent or waited.
    active: u32,
    /// While it is saving: the tick in which to look whether it is idle.
    look: u32,
    state: State,
    /// It saves, and is not full.
    filling: bool,
}

// With its timer and its place in a ring, a member takes one cache line.
const _: () = assert!(size_of::<Account>() <= 40);

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    /// No member.
    #[default]
    Absent,
    /// It has done nothing for long and does not count.
    Idle,
    /// Nothing of it waits, and it saves.
    Saving,
    /// It waits for its turn to use its savings, and saves on.
    Ready,
    /// It waits for the excess, and what it earns goes there.
    Round,
}

// Indices of `rings`.
const READY: usize = 0;
const ROUND: usize = 1;
const SAVING: usize = 2;

/// A tick, in bits of nanoseconds: 67 ms, so that 32 bits of them are nine years.
const TICK: u32 = 26;

/// How long a member may do nothing and still count, in ticks: a second, or two round-trip times.
const IDLE: u32 = (1_000_000_000 >> TICK) + 1;

impl LogicalPartitions {
    fn new(profile: &Profile, now: Time) -> Self {
        Self {
            bucket: TokenBucket::new(profile.mean(), profile.burst(), now),
            shares: Shares::new(profile, now),
            savings: Savings::default(),
            accounts: Vec::new(),
            rings: Rings::default(),
            turn: None,
            quantum: 0,
            full: TimerWheel::new(),
        }
    }

    /// Brings everything but the members' savings to `now`, whatever happened in between in its
    /// order.
    fn advance(&mut self, now: Time) {
        while let Some((at, member)) = self.next_look().filter(|(at, _)| *at <= now) {
            self.pass(at);
            self.look(at, member);
        }
        self.pass(now);
    }

    /// When to look next whether somebody is idle, and at whom.
    fn next_look(&self) -> Option<(Time, Member)> {
        let member = self.rings.first_of(SAVING)?;
        let look = self.accounts[member.index()].look;
        (look < u32::MAX).then(|| (Time::from_nanos(u64::from(look) << TICK), member))
    }

    fn pass(&mut self, now: Time) {
        self.shares.advance(now);
        self.bucket.refill(now);
        while let Some(number) = self.full.pop(Time::from_nanos(self.shares.earned())) {
            self.settle(Member(number));
        }
    }

    /// What nobody has saved.
    fn excess(&self) -> i128 {
        let savings = self.savings.at(&self.shares);
        i128::from(self.bucket.content()) - savings - i128::from(self.shares.carry())
    }

    /// Whether the excess allows `len`. A full bucket allows anything: to wait would waste tokens.
    fn allows(&self, len: Nanobits) -> bool {
        self.excess() >= i128::from(len) || self.bucket.content() >= self.bucket.depth()
    }

    /// When the excess may allow `len`, if it does not.
    fn allows_at(&self, len: Nanobits) -> Time {
        let earned = self.shares.earned();
        let missing = u64::try_from(i128::from(len) - self.excess()).unwrap_or(u64::MAX);
        // Of what everyone earns, those who save and are not full keep their share.
        let left = (self.shares.weight() - self.savings.weight).max(1);
        let steps = earned.saturating_add(self.shares.steps(missing, left));
        let full = self.full.next_deadline().map_or(u64::MAX, Time::nanos);
        let at = self.shares.when(steps.min(full)).min(self.bucket.reaches(self.bucket.depth()));
        self.next_look().map_or(at, |(look, _)| at.min(look))
    }

    /// Brings a member's savings, and what it may save, up to date.
    fn settle(&mut self, member: Member) {
        if let State::Saving | State::Ready = self.accounts[member.index()].state {
            self.withdraw(member);
            self.deposit(member);
        }
    }

    /// Takes a member's savings out of the sum.
    fn withdraw(&mut self, member: Member) {
        let account = &mut self.accounts[member.index()];
        self.savings.advance(&self.shares);
        if account.filling {
            let weight = account.part.weight();
            let earned = u128::from(self.shares.earned() - account.earned)
                * u128::from(self.shares.tokens(weight));
            let saved = earned.saturating_add_signed(account.tokens.into());
            self.savings.sum -= saved.cast_signed();
            self.savings.weight -= weight;
            account.tokens = Nanobits::try_from(saved).unwrap_or(Nanobits::MAX);
            account.filling = false;
        } else {
            self.savings.sum -= i128::from(account.tokens);
        }
    }

    /// Puts a member's savings into the sum, as far as it may save so much.
    fn deposit(&mut self, member: Member) {
        let account = &mut self.accounts[member.index()];
        account.tokens = account.tokens.min(self.shares.depth(account.part));
        account.earned = self.shares.earned();
        self.savings.sum += i128::from(account.tokens);
        self.fill(member);
    }

    /// Lets a settled member save on, if there is room; never expects it to be full too late.
    fn fill(&mut self, member: Member) {
        let account = &mut self.accounts[member.index()];
        let room = self.shares.depth(account.part).saturating_sub(account.tokens);
        if room <= 0 {
            return;
        }
        if !account.filling {
            account.filling = true;
            self.savings.weight += account.part.weight();
        }
        let steps = self.shares.steps(room.unsigned_abs(), account.part.weight());
        let full = Time::from_nanos(account.earned.saturating_add(steps));
        if self.full.deadline(member.0).is_none_or(|expected| expected > full) {
            self.full.set(member.0, full);
        }
    }

    /// Takes `len` from the savings of a settled member.
    fn spend(&mut self, member: Member, len: Nanobits) {
        self.accounts[member.index()].tokens -= len;
        self.savings.sum -= i128::from(len);
        self.fill(member);
    }

    /// Notes that a member sends or waits; says whether it is one.
    fn touch(&mut self, now: Time, member: Member) -> bool {
        let Some(account) = self.accounts.get_mut(member.index()) else { return false };
        account.active = tick(now);
        match account.state {
            State::Absent => return false,
            State::Idle => self.begin(now, member),
            State::Saving | State::Ready | State::Round => {}
        }
        true
    }

    /// Counts a member that has nothing yet.
    fn begin(&mut self, now: Time, member: Member) {
        self.savings.advance(&self.shares);
        self.shares.count(self.accounts[member.index()].part);
        self.accounts[member.index()].tokens = 0;
        self.save(now, member);
    }

    /// A member in no ring saves from now on, beginning with its tokens.
    fn save(&mut self, now: Time, member: Member) {
        let account = &mut self.accounts[member.index()];
        account.state = State::Saving;
        account.look = tick(now).saturating_add(IDLE);
        self.rings.push_to(SAVING, member);
        self.deposit(member);
    }

    /// Ends what [`begin`](Self::begin) began; what it saved is excess now.
    fn end(&mut self, member: Member, state: State) {
        let account = &mut self.accounts[member.index()];
        let (part, old) = (account.part, std::mem::replace(&mut account.state, state));
        self.full.cancel(member.0);
        match old {
            State::Absent | State::Idle => return,
            State::Saving => self.rings.remove_from(SAVING, member),
            State::Ready => self.rings.remove_from(READY, member),
            State::Round => self.rings.remove_from(ROUND, member),
        }
        self.turn = self.turn.filter(|turn| *turn != member);
        if old != State::Round {
            self.withdraw(member);
        }
        self.savings.advance(&self.shares);
        self.shares.discount(part);
    }

    /// Looks whether the first of those who save is idle.
    fn look(&mut self, now: Time, member: Member) {
        let account = &mut self.accounts[member.index()];
        if tick(now).saturating_sub(account.active) >= patience(account.part) {
            self.end(member, State::Idle);
            return;
        }
        account.look = tick(now).saturating_add(IDLE);
        self.rings.move_to(SAVING, member);
        self.settle(member);
    }

    /// A grant to the first of those with savings; `None` if there is none.
    fn grant_from_savings(&mut self, now: Time, heads: &dyn Heads) -> Option<Turn> {
        while let Some(member) = self.rings.first_of(READY) {
            self.settle(member);
            let head = heads.head(member);
            let len = head.map_or(0, nanobits);
            let Some(bytes) = head.filter(|_| len <= self.accounts[member.index()].tokens) else {
                self.rings.remove_from(READY, member);
                self.withdraw(member);
                if head.is_none() {
                    self.save(now, member);
                } else {
                    self.accounts[member.index()].state = State::Round;
                    self.rings.push_to(ROUND, member);
                }
                continue;
            };
            if !self.bucket.try_take(now, bytes) {
                return Some(Turn::At(self.bucket.ready_at(bytes)));
            }
            self.spend(member, len);
            self.accounts[member.index()].active = tick(now);
            self.rings.move_to(READY, member);
            return Some(Turn::Grant(Grant { member, bytes }));
        }
        None
    }

    /// A grant to the one whose turn it is in the round.
    fn grant_from_excess(&mut self, now: Time, heads: &dyn Heads) -> Turn {
        while let Some(member) = self.rings.first_of(ROUND) {
            let Some(bytes) = heads.head(member) else {
                self.leave_round(now, member);
                continue;
            };
            let len = nanobits(bytes);
            self.quantum = self.quantum.max(len);
            let account = &mut self.accounts[member.index()];
            if account.tokens < len && self.turn != Some(member) {
                self.turn = Some(member);
                let weight = Nanobits::from(account.part.weight().cast_signed());
                account.tokens = account.tokens.saturating_add(self.quantum.saturating_mul(weight));
            }
            if account.tokens < len {
                self.turn = None;
                self.rings.move_to(ROUND, member);
                continue;
            }
            if !self.allows(len) {
                return Turn::At(self.allows_at(len));
            }
            let account = &mut self.accounts[member.index()];
            account.tokens -= len;
            account.active = tick(now);
            self.bucket.charge(len);
            return Turn::Grant(Grant { member, bytes });
        }
        Turn::Idle
    }

    /// A member that has nothing more saves again: what it has left of its turn, if that is there.
    fn leave_round(&mut self, now: Time, member: Member) {
        self.rings.remove_from(ROUND, member);
        self.turn = self.turn.filter(|turn| *turn != member);
        self.savings.advance(&self.shares);
        let there = Nanobits::try_from(self.excess().max(0)).unwrap_or(Nanobits::MAX);
        let account = &mut self.accounts[member.index()];
        account.tokens = account.tokens.min(there);
        self.save(now, member);
    }
}

impl Savings {
    /// Their sum now.
    fn at(&self, shares: &Shares) -> i128 {
        let steps = u128::from(shares.earned() - self.earned);
        self.sum.saturating_add_unsigned(steps * u128::from(shares.tokens(self.weight)))
    }

    fn advance(&mut self, shares: &Shares) {
        self.sum = self.at(shares);
        self.earned = shares.earned();
    }
}

/// How many ticks a member may do nothing and still count.
fn patience(part: Part) -> u32 {
    IDLE.max(tick(Time::ZERO + part.rtt() * 2) + 1)
}

fn tick(now: Time) -> u32 {
    u32::try_from(now.nanos() >> TICK).unwrap_or(u32::MAX)
}

impl Allocation for LogicalPartitions {
    fn join(&mut self, now: Time, member: Member, share: Share) {
        self.advance(now);
        if member.index() >= self.accounts.len() {
            self.accounts.resize(member.index() + 1, Account::default());
        }
        let account = &mut self.accounts[member.index()];
        if account.state == State::Absent {
            account.part = Part::of(share);
            account.active = tick(now);
            self.begin(now, member);
        }
    }

    fn update(&mut self, now: Time, member: Member, share: Share) {
        self.advance(now);
        let part = Part::of(share);
        let Some(account) = self.accounts.get_mut(member.index()) else { return };
        let (old, state) = (account.part, account.state);
        if old.resembles(part) {
            return;
        }
        let saves = matches!(state, State::Saving | State::Ready);
        if saves {
            self.full.cancel(member.0);
            self.withdraw(member);
        }
        self.accounts[member.index()].part = part;
        if saves || state == State::Round {
            self.savings.advance(&self.shares);
            self.shares.count(part);
            self.shares.discount(old);
        }
        if saves {
            self.savings.advance(&self.shares);
            self.deposit(member);
        }
    }

    fn leave(&mut self, now: Time, member: Member) {
        self.advance(now);
        if member.index() < self.accounts.len() {
            self.end(member, State::Absent);
        }
    }

    fn set_profile(&mut self, now: Time, profile: &Profile) {
        self.advance(now);
        self.bucket.set(now, profile.mean(), profile.burst());
        self.shares.set_profile(profile);
    }

    fn try_take(&mut self, now: Time, member: Member, len: Bytes) -> bool {
        self.advance(now);
        if !self.touch(now, member) {
            return false;
        }
        self.settle(member);
        let all = nanobits(len);
        let account = &self.accounts[member.index()];
        let own = account.tokens.min(all);
        if account.state == State::Round {
            return false;
        }
        if own == all {
            if !self.bucket.try_take(now, len) {
                return false;
            }
        } else {
            let waits = self.rings.first_of(READY).or_else(|| self.rings.first_of(ROUND));
            if waits.is_some() || !self.allows(all - own) {
                return false;
            }
            self.bucket.charge(all);
        }
        self.spend(member, own);
        true
    }

    fn wait(&mut self, now: Time, member: Member) {
        self.advance(now);
        if self.touch(now, member) && self.accounts[member.index()].state == State::Saving {
            self.accounts[member.index()].state = State::Ready;
            self.rings.remove_from(SAVING, member);
            self.rings.push_to(READY, member);
        }
    }

    fn grant(&mut self, now: Time, heads: &dyn Heads) -> Turn {
        self.advance(now);
        let own = self.grant_from_savings(now, heads);
        own.unwrap_or_else(|| self.grant_from_excess(now, heads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;

    /// Packets of 1,000 bytes that wait, by member.
    struct Waiting([u32; 6]);

    impl Heads for Waiting {
        fn head(&self, member: Member) -> Option<Bytes> {
            (self.0[member.index()] > 0).then_some(Bytes(1_000))
        }
    }

    /// What each member has saved, one by one.
    fn saved(all: &LogicalPartitions) -> i128 {
        let saves = |it: &&Account| matches!(it.state, State::Saving | State::Ready);
        let each = |it: &Account| {
            let steps = if it.filling { all.shares.earned() - it.earned } else { 0 };
            let earned = u128::from(steps) * u128::from(all.shares.tokens(it.part.weight()));
            i128::from(it.tokens) + earned.cast_signed()
        };
        all.accounts.iter().filter(saves).map(each).sum()
    }

    /// Mutant it kills: `withdraw` left out when a member goes into the round.
    #[test]
    fn the_sum_of_savings_is_that_of_every_member_and_never_more_than_there_is() {
        let profile = Profile::new(Rate::from_mbps(8), None, Bytes(60_000), Bytes(1_500)).unwrap();
        let mut all = LogicalPartitions::new(&profile, Time::ZERO);
        let mut waiting = Waiting([0; 6]);
        for (number, weight) in (0..).zip([1, 1, 2, 3, 1, 2]) {
            all.join(Time::ZERO, Member(number), Share { weight, rtt: None });
        }
        let mut random = 1u64;
        for step in 1..20_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let now = Time::from_micros(step * 900);
            let member = Member(u32::try_from((random >> 33) % 6).unwrap());
            // Bursts of other members at other times, so that all of them save, wait and idle.
            if (step / 700 + u64::from(member.0)) % 3 > 0 {
                waiting.0[member.index()] += 1;
                all.wait(now, member);
            }
            while let Turn::Grant(grant) = all.grant(now, &waiting) {
                waiting.0[grant.member.index()] -= 1;
            }
            assert_eq!(all.savings.at(&all.shares), saved(&all), "after {now:?}");
            // Whoever joined early learns at the next look that its part is smaller by now.
            let settled = now > Time::from_secs(2);
            assert!(all.excess() >= 0 || !settled, "{} after {now:?}", all.excess());
        }
    }
}
