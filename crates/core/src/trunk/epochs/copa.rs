//! How much of the aggregate may be in flight: by the delay that it adds, or, where others fill the
//! queue, by losses.
//!
//! Source: Copa (NSDI 2018), section 2.1 for the window and its velocity, 2.2 for the two modes; as the aggregate control
//! of Bundler (doi 10.1145/3447786.3456260).
//! Differs: it is told a boundary at a time, not each ACK, and moves by the bytes in between; it grows
//! only when as much was under way as the window allowed; no step is more than the bytes acknowledged; a velocity ends
//! at once when the window turns, not at the end of its round trip. What is queued beyond the target and a
//! part of the window is taken back at once, as Nimbus does (doi 10.1145/3544216.3544256, section 3.2, with the rate of arrivals in place of a known
//! one): Copa's steps are packets, and take many round trips back from where its velocity has led an aggregate. The queue is
//! held for nearly empty also when it is below a millisecond, which is what packets of others and of
//! its own bursts make of it. The mode for competition is AIMD of 1/delta by round trips, as there; but as a window
//! that keeps its own queue from emptying would compete with itself, it is halved for two round trips of
//! twenty.

use std::time::Duration;

use super::arrivals::{Arrivals, Arrived};
use super::extreme::Extreme;
use crate::{Rate, Time};

/// What was acknowledged.
pub(super) struct Progress {
    /// Round-trip time of the boundary.
    pub(super) rtt: Duration,
    /// Bytes since the one before.
    pub(super) bytes: u64,
    /// Of these, how many did not arrive; less than zero is what came late.
    pub(super) missing: i64,
    /// What arrived since the one before, if that is known.
    pub(super) arrived: Option<Arrived>,
    /// Whether as much was under way as the window allowed.
    pub(super) full: bool,
}

/// How it looks at the queue of the path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mode {
    /// Nobody else fills it: it is kept almost empty.
    Delay,
    /// Somebody does: as much as one TCP for each `1/delta` takes is taken.
    Competition,
}

/// The window of the aggregate.
pub(super) struct Copa {
    window: u64,
    /// 1/delta: packets that are meant to wait.
    target: u64,
    mode: Mode,
    slow_start: bool,
    velocity: u64,
    /// Which way the window went in the round trip before; its rounds in a row.
    trend: (bool, u32),
    /// Round trips of competition, modulo those from one check to the next.
    competing: u32,
    /// While it is checked whether the queue is its own: the window before.
    checked: Option<u64>,
    /// Of this round trip: when it began, with what window, and bytes missing so far.
    round: (Time, u64, i64),
    srtt: Option<Duration>,
    least: Extreme,
    standing: Extreme,
    greatest: Extreme,
    arrivals: Arrivals,
    /// When the queue was nearly empty last.
    emptied: Time,
}

impl Copa {
    pub(super) fn new(now: Time) -> Self {
        Self {
            window: INITIAL,
            target: TARGET,
            mode: Mode::Delay,
            slow_start: true,
            velocity: 1,
            trend: (true, 0),
            competing: 0,
            checked: None,
            round: (now, INITIAL, 0),
            srtt: None,
            least: Extreme::default(),
            standing: Extreme::default(),
            greatest: Extreme::default(),
            arrivals: Arrivals::default(),
            emptied: now,
        }
    }

    /// Bytes that may be in flight.
    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// The rate at which they leave; `None` before a round-trip time is known.
    pub(super) fn rate(&self) -> Option<Rate> {
        let standing = nanos(self.standing.get()?).max(1);
        let bps = u128::from(self.window) * 8_000_000_000 / u128::from(standing);
        Some(Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
    }

    pub(super) const fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    #[cfg(test)]
    pub(super) const fn mode(&self) -> Mode {
        self.mode
    }

    /// A boundary was acknowledged.
    pub(super) fn on_progress(&mut self, now: Time, it: &Progress) {
        let srtt = self.srtt.map_or(it.rtt, |srtt| (srtt * 7 + it.rtt) / 8);
        self.srtt = Some(srtt);
        let ago = |span: Duration| Time::from_nanos(now.nanos().saturating_sub(nanos(span)));
        self.least.push(now, it.rtt, ago(MEMORY), Duration::lt);
        self.standing.push(now, it.rtt, ago(srtt / 2), Duration::lt);
        self.greatest.push(now, it.rtt, ago(4 * srtt), Duration::gt);
        if let Some(arrived) = it.arrived {
            self.arrivals.push(now, arrived, ago(srtt / 2));
        }
        let of = |extreme: &Extreme| extreme.get().unwrap_or(it.rtt);
        let (least, standing) = (of(&self.least), of(&self.standing));
        let queued = standing.saturating_sub(least);
        let swing = of(&self.greatest).saturating_sub(least);
        if queued < (swing / 10).max(UNSEEN) {
            self.emptied = now;
        }
        self.round.2 += it.missing;
        if now.since(self.round.0) >= srtt {
            self.end_round(now, srtt);
        }
        if self.checked.is_none() {
            self.step(it, least, standing);
        }
    }

    /// Moves the window towards where its packets make the queue that is meant to be.
    fn step(&mut self, it: &Progress, least: Duration, standing: Duration) {
        // window / standing <= target packets / queued; slow start ends by what was seen last.
        let seen = if self.slow_start { it.rtt.saturating_sub(least) } else { standing - least };
        let have = u128::from(self.window) * seen.as_nanos();
        let long = |packets: u64| u128::from(PACKET * packets) * standing.as_nanos();
        let grows = have <= long(self.target);
        if self.velocity > 1 && grows != self.trend.0 {
            (self.velocity, self.trend) = (1, (grows, 0));
        }
        let overshot = self.mode == Mode::Delay && have > long(self.target + self.spare());
        if overshot || (self.slow_start && !grows) {
            self.slow_start = false;
            return self.drain(standing, least);
        }
        let step = if self.slow_start {
            it.bytes
        } else {
            let moved = u128::from(it.bytes) * u128::from(self.velocity * self.target * PACKET);
            let step = moved / u128::from(self.window);
            u64::try_from(step).unwrap_or(u64::MAX).min(it.bytes)
        };
        if !grows {
            self.window = self.window.saturating_sub(step).max(LEAST);
        } else if it.full {
            self.window = self.window.saturating_add(step).min(MOST);
        }
    }

    /// Packets in the queue beyond the target that are not worth taking back at once.
    fn spare(&self) -> u64 {
        (self.window / PACKET / 16).max(1)
    }

    /// What overshot goes: the window is what the path carries, and the target.
    fn drain(&mut self, standing: Duration, least: Duration) {
        let part = u128::from(self.window) * least.as_nanos() / standing.as_nanos().max(1);
        let part = || u64::try_from(part).unwrap_or(u64::MAX);
        let carried = self.arrivals.within(least).unwrap_or_else(part);
        let kept = carried.saturating_add(self.target * PACKET);
        self.window = self.window.min(kept).max(LEAST);
    }

    /// Once in a round trip: the velocity, the mode, and in competition 1/delta.
    fn end_round(&mut self, now: Time, srtt: Duration) {
        let (_, before, missing) = self.round;
        let grew = self.window > before;
        self.trend = if grew == self.trend.0 { (grew, self.trend.1 + 1) } else { (grew, 0) };
        self.velocity = match self.trend.1 {
            rounds if rounds >= 3 && self.window != before => self.velocity.saturating_mul(2),
            _ => 1,
        };
        self.velocity = self.velocity.min(1 << 16);
        self.look_for_others(now, srtt);
        let lost = missing >= 0_i64.saturating_add_unsigned(PACKET);
        self.target = match self.mode {
            Mode::Delay => TARGET,
            Mode::Competition if lost => (self.target / 2).max(TARGET),
            Mode::Competition => self.target.saturating_add(1).min(self.window / PACKET),
        }
        .max(TARGET);
        self.round = (now, self.window, 0);
    }

    /// Whether others fill the queue. While they seem to, the window is halved for two round trips now and
    /// then: a queue that empties then was its own.
    fn look_for_others(&mut self, now: Time, srtt: Duration) {
        if now.since(self.emptied) <= 5 * srtt {
            (self.mode, self.competing, self.checked) = (Mode::Delay, 0, None);
            return;
        }
        self.mode = Mode::Competition;
        self.competing = (self.competing + 1) % CHECK;
        match (self.competing, self.checked) {
            (1, None) => {
                self.checked = Some(self.window);
                self.window = (self.window / 2).max(LEAST);
            }
            (3, Some(window)) => (self.window, self.checked) = (window, None),
            _ => {}
        }
    }

    /// Nothing was heard for too long: as from the beginning, but what delays there are is still known.
    pub(super) fn on_silence(&mut self, now: Time, gone: bool) {
        self.window = if gone { PACKET } else { LEAST };
        (self.slow_start, self.velocity, self.trend) = (true, 1, (true, 0));
        self.round = (now, self.window, 0);
        self.checked = None;
    }
}

/// A packet, of the window and of 1/delta.
pub(super) const PACKET: u64 = 1_500;

/// Source: RFC 6928, section 2.
const INITIAL: u64 = 10 * PACKET;

/// So few that a path without much in flight is still empty at times.
const LEAST: u64 = 2 * PACKET;

const MOST: u64 = 1 << 40;

/// 1/delta where nobody else fills the queue.
const TARGET: u64 = 2;

/// Round trips of competition from one check whether there is any to the next.
const CHECK: u32 = 20;

/// How long the least round-trip time is remembered.
const MEMORY: Duration = Duration::from_secs(10);

/// A queue that is held for empty.
const UNSEEN: Duration = Duration::from_millis(1);

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
