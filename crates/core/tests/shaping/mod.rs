//! A shaping aggregate that tests an allocation: packets arrive, wait, and depart when the
//! allocation grants them. An aggregate has the flows of one policy, its *members*. An allocation
//! decides which member sends next.

#![expect(clippy::as_conversions, reason = "the model computes in real numbers")]

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tidegate_core::allocation::{Allocation, Grant, Heads, NextGrant, Share};
use tidegate_core::meter::Profile;
use tidegate_core::packet::FlowIndex;
use tidegate_core::{Bytes, Rate, Time};

/// The arrival of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    pub(crate) member: FlowIndex,
    pub(crate) bytes: u64,
}

/// The departure of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Departure {
    pub(crate) at: Time,
    pub(crate) member: FlowIndex,
    pub(crate) bytes: u64,
}

/// A change of the members or of the profile during a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Join(FlowIndex, Share),
    Update(FlowIndex, Share),
    /// Removes the member. Its waiting packets and its later packets are dropped.
    Remove(FlowIndex),
    Profile(Profile),
}

/// The events at which the aggregate asks for grants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Triggers {
    /// Each arrival, and the times that the allocation returns.
    #[default]
    All,
    /// A timer with this interval (zero for the exact time). An arriving packet may take tokens
    /// before all waiting packets.
    Timer(Duration),
}

/// A shaping aggregate.
pub(crate) struct Shaping {
    pub(crate) allocation: Box<dyn Allocation>,
    pub(crate) triggers: Triggers,
    pub(crate) queues: Queues,
    pub(crate) departures: Vec<Departure>,
    /// Changes to make, in order of time.
    pub(crate) changes: VecDeque<(Time, Change)>,
    /// Members that were removed.
    removed: BTreeSet<FlowIndex>,
    /// Bytes that were dropped because their member was removed.
    pub(crate) dropped: u64,
}

/// Lengths of the waiting packets of each member.
#[derive(Default)]
pub(crate) struct Queues {
    waiting: Vec<VecDeque<u64>>,
    /// Number of waiting packets of all members.
    packets: usize,
    /// Look-ups of a first packet since the last grant.
    questions: Cell<usize>,
    /// Look-ups of a first packet in the whole run.
    pub(crate) asked: Cell<u64>,
}

impl Queues {
    fn push(&mut self, member: FlowIndex, bytes: u64) {
        if member.index() >= self.waiting.len() {
            self.waiting.resize(member.index() + 1, VecDeque::new());
        }
        self.waiting[member.index()].push_back(bytes);
        self.packets += 1;
    }

    fn front(&self, member: FlowIndex) -> Option<Bytes> {
        self.waiting.get(member.index())?.front().copied().map(Bytes)
    }

    const fn are_empty(&self) -> bool {
        self.packets == 0
    }

    fn pop(&mut self, member: FlowIndex) -> Option<u64> {
        let bytes = self.waiting.get_mut(member.index())?.pop_front()?;
        self.packets -= 1;
        Some(bytes)
    }

    /// Removes all packets of a member. Returns their bytes.
    fn clear(&mut self, member: FlowIndex) -> u64 {
        std::iter::from_fn(|| self.pop(member)).sum()
    }
}

impl Heads for Queues {
    /// For a grant, the allocation may look up three first packets per member: one for the savings
    /// of the member, one at the start and one at the end of its round.
    fn head(&self, member: FlowIndex) -> Option<Bytes> {
        self.questions.set(self.questions.get() + 1);
        self.asked.set(self.asked.get() + 1);
        assert!(self.questions.get() <= 3 * self.waiting.len(), "a grant without end");
        self.front(member)
    }
}

impl Shaping {
    pub(crate) fn new(allocation: Box<dyn Allocation>) -> Self {
        Self {
            allocation,
            triggers: Triggers::default(),
            queues: Queues::default(),
            departures: Vec::new(),
            changes: VecDeque::new(),
            removed: BTreeSet::new(),
            dropped: 0,
        }
    }

    /// Runs until `end`. Asks for grants at the times that the allocation returns, and also at each
    /// interval of `looks`.
    pub(crate) fn run(&mut self, arrivals: &[Arrival], looks: Option<Duration>, end: Time) {
        let mut arrivals = arrivals.iter().peekable();
        let mut look = looks.map(|every| Time::ZERO + every);
        let mut next_call = None;
        loop {
            let next = arrivals.peek().map(|arrival| arrival.at);
            let change = self.changes.front().map(|(at, _)| *at);
            let now = [next, change, next_call, look].into_iter().flatten().min();
            let Some(now) = now.filter(|now| *now < end) else { return };
            look = looks.map(|every| (now + Duration::from_nanos(1)).round_up_to(every));
            while let Some((_, change)) = self.changes.pop_front_if(|(at, _)| *at <= now) {
                self.change(now, change);
            }
            while let Some(arrival) = arrivals.next_if(|arrival| arrival.at <= now) {
                self.arrive(now, *arrival);
            }
            next_call = match self.triggers {
                Triggers::All => self.serve(now),
                Triggers::Timer(interval) => match next_call {
                    Some(at) if at > now => next_call,
                    Some(_) => self.serve(now).map(|at| at.round_up_to(interval)),
                    None if self.queues.are_empty() => None,
                    None => Some((now + Duration::from_nanos(1)).round_up_to(interval)),
                },
            };
            assert!(next_call.is_none_or(|at| at > now), "the next call is due at once");
        }
    }

    fn arrive(&mut self, now: Time, Arrival { member, bytes, .. }: Arrival) {
        if self.removed.contains(&member) {
            self.dropped += bytes;
            return;
        }
        self.queues.push(member, bytes);
        self.allocation.wait(now, member);
        if let Triggers::Timer(_) = self.triggers
            && let Some(head) = self.queues.front(member)
            && self.allocation.try_take(now, member, head)
        {
            self.depart(now, member, head);
            if self.queues.front(member).is_some() {
                self.allocation.wait(now, member);
            }
        }
    }

    fn depart(&mut self, at: Time, member: FlowIndex, bytes: Bytes) {
        assert_eq!(self.queues.pop(member), Some(bytes.0), "a grant of another length");
        self.departures.push(Departure { at, member, bytes: bytes.0 });
    }

    fn change(&mut self, now: Time, change: Change) {
        match change {
            Change::Join(member, share) => {
                self.removed.remove(&member);
                self.allocation.join(now, member, share);
            }
            Change::Update(member, share) => self.allocation.update(now, member, share),
            Change::Remove(member) => {
                self.removed.insert(member);
                self.dropped += self.queues.clear(member);
                self.allocation.leave(now, member);
            }
            Change::Profile(profile) => self.allocation.set_profile(now, &profile),
        }
    }

    /// Sends all packets that the allocation grants. Returns the time at which to ask again.
    fn serve(&mut self, now: Time) -> Option<Time> {
        loop {
            self.queues.questions.set(0);
            match self.allocation.grant(now, &self.queues) {
                NextGrant::Grant(Grant { flow: member, bytes }) => self.depart(now, member, bytes),
                NextGrant::At(at) => return Some(at),
                NextGrant::Idle => {
                    assert!(self.queues.are_empty(), "idle while some wait");
                    return None;
                }
            }
        }
    }
}

/// Packets of `len` bytes that arrive at `rate` in the time from `from` to `to`.
pub(crate) fn constant(
    member: FlowIndex,
    len: u64,
    rate: Rate,
    from: Time,
    to: Time,
) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    let mut at = from;
    while rate.bps() > 0 && at < to {
        arrivals.push(Arrival { at, member, bytes: len });
        at += rate.time_for(Bytes(len));
    }
    arrivals
}

/// Bytes of `member` that departed in the time from `from` to `to`.
pub(crate) fn served(departures: &[Departure], member: FlowIndex, from: Time, to: Time) -> u64 {
    let within = |it: &&Departure| it.member == member && from <= it.at && it.at < to;
    departures.iter().filter(within).map(|it| it.bytes).sum()
}

/// Bytes that each member sends until `end`, by the recurrence that defines `logical-partitions`.
///
/// Computes the tokens of all members every 200 us, in real numbers.
pub(crate) fn recurrence(
    profile: &Profile,
    shares: &[Share],
    arrivals: &[Arrival],
    end: Time,
) -> Vec<u64> {
    let mut model = Recurrence::new(profile, shares);
    let mut arrivals = arrivals.iter().peekable();
    let step = Duration::from_micros(200);
    let mut now = Time::ZERO;
    while now < end {
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.at <= now) {
            model.members[arrival.member.index()].queue.push_back(arrival.bytes as f64);
        }
        model.serve(now);
        model.advance(now, step);
        now += step;
    }
    model.members.iter().map(|member| member.sent as u64).collect()
}

struct Recurrence {
    rate: f64,
    burst: f64,
    excess: f64,
    members: Vec<Modelled>,
}

struct Modelled {
    weight: f64,
    rtt: f64,
    tokens: f64,
    /// Excess that the member has received. The member with the least excess per weight is served
    /// next.
    given: f64,
    active: Time,
    queue: VecDeque<f64>,
    sent: f64,
}

impl Modelled {
    fn counts(&self, now: Time) -> bool {
        !self.queue.is_empty() || now.since(self.active).as_secs_f64() < (2.0 * self.rtt).max(1.0)
    }
}

impl Recurrence {
    fn new(profile: &Profile, shares: &[Share]) -> Self {
        let known = || shares.iter().filter_map(|share| Some((share.weight, share.rtt?)));
        let weight: f64 = known().map(|(weight, _)| f64::from(weight)).sum();
        let sum: f64 = known().map(|(weight, rtt)| f64::from(weight) * rtt.as_secs_f64()).sum();
        let mean = if weight > 0.0 { sum / weight } else { 1.0 };
        let member = |share: &Share| Modelled {
            weight: share.weight.into(),
            rtt: share.rtt.map_or(mean, |rtt| rtt.as_secs_f64()),
            tokens: 0.0,
            given: 0.0,
            active: Time::ZERO,
            queue: VecDeque::new(),
            sent: 0.0,
        };
        let burst = profile.burst().0 as f64;
        let members = shares.iter().map(member).collect();
        Self { rate: profile.mean().bps() as f64 / 8.0, burst, excess: burst, members }
    }

    fn advance(&mut self, now: Time, step: Duration) {
        let counting = || self.members.iter().filter(|it| it.counts(now));
        let weights: f64 = counting().map(|it| it.weight).sum();
        let reach: f64 = counting().map(|it| it.weight * it.rtt).sum();
        let earned = self.rate * step.as_secs_f64();
        let mut spill = if weights == 0.0 { earned } else { 0.0 };
        for it in &mut self.members {
            if !it.counts(now) {
                spill += std::mem::take(&mut it.tokens);
                continue;
            }
            let tokens = it.tokens + earned * it.weight / weights;
            // The recurrence assumes that a part is at least as long as a packet. Otherwise, a
            // waiting member could never save enough tokens.
            let head = it.queue.front().copied().unwrap_or(0.0);
            let depth = (self.burst * it.weight * it.rtt / reach).max(head);
            spill += (tokens - depth).max(0.0);
            it.tokens = tokens.min(depth);
        }
        let saved: f64 = self.members.iter().map(|it| it.tokens).sum();
        self.excess = (self.excess + spill).min(self.burst - saved).max(0.0);
    }

    fn serve(&mut self, now: Time) {
        loop {
            let waiting = self.members.iter().filter(|it| !it.queue.is_empty());
            let level = waiting.map(|it| it.given / it.weight).min_by(f64::total_cmp);
            let Some(level) = level else { return };
            for it in &mut self.members {
                match it.queue.front() {
                    Some(_) => it.active = now,
                    None => it.given = it.given.max(level * it.weight),
                }
            }
            let next = self.members.iter_mut().filter(|it| !it.queue.is_empty()).min_by(|a, b| {
                (need(a) > 0.0)
                    .cmp(&(need(b) > 0.0))
                    .then((a.given / a.weight).total_cmp(&(b.given / b.weight)))
            });
            let Some(it) = next.filter(|it| need(it) <= self.excess) else { return };
            let need = need(it);
            let len = it.queue.pop_front().unwrap_or(0.0);
            it.sent += len;
            it.tokens -= len - need;
            it.given += need;
            self.excess -= need;
        }
    }
}

/// Tokens that the first packet needs beyond those of its member.
fn need(it: &Modelled) -> f64 {
    it.queue.front().map_or(0.0, |len| (len - it.tokens).max(0.0))
}
