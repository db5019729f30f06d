//! Logical partitions: one bucket for all flows, in which each flow may save tokens for later.
//!
//! Tokens come at the rate of the profile. A member (flow) is in one of two phases:
//!
//! 1. It saves. Its share of the arriving tokens is its own, up to its part of half the burst. While
//!    it has packets, it sends them with its own savings.
//! 2. Its savings are used up. It then joins the *round*: the waiting members share the *excess*,
//!    all tokens that nobody has saved, by deficit round robin. The remainder of its savings is its
//!    first credit in the round.
//!
//! Source: `aggregates`, figure 9 (each flow has a logical partition of one bucket); "Efficient fair queuing
//! using deficit round robin" (SIGCOMM 1995).
//! Differs:
//! - The excess is the content of the bucket less all savings. The paper estimates it, and can give out the same tokens
//!   twice.
//! - The share of a member in the round is excess, too. The round shares the excess by the same
//!   weights, so the member gets as much.
//! - All members together may save half of the burst. If more than half of the bucket would remain,
//!   any packet may use the tokens. The savings may be too large for a while, after new members
//!   have made the parts of the others smaller.
//! - A full bucket serves any packet.
//! - While no packet waits, an arriving packet may use the excess.

use super::shares::{MemberPart, TokenShares};
use super::{Allocation, Grant, Heads, NextGrant, Share};
use crate::meter::{Nanobits, Profile, nanobits};
use crate::packet::{DeficitRoundRobin, FlowIndex, Rings, Round, make_room};
use crate::wheel::TimerWheel;
use crate::{Bytes, Time, parameters};

parameters! {
    /// No parameters.
    pub Config {}
}

impl Config {
    pub(super) fn build(&self, profile: &Profile, now: Time) -> LogicalPartitions {
        LogicalPartitions::new(profile, now)
    }
}

/// Logical partitions. Every operation takes amortised constant time in the number of members.
#[derive(Clone, Debug)]
pub(super) struct LogicalPartitions {
    /// The bucket with all tokens, and the tokens that each member earns.
    shares: TokenShares,
    savings: Savings,
    accounts: Vec<Account>,
    /// Members that save, with packets ([`READY`]) or without packets ([`SAVING`]). Members without
    /// packets are in the order of the next check for idleness.
    rings: Rings<FlowIndex, 2>,
    /// Members that wait for the excess.
    robin: DeficitRoundRobin<FlowIndex>,
    round: Round<FlowIndex>,
    /// Length of the longest packet seen. This is the quantum, so each turn can send a packet.
    quantum: Nanobits,
    /// Times at which members may have reached their maximum savings, in steps of `shares`.
    full: TimerWheel,
    /// No member's savings reach their maximum before this number of steps.
    full_at: u64,
    /// No member needs a check for idleness before this time.
    look_at: Time,
}

/// Savings of all members.
#[derive(Clone, Copy, Debug, Default)]
struct Savings {
    /// Sum of all savings.
    sum: i128,
    /// Increase of the sum in a step: the shares of the members whose savings are below their maximum.
    step: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Savings at the time when `earned` steps had been earned.
    tokens: Nanobits,
    earned: u64,
    rtt: u32,
    weight: u16,
    state: State,
    /// The member saves, and its savings are below their maximum.
    filling: bool,
    /// Tick in which the member last sent a packet, or began to wait.
    active: u32,
    /// Tick of the next check for idleness, while the member saves.
    look: u32,
}

// Half a cache line.
const _: () = assert!(size_of::<Account>() <= 32);

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    /// The index has no member.
    #[default]
    Absent,
    /// The member was inactive for long. It earns no tokens.
    Idle,
    /// No packets wait, and the member saves tokens.
    Saving,
    /// Packets wait, and the member uses its savings. It continues to save.
    Ready,
    /// Packets wait for the excess. The member saves nothing: its share of the tokens is excess.
    Round,
}

// Indices of `rings`.
const READY: usize = 0;
const SAVING: usize = 1;

/// Binary logarithm of the tick in nanoseconds: 67 ms. 32 bits of ticks last nine years.
const TICK: u32 = 26;

/// Ticks of inactivity after which a member earns no tokens: a second, or two round-trip times.
const IDLE: u32 = (1_000_000_000 >> TICK) + 1;

impl LogicalPartitions {
    fn new(profile: &Profile, now: Time) -> Self {
        Self {
            shares: TokenShares::new(profile, now),
            savings: Savings::default(),
            accounts: Vec::new(),
            rings: Rings::default(),
            robin: DeficitRoundRobin::default(),
            round: Round::default(),
            quantum: 0,
            full: TimerWheel::new(),
            full_at: u64::MAX,
            look_at: Time::MAX,
        }
    }

    /// Advances everything except the members' savings to `now`.
    #[inline]
    fn advance(&mut self, now: Time) {
        if now >= self.look_at {
            self.look_around(now);
        }
        self.pass(now);
    }

    /// Checks the members whose check for idleness is due. Each check is made as if at its own time, so events keep their
    /// order.
    #[cold]
    fn look_around(&mut self, now: Time) {
        while let Some((at, member)) = self.next_look().filter(|(at, _)| *at <= now) {
            self.pass(at);
            self.look(member);
        }
        self.look_at = self.next_look().map_or(Time::MAX, |(at, _)| at);
    }

    /// Time and member of the next check for idleness.
    fn next_look(&self) -> Option<(Time, FlowIndex)> {
        let member = self.rings.first_of(SAVING)?;
        let look = self.accounts[member.index()].look;
        (look < u32::MAX).then(|| (Time::from_nanos(u64::from(look) << TICK), member))
    }

    #[inline]
    fn pass(&mut self, now: Time) {
        let steps = self.shares.advance(now);
        self.savings.earn(steps);
        if self.shares.earned() >= self.full_at {
            self.settle_the_full();
        }
    }

    #[cold]
    fn settle_the_full(&mut self) {
        while let Some(number) = self.full.pop(Time::from_nanos(self.shares.earned())) {
            self.settle(FlowIndex(number));
        }
        self.full_at = self.full.next_deadline().map_or(u64::MAX, Time::nanos);
    }

    /// Earliest time at which the excess may allow `len`, if it does not now.
    #[inline(never)]
    fn allows_at(&self, len: Nanobits) -> Time {
        let earned = self.shares.earned();
        let missing =
            u64::try_from(i128::from(len) - self.savings.excess(&self.shares)).unwrap_or(u64::MAX);
        // Members whose savings are below their maximum keep their shares, so only the remaining
        // shares are excess.
        let left = (self.shares.step() - self.savings.step).max(1);
        let steps = earned.saturating_add(TokenShares::steps(missing, left));
        let full = self.full.next_deadline().map_or(u64::MAX, Time::nanos);
        let at = self.shares.when(steps.min(full)).min(self.shares.spares_at(len));
        self.next_look().map_or(at, |(look, _)| at.min(look))
    }

    /// Updates a member's savings and its maximum.
    fn settle(&mut self, member: FlowIndex) {
        if let State::Saving | State::Ready = self.accounts[member.index()].state {
            self.withdraw(member);
            let depth = self.cut(member);
            self.deposit(member, depth);
        }
    }

    /// Removes a member's savings from the sum before a change.
    fn withdraw(&mut self, member: FlowIndex) {
        let account = &mut self.accounts[member.index()];
        if account.filling {
            let step = self.shares.step_of(account.part());
            let steps = self.shares.earned() - account.earned;
            let earned = u128::from(steps) * u128::from(step);
            let saved = i128::from(account.tokens) + earned.cast_signed();
            self.savings.sum -= saved;
            self.savings.step -= step;
            account.tokens = Nanobits::try_from(saved).unwrap_or(Nanobits::MAX);
            account.filling = false;
        } else {
            self.savings.sum -= i128::from(account.tokens);
        }
    }

    /// Limits a member's savings to its maximum. Returns the maximum.
    fn cut(&mut self, member: FlowIndex) -> Nanobits {
        let account = &mut self.accounts[member.index()];
        let depth = self.shares.depth(account.part()) / 2;
        account.tokens = account.tokens.min(depth);
        depth
    }

    /// Adds a member's savings to the sum. The member continues to save up to `depth`. The timer
    /// for full savings is never set too late.
    fn deposit(&mut self, member: FlowIndex, depth: Nanobits) {
        let account = &mut self.accounts[member.index()];
        account.earned = self.shares.earned();
        self.savings.sum += i128::from(account.tokens);
        let room = depth.saturating_sub(account.tokens);
        if room <= 0 {
            return;
        }
        account.filling = true;
        let step = self.shares.step_of(account.part());
        self.savings.step += step;
        let steps = TokenShares::steps(room.unsigned_abs(), step);
        let full = Time::from_nanos(account.earned.saturating_add(steps));
        if self.full.deadline(member.0).is_none_or(|expected| expected > full) {
            self.full.set(member.0, full);
            self.full_at = self.full_at.min(full.nanos());
        }
    }

    /// Notes that a member sends or waits, so that it earns tokens. Returns its state.
    fn touch(&mut self, member: FlowIndex) -> State {
        let now = tick(self.shares.now());
        let Some(account) = self.accounts.get_mut(member.index()) else { return State::Absent };
        account.active = now;
        if account.state == State::Idle {
            self.begin(member);
        }
        self.accounts[member.index()].state
    }

    /// Lets a member earn tokens. It has no savings yet.
    fn begin(&mut self, member: FlowIndex) {
        self.shares.count(self.accounts[member.index()].part());
        self.accounts[member.index()].tokens = 0;
        self.save(member);
    }

    /// A member outside the rings starts to save, with its current tokens.
    fn save(&mut self, member: FlowIndex) {
        let account = &mut self.accounts[member.index()];
        account.state = State::Saving;
        account.active = tick(self.shares.now());
        account.look = account.active.saturating_add(IDLE);
        self.look_at = self.look_at.min(Time::from_nanos(u64::from(account.look) << TICK));
        self.rings.push_to(SAVING, member);
        let depth = self.cut(member);
        self.deposit(member, depth);
    }

    /// Lets a member earn no more tokens. Its savings become excess.
    fn end(&mut self, member: FlowIndex, state: State) {
        let account = &mut self.accounts[member.index()];
        let (part, old) = (account.part(), std::mem::replace(&mut account.state, state));
        self.full.cancel(member.0);
        match old {
            State::Absent | State::Idle => return,
            State::Saving => self.rings.remove_from(SAVING, member),
            State::Ready => self.rings.remove_from(READY, member),
            State::Round => self.robin.remove_from_round(&mut self.round, member),
        }
        if old != State::Round {
            self.withdraw(member);
        }
        let steps = self.shares.discount(part);
        self.savings.earn(steps);
    }

    /// Checks the first saving member for idleness.
    fn look(&mut self, member: FlowIndex) {
        let now = tick(self.shares.now());
        let account = &mut self.accounts[member.index()];
        if now.saturating_sub(account.active) >= patience(account.part()) {
            self.end(member, State::Idle);
            return;
        }
        account.look = now.saturating_add(IDLE);
        self.rings.rotate_in(SAVING);
        self.settle(member);
    }

    /// Grants to the first member with savings; `None` if there is none.
    #[inline(never)]
    fn grant_from_savings(&mut self, heads: &dyn Heads) -> Option<NextGrant> {
        while let Some(member) = self.rings.first_of(READY) {
            self.withdraw(member);
            let depth = self.cut(member);
            let own = self.accounts[member.index()].tokens;
            let head = heads.head(member);
            let Some(bytes) = head.filter(|bytes| nanobits(*bytes) <= own) else {
                self.rings.remove_from(READY, member);
                if head.is_none() {
                    self.save(member);
                } else {
                    self.enter_round(member);
                }
                continue;
            };
            let taken = self.shares.try_take(bytes);
            if taken {
                self.accounts[member.index()].tokens -= nanobits(bytes);
                self.rings.rotate_in(READY);
            }
            self.deposit(member, depth);
            return Some(match taken {
                true => NextGrant::Grant(Grant { flow: member, bytes }),
                false => NextGrant::At(self.shares.ready_at(bytes)),
            });
        }
        None
    }

    /// Grants to the member whose turn it is in the round.
    fn grant_from_excess(&mut self, heads: &dyn Heads) -> NextGrant {
        while let Some(member) = self.round.member() {
            let Some(bytes) = heads.head(member) else {
                self.remove_from_round(member);
                continue;
            };
            let len = nanobits(bytes);
            if len > self.quantum {
                self.quantum = len;
            }
            let weight = || self.accounts[member.index()].part().weight().cast_signed();
            let quantum = || self.quantum.saturating_mul(weight());
            if !self.robin.covers(&mut self.round, len, quantum) {
                continue;
            }
            if !self.savings.allow(&self.shares, len) {
                return NextGrant::At(self.allows_at(len));
            }
            self.robin.charge(member, len);
            self.shares.charge(len);
            return NextGrant::Grant(Grant { flow: member, bytes });
        }
        NextGrant::Idle
    }

    /// A member outside the rings enters the round. Its timer is cancelled, because it saves
    /// nothing.
    fn enter_round(&mut self, member: FlowIndex) {
        let account = &mut self.accounts[member.index()];
        account.state = State::Round;
        self.full.cancel(member.0);
        self.robin.join_round(&mut self.round, member, account.tokens);
    }

    /// A member without further packets leaves the round. It saves its remaining credit, as far as
    /// the excess covers this credit.
    #[inline(never)]
    fn remove_from_round(&mut self, member: FlowIndex) {
        self.robin.remove_from_round(&mut self.round, member);
        let there =
            Nanobits::try_from(self.savings.excess(&self.shares).max(0)).unwrap_or(Nanobits::MAX);
        let account = &mut self.accounts[member.index()];
        account.tokens = self.robin.credit(member).min(there);
        self.save(member);
    }
}

impl Account {
    fn part(&self) -> MemberPart {
        MemberPart { weight: self.weight, rtt: self.rtt }
    }

    fn set_part(&mut self, part: MemberPart) {
        (self.weight, self.rtt) = (part.weight, part.rtt);
    }

    fn waits(&self) -> bool {
        matches!(self.state, State::Ready | State::Round)
    }
}

impl Savings {
    /// All members earned `steps` steps.
    fn earn(&mut self, steps: u64) {
        self.sum += (u128::from(steps) * u128::from(self.step)).cast_signed();
    }

    /// Tokens that no member has saved.
    fn excess(&self, shares: &TokenShares) -> i128 {
        shares.content() - self.sum
    }

    /// Returns `true` if a member may take `len` tokens beyond its savings, from the excess or from
    /// the upper half of the bucket.
    fn allow(&self, shares: &TokenShares, len: Nanobits) -> bool {
        self.excess(shares) >= i128::from(len) || shares.spares(len)
    }
}

/// Ticks of inactivity after which a member no longer counts.
fn patience(part: MemberPart) -> u32 {
    IDLE.max(tick(Time::ZERO + part.rtt() * 2) + 1)
}

fn tick(now: Time) -> u32 {
    u32::try_from(now.nanos() >> TICK).unwrap_or(u32::MAX)
}

impl Allocation for LogicalPartitions {
    fn join(&mut self, now: Time, member: FlowIndex, share: Share) {
        self.advance(now);
        make_room(&mut self.accounts, member.index(), Account::default());
        let account = &mut self.accounts[member.index()];
        if account.state == State::Absent {
            account.set_part(MemberPart::of(share));
            self.begin(member);
        }
    }

    fn update(&mut self, now: Time, member: FlowIndex, share: Share) {
        self.advance(now);
        let part = MemberPart::of(share);
        let Some(account) = self.accounts.get_mut(member.index()) else { return };
        let (old, state) = (account.part(), account.state);
        if old.resembles(part) {
            return;
        }
        let saves = matches!(state, State::Saving | State::Ready);
        if saves {
            self.full.cancel(member.0);
            self.withdraw(member);
        }
        self.accounts[member.index()].set_part(part);
        if saves || state == State::Round {
            self.shares.count(part);
            let steps = self.shares.discount(old);
            self.savings.earn(steps);
        }
        if saves {
            let depth = self.cut(member);
            self.deposit(member, depth);
        }
    }

    fn leave(&mut self, now: Time, member: FlowIndex) {
        self.advance(now);
        if member.index() < self.accounts.len() {
            self.end(member, State::Absent);
        }
    }

    fn set_profile(&mut self, now: Time, profile: &Profile) {
        self.advance(now);
        self.shares.set_profile(profile);
    }

    fn try_take(&mut self, now: Time, member: FlowIndex, len: Bytes) -> bool {
        self.advance(now);
        let state = self.touch(member);
        if !matches!(state, State::Saving | State::Ready) {
            return false;
        }
        self.withdraw(member);
        let depth = self.cut(member);
        let all = nanobits(len);
        let own = self.accounts[member.index()].tokens.min(all);
        let taken = if own == all {
            self.shares.try_take(len)
        } else {
            // The member's own savings count as excess at this point.
            let others_wait =
                !self.rings.is_empty_but(READY, member) || self.round.member().is_some();
            let allowed = !others_wait && self.savings.allow(&self.shares, all);
            if allowed {
                self.shares.charge(all);
            }
            allowed
        };
        if taken {
            self.accounts[member.index()].tokens -= own;
        }
        if taken && state == State::Ready {
            self.rings.remove_from(READY, member);
            self.save(member);
        } else {
            self.deposit(member, depth);
        }
        taken
    }

    fn wait(&mut self, now: Time, member: FlowIndex) {
        if self.accounts.get(member.index()).is_some_and(Account::waits) {
            return;
        }
        self.advance(now);
        if self.touch(member) == State::Saving {
            self.accounts[member.index()].state = State::Ready;
            self.rings.remove_from(SAVING, member);
            self.rings.push_to(READY, member);
        }
    }

    fn tokens(&self, now: Time) -> Bytes {
        self.shares.tokens(now)
    }

    fn grant(&mut self, now: Time, heads: &dyn Heads) -> NextGrant {
        self.advance(now);
        if self.rings.first_of(READY).is_some()
            && let Some(next) = self.grant_from_savings(heads)
        {
            return next;
        }
        self.grant_from_excess(heads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;

    /// Waiting packets of 1,000 bytes, by member.
    struct Waiting([u32; 6]);

    impl Heads for Waiting {
        fn head(&self, member: FlowIndex) -> Option<Bytes> {
            (self.0[member.index()] > 0).then_some(Bytes(1_000))
        }
    }

    /// Sum of the members' savings, computed one by one.
    fn saved(all: &LogicalPartitions) -> i128 {
        let saves = |it: &&Account| matches!(it.state, State::Saving | State::Ready);
        let each = |it: &Account| {
            let steps = if it.filling { all.shares.earned() - it.earned } else { 0 };
            let earned = u128::from(steps) * u128::from(all.shares.step_of(it.part()));
            i128::from(it.tokens) + earned.cast_signed()
        };
        all.accounts.iter().filter(saves).map(each).sum()
    }

    /// Catches: savings that still count in the sum after their member entered the round; credit
    /// that is saved although the excess does not cover it; a timer that still runs in the round.
    #[test]
    fn the_sum_of_savings_is_exact_and_never_exceeds_the_bucket() {
        let profile = Profile::new(Rate::from_mbps(8), None, Bytes(60_000), Bytes(1_500)).unwrap();
        let mut all = LogicalPartitions::new(&profile, Time::ZERO);
        let mut waiting = Waiting([0; 6]);
        for (number, weight) in (0..).zip([1, 1, 2, 3, 1, 2]) {
            all.join(Time::ZERO, FlowIndex(number), Share { weight, rtt: None });
        }
        let mut random = 1u64;
        for step in 1..20_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let now = Time::from_micros(step * 900);
            let member = FlowIndex(u32::try_from((random >> 33) % 6).unwrap());
            // Bursts of different members at different times, so that all of them save, wait and
            // become idle. For a while they exceed the rate, so that no excess remains.
            if (step / 700 + u64::from(member.0)) % 3 > 0 {
                waiting.0[member.index()] += 1 + u32::from(step % 5_000 > 4_000);
                all.wait(now, member);
            }
            while let NextGrant::Grant(grant) = all.grant(now, &waiting) {
                waiting.0[grant.flow.index()] -= 1;
            }
            assert_eq!(all.savings.sum, saved(&all), "after {now:?}");
            for number in (0..6).filter(|number| all.accounts[*number].state == State::Round) {
                let timer = all.full.deadline(u32::try_from(number).unwrap());
                assert_eq!(timer, None, "member {number} after {now:?}");
            }
            // A member that joined early gets its smaller part at its next check.
            let settled = now > Time::from_secs(2);
            let excess = all.savings.excess(&all.shares);
            assert!(excess >= 0 || !settled, "{excess} after {now:?}");
        }
    }
}
