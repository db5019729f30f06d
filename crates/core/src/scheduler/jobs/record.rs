//! Promises and their fulfilment, and how often each promise was broken.
//!
//! A packet that waits longer than the delay bound violates it. A drop that raises the loss in the
//! busy period above the loss bound violates the loss bound. Rates and ratios are judged in windows
//! of 0.5 s in which the classes were backlogged throughout. A guarantee is violated if its class
//! sends less, by more than one packet. A ratio that is off by more than a quarter is violated.
//!
//! This file contains methods of `Jobs`, whose fields are in `jobs.rs`.

use std::time::Duration;

use super::class::JobsClass;
use super::rates::WINDOW;
use super::{Jobs, Promises};
use crate::scheduler::{Delays, Kept, Relation, Term};
use crate::units::real;
use crate::{Bytes, Time};

/// Fulfilment of the promises to one class since its creation.
#[derive(Debug, Default)]
pub(super) struct ClassRecord {
    /// Bytes that arrived, and bytes that were dropped.
    pub(super) arrived: u64,
    pub(super) dropped: u64,
    delays: Delays,
    late: u64,
    pub(super) beyond_loss_bound: u64,
    /// Windows with a continuous backlog, bytes sent in them, and broken guarantees.
    busy_windows: u64,
    busy_bytes: u64,
    too_slow: u64,
    off_delay_ratio: u64,
    off_loss_ratio: u64,
    pub(super) relaxed: Relaxed,
}

/// Number of times each promise was relaxed, because other promises have precedence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Relaxed {
    pub(super) loss_bound: u64,
    pub(super) delay_bound: u64,
    pub(super) guarantee: u64,
    pub(super) delay_ratio: u64,
    pub(super) loss_ratio: u64,
}

/// The current window of all classes.
#[derive(Debug, Default)]
pub(super) struct Window {
    until: Time,
}

/// The current window of one class.
#[derive(Debug)]
pub(super) struct ClassWindow {
    /// The class was not backlogged all the time.
    pub(super) interrupted: bool,
    /// Bytes sent.
    pub(super) sent: u64,
    /// Packets sent, and the sum of their queueing delays in nanoseconds.
    pub(super) packets: u64,
    pub(super) delays: u64,
}

/// Part by which a ratio may deviate, as in the claims of `marking`, section 6.
const TOLERANCE: f64 = 0.25;

/// A full-size packet: a class may fall short of its guarantee by this much in a window.
const PACKET: Bytes = Bytes(1_538);

impl ClassRecord {
    /// Notes that a packet was sent after `delay`.
    pub(super) fn sent(&mut self, delay: Duration, bound: Option<Duration>) {
        self.delays.packets += 1;
        self.delays.total += delay;
        self.delays.longest = self.delays.longest.max(delay);
        self.late += u64::from(bound.is_some_and(|bound| delay > bound));
    }

    pub(super) const fn delays(&self) -> Delays {
        self.delays
    }

    fn loss(&self) -> Option<f64> {
        (self.arrived > 0).then(|| real(self.dropped) / real(self.arrived))
    }

    fn mean_delay(&self) -> Option<f64> {
        self.delays.mean().map(|mean| mean.as_secs_f64())
    }

    fn longest_delay(&self) -> Option<f64> {
        let Delays { packets, longest, .. } = self.delays;
        (packets > 0).then_some(longest.as_secs_f64())
    }

    fn busy_rate(&self) -> Option<f64> {
        let span = real(self.busy_windows) * WINDOW.as_secs_f64();
        (self.busy_windows > 0).then(|| 8.0 * real(self.busy_bytes) / span)
    }
}

impl Jobs {
    /// Judges the promises of a window that has ended.
    pub(super) fn end_windows(&mut self, now: Time) {
        if now < self.window.until {
            return;
        }
        let is_whole = now.since(self.window.until) < WINDOW;
        self.window.until = now + WINDOW;
        for at in (0..self.classes.len()).filter(|_| is_whole) {
            self.end_window(at);
        }
        for class in &mut self.classes {
            class.window = ClassWindow::new(class.backlogged);
        }
    }

    fn end_window(&mut self, at: usize) {
        let class = &self.classes[at];
        if class.window.interrupted {
            return;
        }
        let guaranteed = class.terms.guarantee.bytes_in(WINDOW);
        let too_slow = class.window.sent < guaranteed.saturating_sub(PACKET).0;
        let sent = class.window.sent;
        let off = |relation: Option<Relation>, of: &dyn Fn(&JobsClass) -> Option<f64>| {
            let broken = relation.and_then(|it| {
                let other = self.classes.get(it.of.index())?;
                let ratio = of(class)? / of(other).filter(|of| *of > 0.0)?;
                Some((ratio / it.factor.real() - 1.0).abs() > TOLERANCE)
            });
            u64::from(broken == Some(true))
        };
        let off_delay_ratio = off(class.promises.delay_ratio, &|it| it.window.mean_delay());
        let off_loss_ratio =
            off(class.promises.loss_ratio, &|it| (!it.window.interrupted).then(|| it.loss()));
        let record = &mut self.classes[at].record;
        record.busy_windows += 1;
        record.busy_bytes += sent;
        record.too_slow += u64::from(too_slow);
        record.off_delay_ratio += off_delay_ratio;
        record.off_loss_ratio += off_loss_ratio;
    }
}

impl ClassWindow {
    pub(super) const fn new(backlogged: bool) -> Self {
        Self { interrupted: !backlogged, sent: 0, packets: 0, delays: 0 }
    }

    fn mean_delay(&self) -> Option<f64> {
        let whole = !self.interrupted && self.packets > 0;
        whole.then(|| real(self.delays) / real(self.packets))
    }
}

/// The promises to class `at`, and their fulfilment.
pub(super) fn kept(classes: &[JobsClass], at: usize) -> Vec<Kept> {
    let class = &classes[at];
    let (record, relaxed, terms) = (&class.record, &class.record.relaxed, &class.terms);
    let all = [
        (terms.guarantee.bps() > 0).then(|| Kept {
            promised: real(terms.guarantee.bps()),
            kept: record.busy_rate(),
            violations: record.too_slow,
            relaxed: relaxed.guarantee,
            ..Kept::of(Term::GUARANTEE)
        }),
        terms.delay_bound.map(|bound| Kept {
            promised: bound.as_secs_f64(),
            kept: record.longest_delay(),
            violations: record.late,
            relaxed: relaxed.delay_bound,
            ..Kept::of(Term::DELAY_BOUND)
        }),
        class.promises.loss_bound.map(|bound| Kept {
            promised: bound.real(),
            kept: record.loss(),
            violations: record.beyond_loss_bound,
            relaxed: relaxed.loss_bound,
            ..Kept::of(Promises::LOSS_BOUND)
        }),
        class.promises.delay_ratio.map(|relation| Kept {
            of: Some(relation.of),
            promised: relation.factor.real(),
            kept: ratio(classes, record, relation, ClassRecord::mean_delay),
            violations: record.off_delay_ratio,
            relaxed: relaxed.delay_ratio,
            ..Kept::of(Promises::DELAY_RATIO)
        }),
        class.promises.loss_ratio.map(|relation| Kept {
            of: Some(relation.of),
            promised: relation.factor.real(),
            kept: ratio(classes, record, relation, ClassRecord::loss),
            violations: record.off_loss_ratio,
            relaxed: relaxed.loss_ratio,
            ..Kept::of(Promises::LOSS_RATIO)
        }),
    ];
    all.into_iter().flatten().collect()
}

fn ratio(
    classes: &[JobsClass],
    own: &ClassRecord,
    relation: Relation,
    of: impl Fn(&ClassRecord) -> Option<f64>,
) -> Option<f64> {
    let other = of(&classes.get(relation.of.index())?.record).filter(|it| *it > 0.0)?;
    Some(of(own)? / other)
}
