//! One class of the scheduler `jobs`: its curves of arrived and departed bytes in this busy period,
//! and the arrival times of its waiting packets.

use std::collections::VecDeque;
use std::time::Duration;

use super::Promises;
use super::record::{ClassRecord, ClassWindow};
use super::weights::Weight;
use crate::class::{Sent, Terms};
use crate::scheduler::ClassState;
use crate::units::real;
use crate::{Bytes, Rate, Time};

#[derive(Debug)]
pub(super) struct JobsClass {
    pub(super) terms: Terms,
    /// Promises that only JoBS makes.
    pub(super) promises: Promises,
    /// Position in the file: a class that comes earlier has the higher priority.
    pub(super) rank: u32,
    /// Weight among classes with delay ratios, and among classes with loss ratios.
    pub(super) delay_weight: Option<Weight>,
    pub(super) loss_weight: Option<Weight>,
    pub(super) sent: Sent,
    pub(super) record: ClassRecord,
    pub(super) window: ClassWindow,
    /// The queue of the class has packets.
    pub(super) backlogged: bool,
    /// Service rate in bits per second.
    pub(super) rate: f64,
    /// The rate that the absolute promises need, at most `rate`.
    pub(super) floor: f64,
    /// Bytes that arrived, were dropped and departed in this busy period.
    arrived: u64,
    dropped: u64,
    departed: u64,
    /// The theoretical output in bytes, and the time at which it last grew.
    pub(super) theory: f64,
    theory_at: Option<Time>,
    /// Sum and number of the values of related classes, during a computation. Only the class at
    /// the root of a tree of ratios uses it.
    pub(super) scratch: (f64, f64),
    /// The rate that the delay ratios require.
    pub(super) target: f64,
    /// Waiting packets, the oldest first.
    waiting: VecDeque<QueuedPacket>,
    /// Bytes of the waiting packets.
    backlog: Bytes,
    /// Queueing delay of the packet that was sent last.
    delay: Duration,
}

/// A packet that waits in the shared buffer.
#[derive(Clone, Copy, Debug)]
struct QueuedPacket {
    /// Time of its arrival.
    since: Time,
    /// Charged length of the packet.
    len: Bytes,
}

impl Default for JobsClass {
    fn default() -> Self {
        Self::new(Terms::NONE)
    }
}

impl JobsClass {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            promises: Promises::default(),
            rank: 0,
            delay_weight: None,
            loss_weight: None,
            sent: Sent::default(),
            record: ClassRecord::default(),
            window: ClassWindow::new(false),
            backlogged: false,
            rate: 0.0,
            floor: 0.0,
            arrived: 0,
            dropped: 0,
            departed: 0,
            theory: 0.0,
            theory_at: None,
            scratch: (0.0, 0.0),
            target: 0.0,
            waiting: VecDeque::new(),
            backlog: Bytes::ZERO,
            delay: Duration::ZERO,
        }
    }

    /// Resets all curves to zero.
    pub(super) const fn begin_busy_period(&mut self) {
        (self.arrived, self.dropped, self.departed) = (0, 0, 0);
        self.theory = 0.0;
        self.theory_at = None;
    }

    /// Advances the theoretical output to `now`.
    pub(super) fn grow(&mut self, now: Time) {
        if let Some(before) = self.theory_at.replace(now) {
            self.theory += self.rate / 8.0 * now.since(before).as_secs_f64();
        }
    }

    pub(super) fn arrived(&mut self, now: Time, len: Bytes) {
        self.arrived += len.0;
        self.record.arrived += len.0;
        self.backlog += len;
        self.waiting.push_back(QueuedPacket { since: now, len });
    }

    /// Removes the newest packet, which was dropped. Returns its length.
    pub(super) fn dropped(&mut self) -> Bytes {
        let Some(QueuedPacket { len, .. }) = self.waiting.pop_back() else { return Bytes::ZERO };
        self.dropped += len.0;
        self.backlog -= len;
        self.record.dropped += len.0;
        if !self.keeps_loss_bound(Bytes::ZERO) {
            self.record.beyond_loss_bound += 1;
        }
        len
    }

    /// Notes that the class has sent `len` bytes. Returns the bytes that departed from the buffer.
    pub(super) fn sent(&mut self, now: Time, len: Bytes) -> Bytes {
        self.departed += len.0;
        if len > Bytes::ZERO {
            self.sent.packets += 1;
            self.sent.bytes += len.0;
            self.window.sent += len.0;
        }
        // Control traffic has its own queue.
        let Some(QueuedPacket { since, len }) = self.waiting.pop_front() else {
            return Bytes::ZERO;
        };
        self.backlog -= len;
        self.delay = now.since(since);
        self.record.sent(self.delay, self.terms.delay_bound);
        self.window.delays += nanos(self.delay);
        self.window.packets += 1;
        len
    }

    /// Removes the packet that arrived at `since`, which was moved to another class. Returns its
    /// length.
    pub(super) fn withdraw(&mut self, since: Time) -> Bytes {
        let at = self.waiting.partition_point(|waiting| waiting.since < since);
        let len = self.waiting.remove(at).map_or(Bytes::ZERO, |waiting| waiting.len);
        self.forget(len);
        len
    }

    /// Removes all packets, which were moved to other classes. Returns their bytes.
    pub(super) fn withdraw_all(&mut self) -> Bytes {
        let all = self.backlog;
        self.waiting.clear();
        self.forget(all);
        all
    }

    fn forget(&mut self, len: Bytes) {
        self.backlog = self.backlog.saturating_sub(len);
        self.arrived = self.arrived.saturating_sub(len.0);
        self.record.arrived = self.record.arrived.saturating_sub(len.0);
    }

    /// Bytes that arrived in this busy period and were not dropped: `R_in`.
    pub(super) const fn input(&self) -> u64 {
        self.arrived.saturating_sub(self.dropped)
    }

    /// Bytes by which the output lags behind the theoretical output.
    pub(super) fn behind(&self) -> f64 {
        self.theory - real(self.departed)
    }

    pub(super) const fn backlog(&self) -> Bytes {
        self.backlog
    }

    /// Age of the oldest packet.
    pub(super) fn age(&self, now: Time) -> Duration {
        self.waiting.front().map_or(Duration::ZERO, |oldest| now.since(oldest.since))
    }

    /// Length of the newest packet.
    pub(super) fn newest(&self) -> Option<Bytes> {
        self.waiting.back().map(|newest| newest.len)
    }

    /// Loss in this busy period: dropped bytes divided by arrived bytes.
    pub(super) fn loss(&self) -> f64 {
        real(self.dropped) / real(self.arrived.max(1))
    }

    /// Returns `true` if the loss bound holds after a further drop of `len` bytes.
    pub(super) fn keeps_loss_bound(&self, len: Bytes) -> bool {
        let lost = u128::from(self.dropped + len.0) * 1_000_000_000;
        self.promises
            .loss_bound
            .is_none_or(|bound| lost <= u128::from(self.arrived) * u128::from(bound.ppb()))
    }

    /// Time until the deadline of the oldest packet; `None` without a delay bound.
    pub(super) fn until_deadline(&self, now: Time) -> Option<Duration> {
        Some(self.terms.delay_bound?.saturating_sub(self.age(now)))
    }

    /// The rate that the guarantee and the delay bound need, at most the rate of the link.
    pub(super) fn needs(&self, now: Time, link: f64) -> f64 {
        let bound = self.until_deadline(now).map_or(0.0, |left| {
            let needed = 8.0 * real(self.backlog().0) / left.as_secs_f64();
            if needed.is_finite() { needed } else { link }
        });
        bound.max(real(self.terms.guarantee.bps())).min(link)
    }

    /// Returns `true` if the backlog cannot depart before its deadline at this rate.
    pub(super) fn misses_deadline(&self, now: Time) -> bool {
        self.until_deadline(now).is_some_and(|left| {
            8.0 * real(self.backlog().0) > left.as_secs_f64() * self.rate + ROUNDING
        })
    }

    /// Group and weighted delay, if the class is backlogged and has a delay ratio.
    pub(super) fn weighted_delay(&self, now: Time) -> Option<(usize, f64)> {
        let weight = self.delay_weight.filter(|_| self.backlogged)?;
        Some((weight.group, weight.part * self.age(now).as_secs_f64()))
    }

    /// Returns `true` if the class has a promise, or is the reference of a ratio.
    pub(super) fn has_promises(&self) -> bool {
        let terms = &self.terms;
        terms.guarantee.bps() > 0
            || terms.delay_bound.is_some()
            || self.promises.loss_bound.is_some()
            || self.delay_weight.is_some()
            || self.loss_weight.is_some()
    }

    /// The state for a marking.
    pub(super) fn state(&self) -> ClassState {
        ClassState {
            rate: whole(self.rate),
            backlog: self.backlog,
            guarantee: self.terms.guarantee,
            delay_bound: self.terms.delay_bound,
            delay: self.delay,
        }
    }
}

/// Tolerated rounding error of reals, in bits.
const ROUNDING: f64 = 1.0;

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// `rate`, which is neither negative nor infinite, in whole bits per second.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded down"
)]
const fn whole(rate: f64) -> Rate {
    Rate::from_bps(rate as u64)
}
