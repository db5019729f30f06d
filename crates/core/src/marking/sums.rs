//! The projection of the markings `heuristic` and `coverage`. It needs only sums over all flows, so its cost does not
//! depend on their number.
//!
//! Flow `i` sends `W'_i` bytes in its next round, and such a round in each round-trip time `RTT_i`. A mark takes effect
//! one round trip later. So the projection looks ahead for `T`, the longest round-trip time of the flows:
//!
//! ```text
//! excess = backlog + (rho * sum of W'_i / RTT_i + untracked - C) * T - limit
//! relief = rho * mean of (W_i / 2 + growth_i) / RTT_i * T
//! marks  = excess / relief, rounded up
//! ```
//!
//! `C` is the service rate. `rho` scales the tracked flows so that they represent all flows. Other
//! traffic arrives at the rate `untracked`. Without a mark, the next round of flow `i` has `W_i +
//! growth_i` bytes, and with a mark `W_i / 2`. The difference is the relief of one mark.
//!
//! Source: `marking`, section 2.3 (sums in place of a search).
//! Differs: the paper counts one round of each flow, up to the latest start `tau*` of a next round
//! ([`ProjectedRounds::Next`]). Flows with short round trips send several rounds in this time, so
//! packets are lost (`marking/exp1`).

use std::time::Duration;

use super::memory::{Memory, TrackedFlow};
use super::tracker::{Brief, Track};
use super::{Observed, Target, guarantees};
use crate::packet::make_room;
use crate::scheduler::ClassState;
use crate::units::real;
use crate::{Bytes, Rate, Time, choice};

/// Contribution of one flow to the sums. Its units depend on the [`ProjectedRounds`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct FlowTerm {
    /// One, or zero for a flow that does not respond to marks.
    flows: u64,
    /// With `Next`: bytes of the next round. With `All`: bytes per second, for one round in each round-trip time.
    load: u64,
    /// Relief by a mark. With `Next`: twice the bytes, so that `W / 2` loses no half byte. With `All`: bytes per
    /// second.
    relief: u64,
}

impl FlowTerm {
    /// The contribution of `flow`. It is zero if the flow does not respond to marks. Such a flow counts as untracked
    /// traffic.
    fn of(flow: &Brief, rounds: ProjectedRounds) -> Self {
        if !flow.responds {
            return Self::default();
        }
        let of = |bytes: u32| u64::from(bytes);
        let (load, window, growth) = (of(flow.next_window()), of(flow.window), of(flow.growth));
        match rounds {
            ProjectedRounds::Next => Self { flows: 1, load, relief: window + 2 * growth },
            ProjectedRounds::All => {
                let micros = of(flow.rtt.max(1));
                // Bytes of 32 bits times a million fit into 64 bits.
                let each = |bytes: u64| bytes * 1_000_000 / micros;
                Self { flows: 1, load: each(load), relief: each(window / 2 + growth) }
            }
        }
    }

    /// Returns `true` if the flow responds to marks, so that it contributes.
    #[cfg(test)]
    pub(super) const fn counts(&self) -> bool {
        self.flows == 1
    }
}

/// A change of a flow's contribution. `rtt` is its round-trip time in microseconds. `due` is the start of its next round,
/// or [`Time::ZERO`] with [`ProjectedRounds::All`].
#[derive(Clone, Copy)]
struct Change {
    before: FlowTerm,
    after: FlowTerm,
    rtt: u32,
    due: Time,
}

/// Sums over the tracked flows of a list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Sum of the contributions.
    part: FlowTerm,
    /// Bytes that these flows have sent in the present interval.
    pub(super) bytes: u64,
    /// The latest start of a next round, with [`ProjectedRounds::Next`]. The value does not become
    /// earlier when a flow is removed from the list.
    due: Time,
    /// The longest round-trip time, in microseconds.
    longest: u32,
}

impl Sums {
    /// Applies the change of a flow's contribution.
    fn change(&mut self, &Change { before, after, rtt, due }: &Change) {
        let of = |sum: u64, before: u64, after: u64| (sum + after).saturating_sub(before);
        let part = &mut self.part;
        part.flows = of(part.flows, before.flows, after.flows);
        part.load = of(part.load, before.load, after.load);
        part.relief = of(part.relief, before.relief, after.relief);
        if after.flows > 0 {
            self.reach(rtt, due);
        }
    }

    /// Updates the longest round-trip time and the latest start for a flow whose contribution is unchanged.
    fn reach(&mut self, rtt: u32, due: Time) {
        self.due = self.due.max(due);
        self.longest = self.longest.max(rtt);
    }

    /// The longest round-trip time of the flows.
    pub(super) fn longest_rtt(&self) -> Duration {
        Duration::from_micros(u64::from(self.longest))
    }

    /// Returns the longest round-trip time, and begins a new measurement of it.
    pub(super) fn take_longest_rtt(&mut self) -> Duration {
        let longest = self.longest_rtt();
        self.longest = 0;
        longest
    }

    /// The sums of two lists that have no flow in common.
    fn and(&self, other: &Self) -> Self {
        let (one, two) = (&self.part, &other.part);
        let (flows, load) = (one.flows + two.flows, one.load + two.load);
        Self {
            part: FlowTerm { flows, load, relief: one.relief + two.relief },
            bytes: self.bytes + other.bytes,
            due: self.due.max(other.due),
            longest: self.longest.max(other.longest),
        }
    }

    /// Number of flows of the list that respond to marks.
    pub(super) const fn flows(&self) -> u64 {
        self.part.flows
    }

    #[cfg(test)]
    pub(super) const fn part(&self) -> FlowTerm {
        self.part
    }

    /// Number of marks that the projection requires for the queue `seen`.
    fn marks(&self, seen: &Observed<'_>, others: &ProjectionTerms) -> u64 {
        let (waiting, room) = (seen.backlog, seen.limit + seen.tokens);
        let (ahead, at_once, rate) = match others.rounds {
            ProjectedRounds::Next => (self.due.since(seen.now), others.rho.of(self.part.load), 0),
            ProjectedRounds::All => {
                (self.longest_rtt(), Bytes::ZERO, others.rho.of(self.part.load).0)
            }
        };
        let arrives = rate.saturating_mul(8).saturating_add(others.untracked.bps());
        if arrives <= seen.rate.bps() && waiting + at_once <= room {
            return 0;
        }
        let net = Rate::from_bps(arrives.abs_diff(seen.rate.bps())).bytes_in(ahead);
        let (more, less) =
            if arrives > seen.rate.bps() { (net, Bytes::ZERO) } else { (Bytes::ZERO, net) };
        let excess = (waiting + at_once + more).saturating_sub(room + less);
        if excess == Bytes::ZERO {
            return 0;
        }
        let relief = others.rho.of(match others.rounds {
            ProjectedRounds::Next => self.part.relief / 2,
            ProjectedRounds::All => {
                Rate::from_bps(self.part.relief.saturating_mul(8)).bytes_in(ahead).0
            }
        });
        if relief == Bytes::ZERO {
            return 0;
        }
        let marks = u128::from(excess.0) * u128::from(self.part.flows);
        u64::try_from(marks.div_ceil(u128::from(relief.0))).unwrap_or(u64::MAX)
    }

    /// Bytes of the rounds of all flows within the time that the projection looks ahead, and this time.
    fn rounds(&self, now: Time, others: &ProjectionTerms) -> (Bytes, Duration) {
        match others.rounds {
            ProjectedRounds::Next => (others.rho.of(self.part.load), self.due.since(now)),
            ProjectedRounds::All => {
                let rate = Rate::from_bps(self.part.load.saturating_mul(8));
                (others.rho.of(rate.bytes_in(self.longest_rtt()).0), self.longest_rtt())
            }
        }
    }
}

/// The factor `rho`: bytes of all flows, divided by the bytes of the tracked flows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Rho {
    all: u64,
    tracked: u64,
}

impl Rho {
    /// The factor 1: tracked flows represent only themselves.
    pub(super) const ONE: Self = Self { all: 1, tracked: 1 };

    /// `all / tracked`, at least one.
    pub(super) fn new(all: u64, tracked: u64) -> Self {
        if tracked == 0 { Self::ONE } else { Self { all: all.max(tracked), tracked } }
    }

    /// The factor as a real number, for reports.
    pub(super) fn factor(self) -> f64 {
        real(self.all) / real(self.tracked)
    }

    fn of(self, bytes: u64) -> Bytes {
        if self.all == self.tracked {
            return Bytes(bytes);
        }
        if let Some(scaled) = bytes.checked_mul(self.all) {
            return Bytes(scaled / self.tracked);
        }
        let scaled = u128::from(bytes) * u128::from(self.all) / u128::from(self.tracked);
        Bytes(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

/// Sums over all flows of a list, and over the flows of each class that shares the buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    pub(super) all: Sums,
    /// Sums for each class, by class number. Class 0 has no flows.
    of: Vec<Sums>,
    rounds: ProjectedRounds,
}

impl Accounts {
    /// Sums of an empty list, for a projection that counts these `rounds`.
    pub(super) fn new(rounds: ProjectedRounds) -> Self {
        Self { rounds, ..Self::default() }
    }

    /// The start of the flow's next round with [`ProjectedRounds::Next`], and [`Time::ZERO`] otherwise.
    pub(super) fn due(&self, track: &Track, now: Time) -> Time {
        if self.rounds == ProjectedRounds::Next { track.next_round(now) } else { Time::ZERO }
    }

    /// Sets all sums to zero.
    pub(super) fn clear(&mut self) {
        self.all = Sums::default();
        self.of.fill(Sums::default());
    }

    fn of_class(&mut self, class: u16) -> Option<&mut Sums> {
        let class = usize::from(class);
        if class == 0 {
            return None;
        }
        make_room(&mut self.of, class, Sums::default());
        self.of.get_mut(class)
    }

    /// Adds a flow of `class` to the list. Its next round starts at `due`.
    pub(super) fn add_flow(&mut self, class: u16, flow: &Brief, due: Time) {
        self.change(class, &self.addition(flow, due));
    }

    /// Removes a flow of `class` from the list.
    pub(super) fn remove_flow(&mut self, class: u16, flow: &Brief) {
        self.change(class, &self.removal(flow));
    }

    /// Replaces the contribution of a flow of `class`.
    pub(super) fn changes(&mut self, class: u16, before: &Brief, after: &Brief, due: Time) {
        let parts = (FlowTerm::of(before, self.rounds), FlowTerm::of(after, self.rounds));
        self.change(class, &Change { before: parts.0, after: parts.1, rtt: after.rtt, due });
    }

    fn addition(&self, flow: &Brief, due: Time) -> Change {
        let after = FlowTerm::of(flow, self.rounds);
        Change { before: FlowTerm::default(), after, rtt: flow.rtt, due }
    }

    fn removal(&self, flow: &Brief) -> Change {
        let before = FlowTerm::of(flow, self.rounds);
        Change { before, after: FlowTerm::default(), rtt: 0, due: Time::ZERO }
    }

    fn change(&mut self, class: u16, change: &Change) {
        self.all.change(change);
        if let Some(own) = self.of_class(class) {
            own.change(change);
        }
    }

    /// Updates the longest round-trip time and the latest start for a flow of `class` whose contribution is unchanged.
    pub(super) fn reach(&mut self, class: u16, rtt: u32, due: Time) {
        self.all.reach(rtt, due);
        if let Some(own) = self.of_class(class) {
            own.reach(rtt, due);
        }
    }

    /// Moves a flow from class `from` to class `to`.
    pub(super) fn move_flow(&mut self, from: u16, to: u16, track: &Track, now: Time) {
        let (flow, due) = (track.brief(), self.due(track, now));
        let (removal, addition) = (self.removal(&flow), self.addition(&flow, due));
        if let Some(old) = self.of_class(from) {
            old.change(&removal);
        }
        if let Some(new) = self.of_class(to) {
            new.change(&addition);
        }
    }

    /// Adds the sums of a list that has no flow in common with this one.
    pub(super) fn add(&mut self, other: &Self) {
        self.all = self.all.and(&other.all);
        self.of.resize(self.of.len().max(other.of.len()), Sums::default());
        for (own, more) in self.of.iter_mut().zip(&other.of) {
            *own = own.and(more);
        }
    }
}

/// The lists of flows in a projection: one, or two that have no flow in common.
#[derive(Clone, Copy)]
pub(super) struct Projected<'a>(pub(super) &'a Accounts, pub(super) Option<&'a Accounts>);

impl Projected<'_> {
    /// Sums over all flows.
    pub(super) fn all(self) -> Sums {
        let Self(one, two) = self;
        two.map_or(one.all, |two| one.all.and(&two.all))
    }

    /// Sums over the flows of class `n`. `None` if the class never had a flow.
    fn of(self, n: usize) -> Option<Sums> {
        let one = self.0.of.get(n).copied();
        let two = self.1.and_then(|two| two.of.get(n)).copied();
        one.zip(two).map(|(one, two)| one.and(&two)).or(one).or(two)
    }

    /// Number of marks that limit `n` requires. Limit 0 is that of the whole buffer, and limit `n` follows from the
    /// delay bound of class `n`.
    fn marks(self, n: usize, (seen, len): (&Observed<'_>, Bytes), others: &ProjectionTerms) -> u64 {
        if n == 0 {
            return self.all().marks(seen, others);
        }
        let projected = |m: usize, class: &ClassState| {
            let Some(own) = self.of(m) else { return class.backlog };
            let (rounds, ahead) = own.rounds(seen.now, others);
            (class.backlog + rounds).saturating_sub(class.rate.bytes_in(ahead))
        };
        let of_class = ProjectionTerms { untracked: Rate::from_bps(0), ..*others };
        match (guarantees::account(seen, len, n, projected), self.of(n)) {
            (Some(account), Some(own)) => own.marks(&account, &of_class),
            _ => 0,
        }
    }
}

/// Terms of the projection other than the sums over the tracked flows.
#[derive(Clone, Copy)]
pub(super) struct ProjectionTerms {
    /// Factor by which the sums are multiplied.
    pub(super) rho: Rho,
    /// Rate of the traffic that neither the sums nor the factor include.
    pub(super) untracked: Rate,
    /// The rounds that the sums count.
    pub(super) rounds: ProjectedRounds,
}

choice! {
    /// The rounds of a flow that the projection counts.
    #[derive(Default)]
    pub enum ProjectedRounds {
        /// The next round of each flow, as in the paper.
        Next = "next",
        /// A round in each round trip of the flow.
        All = "all" [default],
    }
}

/// The search for flows to mark as a packet arrives: first for the limit of the buffer, then for the limit of each
/// class with a delay bound.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    /// Number of the present limit: see [`Projected::marks`].
    account: usize,
    /// Marks that are still required for the present limit.
    left: u64,
    /// Number of the next limit to test.
    next: usize,
    /// At least one flow was marked.
    pub(super) found: bool,
    /// The buffer requires more marks, but no flow is left to mark.
    pub(super) is_short: bool,
}

impl Walk {
    /// Notes that a flow was marked.
    pub(super) const fn marked(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.found = true;
    }

    /// The flow to mark next: the flow of the oldest waiting packet for which `may` is `true`. `None` if no more marks
    /// are required or possible. `len` is the length of the arriving packet.
    pub(super) fn next(
        &mut self,
        accounts: Projected<'_>,
        (seen, len): (&Observed<'_>, Bytes),
        others: &ProjectionTerms,
        memory: &mut Memory,
        may: impl Fn(&TrackedFlow) -> bool,
    ) -> Option<Target> {
        loop {
            while self.left == 0 {
                if self.next >= seen.classes.len().max(1) {
                    return None;
                }
                (self.account, self.next) = (self.next, self.next + 1);
                self.left = accounts.marks(self.account, (seen, len), others);
                if self.left > 0 && !seen.classes.is_empty() {
                    memory.begin_again();
                }
            }
            let account = self.account;
            let is_own = |class| account == 0 || usize::from(class) == account;
            if let Some(target) = memory.oldest(|class, it| is_own(class) && may(it)) {
                return Some(target);
            }
            self.left = 0;
            self.is_short |= account == 0;
        }
    }
}
