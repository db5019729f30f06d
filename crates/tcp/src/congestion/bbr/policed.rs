//! Detects a policer that drops traffic above its rate.
//!
//! Law: an interval lasts from one loss to another, four to sixteen rounds later. The rate of a
//! policer is found in two consecutive intervals if `lost / delivered >= 50 / 256` in both and their
//! rates differ by at most an eighth or 4 kbit/s. For 48 rounds the mean of the two rates then
//! replaces the bandwidth.
//!
//! Source: Linux, `tcp_bbr.c` (`bbr_lt_bw_sampling`; *An Internet-Wide Analysis of Traffic
//! Policing*, SIGCOMM 2016).

use tidegate_base::Time;

use super::Delivery;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policed {
    wanted: bool,
    sampling: bool,
    /// Rate of the last interval in bit/s; zero for none.
    rate: u64,
    in_use: bool,
    rounds: u32,
    /// Start of the interval, and the bytes delivered until then.
    since: Time,
    delivered: u64,
    /// Bytes lost in the interval.
    lost: u64,
    /// Bytes delivered since the connection began, as of the last sample.
    latest: u64,
}

impl Policed {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// The rate of the policer, if one was detected.
    pub(super) fn rate(&self) -> Option<u64> {
        self.in_use.then_some(self.rate)
    }

    pub(super) fn reset(&mut self, now: Time) {
        (self.rate, self.in_use, self.sampling) = (0, false, false);
        self.begin(now);
    }

    /// Counts `lost` bytes. `round_began` is `true` at the start of a round. After a timeout
    /// `delivery` is `None`. Returns `true` when the rate has been used for [`USED_ROUNDS`].
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        round_began: bool,
        lost: u64,
        delivery: Option<&Delivery>,
        timeout: bool,
    ) -> bool {
        if !self.wanted {
            return false;
        }
        self.latest = delivery.map_or(self.latest, |delivery| delivery.delivered);
        self.lost += lost;
        if self.in_use {
            self.rounds += u32::from(round_began);
            let over = self.rounds >= USED_ROUNDS && round_began && !timeout;
            if over {
                self.reset(now);
            }
            return over;
        }
        if !self.sampling {
            if lost > 0 {
                self.begin(now);
                self.sampling = true;
            }
            return false;
        }
        self.sample(now, round_began, lost, delivery);
        false
    }

    fn sample(&mut self, now: Time, round_began: bool, lost: u64, delivery: Option<&Delivery>) {
        if delivery.is_some_and(|delivery| delivery.application_limited) {
            return self.reset(now);
        }
        self.rounds += u32::from(round_began);
        if self.rounds < LEAST_ROUNDS {
            return;
        }
        if self.rounds > 4 * LEAST_ROUNDS {
            return self.reset(now);
        }
        let delivered = self.latest - self.delivered;
        let span = now.since(self.since);
        // A loss ratio of 50/256 or more.
        let much = delivered > 0 && self.lost * 256 >= 50 * delivered;
        if lost == 0 || !much || span.as_millis() == 0 {
            return;
        }
        let bits = u128::from(delivered) * 8 * 1_000_000_000 / span.as_nanos();
        self.end(now, u64::try_from(bits).unwrap_or(u64::MAX));
    }

    /// Ends an interval with this rate.
    fn end(&mut self, now: Time, rate: u64) {
        let difference = rate.abs_diff(self.rate);
        if self.rate > 0 && (difference <= self.rate / 8 || difference <= NEAR) {
            self.rate = rate.midpoint(self.rate);
            self.in_use = true;
            self.rounds = 0;
            return;
        }
        self.rate = rate;
        self.begin(now);
    }

    fn begin(&mut self, now: Time) {
        (self.since, self.delivered) = (now, self.latest);
        (self.rounds, self.lost) = (0, 0);
    }
}

/// Least length of an interval in rounds.
const LEAST_ROUNDS: u32 = 4;
/// Number of rounds for which the rate is used.
const USED_ROUNDS: u32 = 48;
/// Two rates in bit/s count as equal if they differ by at most this.
const NEAR: u64 = 4_000;
