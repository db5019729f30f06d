//! The rates of the classes: work conservation, absolute promises (delay bounds and guarantees),
//! and delay ratios.
//!
//! Delay ratios are kept by a proportional controller. Let `D_i` be the age of the oldest packet of class `i`,
//! `w_i` its weight, and `R` the backlogged classes with delay ratios. With one adjustment for each arrival,
//!
//! ```text
//! r_i += gain * (w_i D_i - mean over R of w_j D_j)
//! gain = 2 / (max w * mean packet) * upper^2 * share * load * max(load, 1)
//! ```
//!
//! - `upper`: rate of the link without the rates of backlogged classes that have no delay ratio.
//! - `share`: the smallest `R_in` of a class with promises, divided by the sum of `R_in` over
//!   classes with delay ratios. `R_in` is the number of bytes that arrived in the busy period and
//!   were not dropped.
//! - `load`: offered load of the current window, relative to the link.
//!
//! No rate falls below the need of the absolute promises of its class. Classes of the lowest
//! priority give up rate first.
//!
//! Source: `marking`, section 3; ns-2 2.35, `queue/jobs.cc` (gain, order in which classes give up
//! rate).
//!
//! This file contains methods of `Jobs`, whose fields are in `jobs.rs`.

use std::time::Duration;

use super::Jobs;
use super::class::JobsClass;
use super::loss::may_drop;
use crate::units::real;
use crate::{Bytes, Time};

/// Offered load since the start of the last window.
#[derive(Debug, Default)]
pub(super) struct OfferedLoad {
    /// Last arrival before the window.
    since: Time,
    until: Time,
    last: Time,
    bits: f64,
    packets: f64,
}

/// Length of a window of the offered load.
///
/// Source: ns-2 2.35, `queue/jobs.h` (`MON_WINDOW_SIZE`).
pub(super) const WINDOW: Duration = Duration::from_millis(500);

/// Rates below this count as zero, in bits per second.
const NO_RATE: f64 = 1.0;

impl OfferedLoad {
    pub(super) fn note(&mut self, now: Time, len: Bytes) {
        if now >= self.until {
            (self.since, self.until) = (self.last, now + WINDOW);
            (self.bits, self.packets) = (0.0, 0.0);
        }
        self.last = now;
        self.bits += 8.0 * real(len.0);
        self.packets += 1.0;
    }

    /// Load relative to `link`, which is in bits per second, and mean packet length in bits. `None`
    /// if no time has passed.
    fn measured(&self, link: f64) -> Option<(f64, f64)> {
        let span = self.last.since(self.since).as_secs_f64();
        (span > 0.0 && self.bits > 0.0)
            .then(|| (self.bits / (span * link), self.bits / self.packets))
    }
}

impl Jobs {
    /// Gives each backlogged class the same rate, and other classes none.
    pub(super) fn split_evenly(&mut self) {
        let each = self.link_bps() / f64::from(self.backlogged.max(1));
        for class in &mut self.classes {
            (class.rate, class.floor) = (if class.backlogged { each } else { 0.0 }, 0.0);
        }
    }

    fn link_bps(&self) -> f64 {
        real(self.link.bps())
    }

    /// Gives classes the rates that their delay bounds and guarantees need. If that is impossible,
    /// returns the class that must drop a packet.
    pub(super) fn keep_bounds(&mut self, now: Time) -> Option<usize> {
        let starved = |class: &JobsClass| class.backlogged && class.rate < NO_RATE;
        if std::mem::take(&mut self.changed) || self.classes.iter().any(starved) {
            self.split_evenly();
        }
        let link = self.link_bps();
        let mut short = false;
        for class in self.classes.iter_mut().filter(|class| class.backlogged) {
            class.floor = class.needs(now, link);
            short |= class.floor > class.rate;
        }
        if !short {
            return None;
        }
        self.transfer();
        for at in self.order.iter().copied() {
            let class = &mut self.classes[at];
            if !class.backlogged {
                continue;
            }
            if class.misses_deadline(now) {
                if may_drop(class) {
                    return Some(at);
                }
                class.record.relaxed.delay_bound += 1;
            }
            if class.rate + NO_RATE < real(class.terms.guarantee.bps()) {
                class.record.relaxed.guarantee += 1;
            }
            class.floor = class.floor.min(class.rate);
        }
        None
    }

    /// Moves rate from the lowest classes with spare rate to the highest classes that need more.
    fn transfer(&mut self) {
        let mut donors = self.order.len();
        for to in 0..self.order.len() {
            let to = self.order[to];
            loop {
                let needed = self.classes[to].floor - self.classes[to].rate;
                if !self.classes[to].backlogged || needed <= 0.0 {
                    break;
                }
                let spare = |at: &usize| {
                    let class = &self.classes[self.order[*at]];
                    class.backlogged && class.rate > class.floor
                };
                let Some(donor) = (0..donors).rev().find(spare) else { return };
                donors = donor + 1;
                let donor = &mut self.classes[self.order[donor]];
                let given = needed.min(donor.rate - donor.floor);
                donor.rate = if given < needed { donor.floor } else { donor.rate - given };
                self.classes[to].rate += given;
            }
        }
    }

    /// Moves rate between classes with delay ratios, towards equal weighted delays.
    pub(super) fn keep_delay_ratios(&mut self, now: Time) {
        let Some(Step { gain, upper }) = self.step() else { return };
        for class in &mut self.classes {
            class.scratch = (0.0, 0.0);
        }
        for at in 0..self.classes.len() {
            if let Some((group, delay)) = self.classes[at].weighted_delay(now) {
                let (sum, count) = self.classes[group].scratch;
                self.classes[group].scratch = (sum + delay, count + 1.0);
            }
        }
        let mut floors = 0.0;
        for at in 0..self.classes.len() {
            let Some((group, delay)) = self.classes[at].weighted_delay(now) else { continue };
            let (sum, count) = self.classes[group].scratch;
            let class = &mut self.classes[at];
            class.target = class.rate + gain * (delay - sum / count);
            floors += class.floor;
        }
        self.saturate(upper, floors);
    }

    /// The gain, and the rate that classes with delay ratios share. `None` if no rate can move.
    fn step(&self) -> Option<Step> {
        let link = self.link_bps();
        let mut upper = link;
        let (mut input, mut least, mut members) = (0.0, f64::INFINITY, 0);
        for class in &self.classes {
            let bytes = real(class.input());
            if class.delay_weight.is_some() {
                input += bytes;
                members += u32::from(class.backlogged);
            } else if class.backlogged {
                upper -= class.rate;
            }
            if class.input() > 0 && class.has_promises() {
                least = bytes.min(least);
            }
        }
        if members < 2 || upper < NO_RATE {
            return None;
        }
        let (load, packet) = self.load.measured(link)?;
        let share = (least / input).min(1.0);
        let gain = 2.0 / packet * upper * upper * share * load * load.max(1.0);
        Some(Step { gain, upper })
    }

    /// Applies the targets: at least the floors, at most `upper`, with the same sum as before.
    fn saturate(&mut self, upper: f64, floors: f64) {
        let member = |class: &JobsClass| class.backlogged && class.delay_weight.is_some();
        let is_above = |at: &usize| {
            let class = &self.classes[*at];
            member(class) && class.target > upper
        };
        let all = self.order.iter().copied().find(is_above);
        if let Some(all) = all {
            let limited = upper + NO_RATE < self.link_bps();
            for (at, class) in self.classes.iter_mut().enumerate().filter(|(_, it)| member(it)) {
                class.rate = if at == all { upper - (floors - class.floor) } else { class.floor };
                class.record.relaxed.delay_ratio += u64::from(limited || class.floor > 0.0);
            }
            return;
        }
        let mut owed = 0.0;
        for class in self.classes.iter_mut().filter(|class| member(class)) {
            if class.target < class.floor {
                owed += class.floor - class.target;
                class.target = class.floor;
                class.record.relaxed.delay_ratio += u64::from(class.floor > 0.0);
            }
        }
        for at in self.order.iter().rev() {
            let class = &mut self.classes[*at];
            if member(class) {
                let paid = (class.target - class.floor).min(owed);
                owed -= paid;
                class.rate = class.target - paid;
            }
        }
    }
}

/// One adjustment of the delay ratios.
struct Step {
    gain: f64,
    upper: f64,
}
