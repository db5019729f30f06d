//! BBR, version 1: paces at the measured bandwidth, and keeps one bandwidth-delay product in
//! flight.
//!
//! Law: `bandwidth` is the greatest delivery rate of the last ten round trips, `min_rtt` the least
//! round-trip time of the last 10 s. The pacing rate is `gain * bandwidth` less 1 %, the window
//! `gain * bandwidth * min_rtt` and a few segments. Each mode has its gains.
//!
//! | mode | pacing gain | window | lasts |
//! |---|---|---|---|
//! | startup | 2/ln 2 | the same gain | until three round trips without 25 % more bandwidth |
//! | drain | ln 2/2 | gain 2/ln 2 | until the data in flight fits the path |
//! | probe bandwidth | 5/4, 3/4, and six times 1 | gain 2 | one `min_rtt` for each gain |
//! | probe RTT | 1 | 4 segments | 200 ms, when `min_rtt` is 10 s old |
//!
//! Losses do not reduce the rate, unless a policer seems to cause them ([`policed`]). At the start
//! of a recovery, the sender sends no more than is delivered.
//!
//! Source: Linux, `tcp_bbr.c`.
//! Differs: times are exact, not jiffies, and windows are bytes. Delayed ACKs are not recognised.
//! Differs: no packets wait below the sender, so the current bytes in flight replace Linux's
//! estimate for the time of the next departure.
//! Differs: the greatest rate is kept for each of the last ten rounds; Linux keeps three values.
//! Differs: the first phase of the cycle is derived from the time and the delivered bytes, so that
//! runs repeat.

mod bandwidth;
mod policed;

use std::time::Duration;

use tidegate_base::random::Random;
use tidegate_base::{Rate, Time, parameters};

use self::bandwidth::Greatest;
use self::policed::Policed;
use super::{Ack, CongestionControl, Counting, Delivery, Signal, Window};

parameters! {
    /// Lifetimes of measurements.
    pub Config {
        /// Age at which the least round-trip time is measured again.
        min_rtt_window: Duration = Duration::from_secs(10);
        /// Least time with four segments in flight for that measurement.
        probe_rtt_time: Duration = Duration::from_millis(200);
        /// Policers on the path are detected.
        detect_policers: bool = true;
    }
}

impl Config {
    /// Counts bytes, regardless of the profile.
    pub(super) fn build(&self, _counting: Counting) -> Bbr {
        Bbr {
            config: self.clone(),
            mode: Mode::Startup,
            pacing: None,
            rtt_known: false,
            bandwidth: Greatest::default(),
            round: Round::default(),
            full: FullPipe::default(),
            min_rtt: None,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            idle_restart: false,
            recovery: RecoveryPhase::No,
            conserve: false,
            prior_window: 0,
            policed: Policed::new(self.detect_policers),
            aggregation: Aggregation::default(),
        }
    }
}

/// A gain, in units of 1/256.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Gain(u32);

impl Gain {
    const ONE: Self = Self(256);
    /// 2 / ln 2: the least gain that doubles the rate every round trip.
    const HIGH: Self = Self(256 * 2_885 / 1_000 + 1);
    const DRAIN: Self = Self(256 * 1_000 / 2_885);
    const WINDOW: Self = Self(256 * 2);
    /// The pacing gains of a cycle.
    const CYCLE: [Self; 8] = [
        Self(256 * 5 / 4),
        Self(256 * 3 / 4),
        Self::ONE,
        Self::ONE,
        Self::ONE,
        Self::ONE,
        Self::ONE,
        Self::ONE,
    ];

    fn of(self, amount: u64) -> u64 {
        let product = u128::from(amount) * u128::from(self.0);
        u64::try_from(product >> 8).unwrap_or(u64::MAX)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    Startup,
    Drain,
    /// The phase of the cycle, and its start time.
    ProbeBandwidth {
        phase: usize,
        since: Time,
    },
    ProbeRtt,
}

/// State of loss recovery.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RecoveryPhase {
    No,
    /// A loss was just detected.
    Entering,
    Fast,
    AfterTimeout,
}

/// Round trips, counted by delivered bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    count: u64,
    /// The round ends with the delivery of a packet that was sent after this many bytes were
    /// delivered.
    end: u64,
    /// This ACK began a round.
    began: bool,
}

/// Detection of a full pipe: the bandwidth no longer grows.
#[derive(Clone, Copy, Debug, Default)]
struct FullPipe {
    bandwidth: u64,
    rounds: u32,
    reached: bool,
}

/// ACK aggregation: bytes delivered beyond the bandwidth estimate.
#[derive(Clone, Copy, Debug, Default)]
struct Aggregation {
    since: Time,
    delivered: u64,
    /// Greatest excess of the last five to ten rounds.
    excess: [u64; 2],
    current: usize,
    age: u32,
}

pub(super) struct Bbr {
    config: Config,
    mode: Mode,
    pacing: Option<Rate>,
    rtt_known: bool,
    /// Greatest delivery rate in bit/s.
    bandwidth: Greatest,
    round: Round,
    full: FullPipe,
    /// Least round-trip time, and its time of measurement.
    min_rtt: Option<(Duration, Time)>,
    probe_rtt_until: Option<Time>,
    probe_rtt_round_done: bool,
    idle_restart: bool,
    recovery: RecoveryPhase,
    /// Packet conservation: no more is sent than is delivered.
    conserve: bool,
    /// The window to restore after recovery or probing.
    prior_window: u64,
    policed: Policed,
    aggregation: Aggregation,
}

impl CongestionControl for Bbr {
    fn on_start(&mut self, window: &Window, rtt: Option<Duration>) {
        self.rtt_known = rtt.is_some();
        self.pacing = Some(initial_rate(window, rtt));
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        self.update_bandwidth(ack);
        self.update_aggregation(window, ack);
        self.update_cycle(window, ack);
        self.check_full_pipe(ack);
        self.check_drained(window, ack);
        self.update_min_rtt(window, ack);
        self.set_pacing_rate(window, ack, self.pacing_gain());
        self.set_window(window, ack);
    }

    fn on_signal(&mut self, now: Time, window: &mut Window, _flight: u64, signal: Signal) {
        self.save_window(window.congestion);
        match signal {
            Signal::Echo => {}
            Signal::Loss => self.recovery = RecoveryPhase::Entering,
            Signal::Timeout { .. } => {
                self.recovery = RecoveryPhase::AfterTimeout;
                self.conserve = false;
                self.full.bandwidth = 0;
                self.round.began = true;
                self.policed.on_ack(now, true, window.segment, None, true);
                window.congestion = window.segment;
            }
        }
    }

    fn on_undo(&mut self, now: Time, _window: &mut Window) {
        (self.full.bandwidth, self.full.rounds) = (0, 0);
        self.policed.reset(now);
    }

    fn on_idle(&mut self, now: Time, window: &mut Window, _idle: Duration) {
        self.idle_restart = true;
        (self.aggregation.since, self.aggregation.delivered) = (now, 0);
        match self.mode {
            Mode::ProbeBandwidth { .. } => {
                self.pacing = Some(paced(self.estimate(), Gain::ONE));
            }
            Mode::ProbeRtt => self.leave_probe_rtt_if_done(now, window),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn pacing_rate(&self, window: &Window) -> Option<Rate> {
        Some(self.pacing.unwrap_or_else(|| initial_rate(window, None)))
    }

    fn wants_delivery_rate(&self) -> bool {
        true
    }

    fn keeps_window(&self) -> bool {
        true
    }
}

/// Measurements.
impl Bbr {
    /// The bandwidth estimate in bit/s.
    fn estimate(&self) -> u64 {
        self.policed.rate().unwrap_or_else(|| self.bandwidth.get())
    }

    fn update_bandwidth(&mut self, ack: &Ack) {
        self.round.began = false;
        let Some(delivery) = ack.delivery else { return };
        if delivery.delivered_before >= self.round.end {
            self.round.end = delivery.delivered;
            self.round.count += 1;
            self.round.began = true;
            self.conserve = false;
        }
        let probing = matches!(self.mode, Mode::ProbeBandwidth { .. });
        let rounds_on = self.round.began && (probing || self.policed.rate().is_none());
        if self.policed.on_ack(ack.now, rounds_on, ack.lost, Some(&delivery), false) {
            self.enter_probe_bandwidth(ack.now, delivery.delivered);
        }
        let sample = delivery.rate.bps();
        if !delivery.application_limited || sample >= self.bandwidth.get() {
            self.bandwidth.insert(self.round.count, sample);
        }
    }

    fn update_aggregation(&mut self, window: &Window, ack: &Ack) {
        if ack.bytes == 0 || ack.delivery.is_none() {
            return;
        }
        let estimate = Rate::from_bps(self.estimate());
        let it = &mut self.aggregation;
        if self.round.began {
            it.age += 1;
            if it.age >= EXCESS_ROUNDS {
                it.age = 0;
                it.current ^= 1;
                it.excess[it.current] = 0;
            }
        }
        let mut expected = estimate.bytes_in(ack.now.since(it.since)).0;
        let most = EXCESS_SEGMENTS * window.segment;
        if it.delivered <= expected || it.delivered + ack.bytes >= most {
            (it.since, it.delivered, expected) = (ack.now, 0, 0);
        }
        it.delivered += ack.bytes;
        let excess = it.delivered.saturating_sub(expected).min(window.congestion);
        it.excess[it.current] = it.excess[it.current].max(excess);
    }

    fn check_full_pipe(&mut self, ack: &Ack) {
        let limited = ack.delivery.is_some_and(|delivery| delivery.application_limited);
        if self.full.reached || !self.round.began || limited {
            return;
        }
        let bandwidth = self.bandwidth.get();
        if bandwidth >= self.full.bandwidth / 4 * 5 {
            (self.full.bandwidth, self.full.rounds) = (bandwidth, 0);
            return;
        }
        self.full.rounds += 1;
        self.full.reached = self.full.rounds >= FULL_ROUNDS;
    }

    fn update_min_rtt(&mut self, window: &mut Window, ack: &Ack) {
        let now = ack.now;
        let expired = self.min_rtt.is_some_and(|(_, at)| now > at + self.config.min_rtt_window);
        if let Some(rtt) = ack.rtt
            && (expired || self.min_rtt.is_none_or(|(least, _)| rtt < least))
        {
            self.min_rtt = Some((rtt, now));
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_window(window.congestion);
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_until = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(window, ack);
        }
        if ack.delivery.is_some() {
            self.idle_restart = false;
        }
    }

    fn probe_rtt(&mut self, window: &mut Window, ack: &Ack) {
        if self.probe_rtt_until.is_none() {
            if ack.flight <= LEAST * window.segment {
                self.probe_rtt_until = Some(ack.now + self.config.probe_rtt_time);
                self.probe_rtt_round_done = false;
                self.round.end = ack.delivery.map_or(self.round.end, |it| it.delivered);
            }
            return;
        }
        self.probe_rtt_round_done |= self.round.began;
        if self.probe_rtt_round_done {
            self.leave_probe_rtt_if_done(ack.now, window);
        }
    }

    fn leave_probe_rtt_if_done(&mut self, now: Time, window: &mut Window) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        if let Some((_, at)) = &mut self.min_rtt {
            *at = now;
        }
        window.congestion = window.congestion.max(self.prior_window);
        if self.full.reached {
            self.enter_probe_bandwidth(now, self.round.end);
        } else {
            self.mode = Mode::Startup;
        }
    }
}

/// Gains, phases and windows.
impl Bbr {
    fn pacing_gain(&self) -> Gain {
        match self.mode {
            Mode::Startup => Gain::HIGH,
            Mode::Drain => Gain::DRAIN,
            Mode::ProbeBandwidth { .. } if self.policed.rate().is_some() => Gain::ONE,
            Mode::ProbeBandwidth { phase, .. } => Gain::CYCLE[phase],
            Mode::ProbeRtt => Gain::ONE,
        }
    }

    fn window_gain(&self) -> Gain {
        match self.mode {
            Mode::Startup | Mode::Drain => Gain::HIGH,
            Mode::ProbeBandwidth { .. } => Gain::WINDOW,
            Mode::ProbeRtt => Gain::ONE,
        }
    }

    /// Begins the cycle in any phase except the second, which drains the queue.
    fn enter_probe_bandwidth(&mut self, now: Time, delivered: u64) {
        let drawn = Random::new(now.nanos(), delivered).below(PHASES - 1);
        let before = PHASES - 1 - drawn;
        let phase = usize::try_from((before + 1) % PHASES).unwrap_or(0);
        self.mode = Mode::ProbeBandwidth { phase, since: now };
    }

    fn update_cycle(&mut self, window: &Window, ack: &Ack) {
        let Mode::ProbeBandwidth { phase, since } = self.mode else { return };
        let gain = self.pacing_gain();
        let long_enough = self.min_rtt.is_none_or(|(min_rtt, _)| ack.now.since(since) > min_rtt);
        let bandwidth = self.bandwidth.get();
        let goal = |gain| self.in_flight(window, bandwidth, gain);
        let next = if gain > Gain::ONE {
            let with_next = ack.flight_before + self.quantum(window);
            long_enough && (ack.lost > 0 || with_next >= goal(gain))
        } else if gain < Gain::ONE {
            long_enough || ack.flight_before <= goal(Gain::ONE)
        } else {
            long_enough
        };
        if next {
            let phase = (phase + 1) % Gain::CYCLE.len();
            self.mode = Mode::ProbeBandwidth { phase, since: ack.now };
        }
    }

    fn check_drained(&mut self, window: &mut Window, ack: &Ack) {
        let fits = self.in_flight(window, self.bandwidth.get(), Gain::ONE);
        if self.mode == Mode::Startup && self.full.reached {
            self.mode = Mode::Drain;
            window.threshold = fits;
        }
        if self.mode == Mode::Drain && ack.flight <= fits {
            self.enter_probe_bandwidth(ack.now, self.round.end);
        }
    }

    fn set_pacing_rate(&mut self, window: &Window, ack: &Ack, gain: Gain) {
        if !self.rtt_known && !ack.smoothed_rtt.is_zero() {
            self.rtt_known = true;
            self.pacing = Some(initial_rate(window, Some(ack.smoothed_rtt)));
        }
        let rate = paced(self.estimate(), gain);
        if self.full.reached || self.pacing.is_none_or(|pacing| rate > pacing) {
            self.pacing = Some(rate);
        }
    }

    fn set_window(&mut self, window: &mut Window, ack: &Ack) {
        if ack.bytes > 0 {
            let (cwnd, settled) = self.in_recovery(window, ack);
            window.congestion = if settled { cwnd } else { self.towards_target(window, ack, cwnd) };
        }
        if self.mode == Mode::ProbeRtt {
            window.congestion = window.congestion.min(LEAST * window.segment);
        }
    }

    fn towards_target(&self, window: &Window, ack: &Ack, cwnd: u64) -> u64 {
        let estimate = self.estimate();
        let path = self.path(window, estimate, self.window_gain());
        let target = self.budget(window, path + self.excess(estimate));
        let delivered = ack.delivery.map_or(0, |delivery| delivery.delivered);
        let cwnd = if self.full.reached {
            (cwnd + ack.bytes).min(target)
        } else if cwnd < target || delivered < INITIAL * window.segment {
            cwnd + ack.bytes
        } else {
            cwnd
        };
        cwnd.max(LEAST * window.segment)
    }

    /// The window after losses and recovery. The flag is true while packet conservation alone sets
    /// the window.
    fn in_recovery(&mut self, window: &Window, ack: &Ack) -> (u64, bool) {
        let mut cwnd = window.congestion;
        if ack.lost > 0 {
            cwnd = cwnd.saturating_sub(ack.lost).max(window.segment);
        }
        let released = ack.flight + ack.bytes;
        match self.recovery {
            RecoveryPhase::Entering => {
                self.recovery = RecoveryPhase::Fast;
                self.conserve = true;
                self.round.end = ack.delivery.map_or(self.round.end, |it| it.delivered);
                cwnd = released;
            }
            RecoveryPhase::Fast | RecoveryPhase::AfterTimeout if !ack.in_recovery => {
                self.recovery = RecoveryPhase::No;
                self.conserve = false;
                cwnd = cwnd.max(self.prior_window);
            }
            RecoveryPhase::No | RecoveryPhase::Fast | RecoveryPhase::AfterTimeout => {}
        }
        if self.conserve { (cwnd.max(released), true) } else { (cwnd, false) }
    }

    fn save_window(&mut self, cwnd: u64) {
        let cut = self.recovery != RecoveryPhase::No || self.mode == Mode::ProbeRtt;
        self.prior_window = if cut { self.prior_window.max(cwnd) } else { cwnd };
    }

    /// `gain * bandwidth * min_rtt`.
    fn path(&self, window: &Window, bandwidth: u64, gain: Gain) -> u64 {
        let Some((min_rtt, _)) = self.min_rtt else { return INITIAL * window.segment };
        gain.of(Rate::from_bps(bandwidth).bytes_in(min_rtt).0)
    }

    /// Adds headroom to `bytes`, so that both ends stay busy: three bursts, rounding to an even
    /// number of segments, and two more in the phase that probes for bandwidth.
    fn budget(&self, window: &Window, bytes: u64) -> u64 {
        let even = (bytes + 3 * self.quantum(window)).next_multiple_of(2 * window.segment.max(1));
        let probing = matches!(self.mode, Mode::ProbeBandwidth { phase: 0, .. });
        if probing { even + 2 * window.segment } else { even }
    }

    fn in_flight(&self, window: &Window, bandwidth: u64, gain: Gain) -> u64 {
        self.budget(window, self.path(window, bandwidth, gain))
    }

    /// Size of a burst: the bytes of one millisecond, at least one or two segments.
    fn quantum(&self, window: &Window) -> u64 {
        let bps = self.pacing.map_or(0, Rate::bps);
        let least = if bps < SLOW { 1 } else { 2 };
        let segments = (bps / 8 / 1_024).min(LARGEST_BURST) / window.segment.max(1);
        segments.max(least) * window.segment
    }

    /// Headroom for ACK aggregation.
    fn excess(&self, bandwidth: u64) -> u64 {
        if !self.full.reached {
            return 0;
        }
        let [one, other] = self.aggregation.excess;
        one.max(other).min(Rate::from_bps(bandwidth).bytes_in(EXCESS_TIME).0)
    }
}

/// The initial pacing rate: one window per round-trip time, multiplied by the gain of startup. An
/// unknown round-trip time counts as one millisecond.
fn initial_rate(window: &Window, rtt: Option<Duration>) -> Rate {
    let rtt = rtt.unwrap_or(NOMINAL_RTT).max(Duration::from_micros(1));
    let bits = u128::from(window.congestion) * 8 * 1_000_000_000 / rtt.as_nanos();
    paced(u64::try_from(bits).unwrap_or(u64::MAX), Gain::HIGH)
}

/// The pacing rate, 1 % below the bandwidth, so that queues tend to shrink.
fn paced(bandwidth: u64, gain: Gain) -> Rate {
    Rate::from_bps((gain.of(bandwidth) / 100 * 99).max(1))
}

/// Number of phases in a cycle of gains.
const PHASES: u64 = 8;
/// Least number of segments in flight, also while probing for the round-trip time.
const LEAST: u64 = 4;
/// Initial window in segments (Linux, `TCP_INIT_CWND`).
const INITIAL: u64 = 10;
/// Rounds without growth by a quarter after which the pipe counts as full.
const FULL_ROUNDS: u32 = 3;
/// Rounds after which the older of two excess values expires.
const EXCESS_ROUNDS: u32 = 5;
/// The headroom for ACK aggregation is at most the bytes of this time.
const EXCESS_TIME: Duration = Duration::from_millis(100);
/// Bytes delivered, in segments, after which the measurement of the excess restarts.
const EXCESS_SEGMENTS: u64 = 1 << 20;
/// At rates below this a burst may be one segment: 1.2 Mbit/s.
const SLOW: u64 = 1_200_000;
/// Largest burst in bytes: a GSO super-packet without its headers.
const LARGEST_BURST: u64 = 65_536 - 1 - 320;
/// Assumed round-trip time before the first measurement.
const NOMINAL_RTT: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests;
