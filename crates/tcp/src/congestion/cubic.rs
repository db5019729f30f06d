//! CUBIC: the window grows by a cubic function of the time since the last reduction.
//!
//! Law, in segments and seconds: `W(t) = C (t - K)^3 + W_max`, where `W_max` is the window before
//! the reduction. The curve reaches `W_max` again at `K = cbrt((W_max - cwnd) / C)`.
//!
//! Each acknowledged segment adds `(target - cwnd) / cwnd`, with `target = W(t + rtt)` between
//! `cwnd` and `1.5 cwnd`. The window is at least `W_est`, the mean window of Reno. `W_est` grows by
//! `3 (1 - beta) / (1 + beta)` segments per round trip up to the window before the reduction, and
//! by one segment per round trip above it.
//!
//! A reduction multiplies the window by `beta`. If the window was smaller than at the previous
//! reduction, `W_max` is reduced further (fast convergence). The first slow start uses HyStart++.
//!
//! Source: RFC 9438, section 4 (the window before the reduction is kept in bytes); RFC 9406
//! (`hystart`); RFC 8511 (`beta_ecn`).
//! Differs:
//! - Times are integers in units of 2^-20 s, windows are integers in bytes.
//! - The sender's profile selects the base of a reduction. RFC 9438 reduces from the bytes in
//!   flight.
//! - Linux differs from the RFC and from this file in `beta` (717/1024), in its older HyStart, and
//!   in growth by at least 5 % per round trip before the first loss.

use std::time::Duration;

use tidegate_base::{Factor, Time, parameters};

use super::growth::Growth;
use super::hystart::{HyStart, Verdict};
use super::{Ack, CongestionControl, Counting, Signal, Window};

parameters! {
    /// Steepness of the curve, and reduction factors.
    pub Config {
        /// `C`, in segments per second cubed.
        c: Factor = Factor::from_millionths(400_000);
        /// Factor of the window after a loss.
        beta: Factor = Factor::from_millionths(700_000), in ..=Factor::ONE;
        /// Factor of the window after ECN-Echo; 0.85 is the alternative backoff of RFC 8511.
        beta_ecn: Factor = Factor::from_millionths(700_000), in ..=Factor::ONE;
        /// Fast convergence: a flow whose share shrinks yields faster.
        fast_convergence: bool = true;
        /// The first slow start uses HyStart++.
        hystart: bool = true;
    }
}

impl Config {
    pub(super) fn build(&self, counting: Counting) -> Cubic {
        let (one, beta) = (Factor::ONE.millionths(), self.beta.millionths());
        Cubic {
            config: Self { c: self.c.min(STEEPEST), ..self.clone() },
            alpha: Factor::from_millionths(3 * one * (one - beta) / (one + beta)),
            growth: Growth::new(counting),
            hystart: self.hystart.then(HyStart::default),
            state: CubicState { w_max: None, prior: 0, epoch: None },
            undo: None,
            last: Time::ZERO,
        }
    }
}

/// The largest `C`, in segments per second cubed, for which the arithmetic cannot overflow.
const STEEPEST: Factor = Factor::from_millionths(1_000_000 * 1_000_000);

pub(super) struct Cubic {
    config: Config,
    /// Segments per round trip by which `W_est` grows at first.
    alpha: Factor,
    growth: Growth,
    hystart: Option<HyStart>,
    state: CubicState,
    /// State before the last reduction.
    undo: Option<CubicState>,
    /// Arrival time of the last ACK.
    last: Time,
}

#[derive(Clone, Copy, Debug)]
struct CubicState {
    /// Height of the plateau in bytes. `None` before the first loss and after a timeout: the
    /// plateau is then the window at the start of congestion avoidance.
    w_max: Option<u64>,
    /// The window before the last reduction. Zero before the first reduction, so that `W_est` grows
    /// as in Reno.
    prior: u64,
    epoch: Option<Epoch>,
}

/// A period of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    curve: Curve,
    /// `W_est` in bytes, and its fraction of a byte times the window.
    estimate: u64,
    estimate_carried: u64,
    /// Fraction of a byte of the window, times the window.
    carried: u64,
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        let since_last = ack.now.since(self.last);
        self.last = ack.now;
        if !ack.may_grow {
            // The epoch does not include time in which the window may not grow.
            self.postpone(since_last);
            return;
        }
        let rest = if window.in_slow_start() { self.slow_start(window, ack) } else { ack.bytes };
        if rest > 0 {
            self.avoid(window, ack, rest);
        }
    }

    fn on_signal(&mut self, _now: Time, window: &mut Window, flight: u64, signal: Signal) {
        self.growth.restart(matches!(signal, Signal::Timeout { .. }));
        self.hystart = None;
        if signal == (Signal::Timeout { again: true }) {
            return;
        }
        self.undo = Some(self.state);
        let cwnd = window.congestion;
        let less_than_before = self.state.w_max.is_some_and(|w_max| cwnd < w_max);
        let w_max = if less_than_before && self.config.fast_convergence {
            (cwnd + self.config.beta.of(cwnd)) / 2
        } else {
            cwnd
        };
        let w_max = (!matches!(signal, Signal::Timeout { .. })).then_some(w_max);
        self.state = CubicState { w_max, prior: cwnd, epoch: None };
        let beta = if signal == Signal::Echo { self.config.beta_ecn } else { self.config.beta };
        window.threshold = beta.of(flight).max(window.floor);
    }

    fn on_undo(&mut self, _now: Time, _window: &mut Window) {
        if let Some(state) = self.undo.take() {
            self.state = state;
        }
    }

    fn on_idle(&mut self, now: Time, _window: &mut Window, _idle: Duration) {
        self.postpone(now.since(self.last));
        self.last = now;
    }
}

impl Cubic {
    fn postpone(&mut self, span: Duration) {
        if let Some(epoch) = &mut self.state.epoch {
            epoch.start += span;
        }
    }

    /// Grows in slow start. Returns the bytes acknowledged beyond the threshold.
    fn slow_start(&mut self, window: &mut Window, ack: &Ack) -> u64 {
        match self.hystart.as_mut().map_or(Verdict::Full, |hystart| hystart.observe(ack)) {
            Verdict::Full => self.growth.slow_start(window, ack.bytes),
            Verdict::Conservative => {
                self.growth.conservative(window, ack.bytes);
                0
            }
            Verdict::Leave => {
                self.hystart = None;
                window.threshold = window.congestion;
                ack.bytes
            }
        }
    }

    fn avoid(&mut self, window: &mut Window, ack: &Ack, bytes: u64) {
        let cwnd = window.congestion.max(1);
        if self.state.epoch.is_none() {
            self.begin_epoch(ack.now, cwnd, window.segment);
        }
        let bytes = self.growth.counted(window, bytes);
        let Some(epoch) = &mut self.state.epoch else { return };
        let alpha = if epoch.estimate < self.state.prior { self.alpha } else { Factor::ONE };
        epoch.estimate_carried += alpha.of(window.segment * bytes);
        epoch.estimate += epoch.estimate_carried / cwnd;
        epoch.estimate_carried %= cwnd;
        let elapsed = ack.now.since(epoch.start);
        if epoch.curve.at(elapsed) < epoch.estimate {
            window.congestion = cwnd.max(epoch.estimate);
        } else {
            let target = epoch.curve.at(elapsed + ack.smoothed_rtt).clamp(cwnd, cwnd + cwnd / 2);
            epoch.carried += (target - cwnd) * bytes;
            window.congestion += epoch.carried / cwnd;
            epoch.carried %= cwnd;
        }
    }

    fn begin_epoch(&mut self, now: Time, cwnd: u64, segment: u64) {
        let w_max = self.state.w_max.map_or(cwnd, |w_max| w_max.max(cwnd));
        self.state.w_max = Some(w_max);
        self.state.epoch = Some(Epoch {
            start: now,
            curve: Curve::new(self.config.c, segment, w_max, cwnd),
            estimate: cwnd,
            estimate_carried: 0,
            carried: 0,
        });
    }
}

/// The curve `C (t - K)^3 + W_max`.
#[derive(Clone, Copy, Debug)]
struct Curve {
    w_max: u64,
    /// Time in ticks at which the curve reaches `w_max`.
    k: i64,
    /// `C` in bytes instead of segments, in units of 2^-20.
    steepness: i128,
}

/// A tick is 2^-20 s: the number of fractional bits of a second.
const TICK: u32 = 20;

impl Curve {
    /// The curve from `cwnd` at time 0 to `w_max` at time `k`.
    fn new(c: Factor, segment: u64, w_max: u64, cwnd: u64) -> Self {
        let bytes = u128::from(c.millionths()) * u128::from(segment);
        let million = u128::from(Factor::ONE.millionths());
        // (w_max - cwnd) / (c * segment), in cubed ticks.
        let below = u128::from((w_max - cwnd).min(1 << 44));
        let cube = ((below * million) << (3 * TICK)) / bytes.max(1);
        Self {
            w_max,
            k: i64::try_from(cube_root(cube)).unwrap_or(FARTHEST).min(FARTHEST),
            steepness: i128::try_from((bytes << TICK) / million).unwrap_or(i128::MAX >> TICK),
        }
    }

    /// The value of the curve in bytes, rounded down.
    fn at(&self, elapsed: Duration) -> u64 {
        let from_k = (ticks(elapsed) - self.k).clamp(-FARTHEST, FARTHEST);
        let cubed = (((from_k * from_k) >> TICK) * from_k) >> TICK;
        let above = (i128::from(cubed) * self.steepness) >> (2 * TICK);
        u64::try_from((i128::from(self.w_max) + above).max(0)).unwrap_or(u64::MAX)
    }
}

/// 128 s, whose cube still fits. At that distance the curve is 839,000 segments from its plateau.
const FARTHEST: i64 = 1 << (TICK + 7);

fn ticks(span: Duration) -> i64 {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).min(1 << 40);
    i64::try_from((micros << TICK) / 1_000_000).unwrap_or(FARTHEST)
}

/// The largest number whose cube is at most `cube`, digit by digit.
fn cube_root(cube: u128) -> u64 {
    let mut root: u64 = 0;
    for digit in (0..42).rev() {
        let next = root | (1 << digit);
        let wide = u128::from(next);
        if wide * wide * wide <= cube {
            root = next;
        }
    }
    root
}

#[cfg(test)]
mod tests;
