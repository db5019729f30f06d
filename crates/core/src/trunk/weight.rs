//! The weight of a trunk: a trunk whose users send more gets a larger share of the path.
//!
//! A [`RateAdjuster`] (see [`itcp`](crate::itcp)) observes the tunnel queue over rounds of many samples. This file
//! measures the input: the time with a backlog (`busy`), the user bytes that arrived (`arrived`), and the user bytes
//! sent during a backlog (`sent_busy`). At the end of a round the adjuster may
//! change the weight `w`. The bandwidth probe applies it: as `round(w)` management connections, or as `theta = w`
//! packets in the queue of weighted Vegas.
//!
//! Source: `itcp`, section 4 (a rate adjuster), with the law `measured` of [`itcp`](crate::itcp).
//! Differs:
//! - The paper's gateway terminates its users' TCP connections and counts their payload. A trunk forwards user packets,
//!   and counts them from the IP header on. Retransmissions and packets that the tunnel queue drops count too.
//! - A ceiling also makes the queue backlogged. The weight then rises to its maximum, but the ceiling bounds the rate.

use std::time::Duration;

use super::Config;
use crate::itcp::{AdjusterReport, GatewayLoad, RateAdjuster};
use crate::random::Random;
use crate::{Bytes, Factor, Time};

/// The greatest weight of a trunk. The buffers of routers must have room for this many management connections of each
/// trunk (`buffer`).
pub const MOST_WEIGHT: u16 = 16;

/// `round(weight)`, from 1 to [`MOST_WEIGHT`].
pub(super) fn rounded(weight: Factor) -> u16 {
    let half = Factor::ONE.millionths() / 2;
    let whole = (weight.millionths().saturating_add(half)) / Factor::ONE.millionths();
    u16::try_from(whole).unwrap_or(MOST_WEIGHT).clamp(1, MOST_WEIGHT)
}

/// The rate adjuster of a trunk, and the measurements of the tunnel queue for it.
pub(super) struct TrunkWeight {
    adjuster: RateAdjuster,
    /// User bytes that arrived at the trunk.
    arrived: u64,
    /// User bytes sent.
    sent: u64,
    /// User bytes sent while the queue was backlogged.
    sent_busy: u64,
    /// Total time in which the queue was backlogged. The present backlog, which began at `backlogged_since`, is not
    /// included yet.
    busy: Duration,
    backlogged_since: Option<Time>,
}

impl TrunkWeight {
    /// The rate adjuster that `config` describes. `None` for a trunk without a weight.
    pub(super) fn new(config: &Config, seed: u64, now: Time) -> Option<Self> {
        let random = Random::named(seed, &["trunk", &config.name, "weight"]);
        let adjuster = RateAdjuster::new(config.weight.as_ref()?, random, now);
        Some(Self {
            adjuster,
            arrived: 0,
            sent: 0,
            sent_busy: 0,
            busy: Duration::ZERO,
            backlogged_since: None,
        })
    }

    /// The weight in force.
    pub(super) const fn weight(&self) -> Factor {
        self.adjuster.weight()
    }

    /// A user packet of `len` bytes arrives.
    pub(super) const fn on_arrival(&mut self, len: u64) {
        self.arrived = self.arrived.saturating_add(len);
    }

    /// A user packet of `len` bytes departs through the trunk.
    pub(super) fn on_sent(&mut self, now: Time, len: u64) {
        self.sent = self.sent.saturating_add(len);
        if self.backlogged_since.is_some_and(|since| since < now) {
            self.sent_busy = self.sent_busy.saturating_add(len);
        }
    }

    /// Notes whether the queue is backlogged after a packet has arrived or departed.
    pub(super) fn observe(&mut self, now: Time, backlogged: bool) {
        match (self.backlogged_since, backlogged) {
            (None, true) => self.backlogged_since = Some(now),
            (Some(since), false) => {
                self.busy += now.since(since);
                self.backlogged_since = None;
            }
            _ => {}
        }
    }

    /// Gives the adjuster a sample if one is due. Returns the new weight if the adjuster changed it.
    pub(super) fn handle_timeout(
        &mut self,
        now: Time,
        queue: Bytes,
        window: Bytes,
        least_rtt: Option<Duration>,
    ) -> Option<Factor> {
        if now < self.adjuster.poll_timeout() {
            return None;
        }
        let backlogged = self.backlogged_since.map_or(Duration::ZERO, |since| now.since(since));
        let seen = GatewayLoad {
            queue,
            arrived: self.arrived,
            sent: self.sent,
            sent_busy: self.sent_busy,
            busy: self.busy + backlogged,
            blocked: false,
            window,
            least_rtt,
            // The trunk does not count user connections, so they must not bound the weight.
            connections: u32::MAX,
        };
        self.adjuster.handle_timeout(now, &seen)
    }

    /// Time for the next call of [`handle_timeout`](Self::handle_timeout).
    pub(super) const fn poll_timeout(&self) -> Time {
        self.adjuster.poll_timeout()
    }

    /// The weight, the latest round, and the decisions so far.
    pub(super) const fn report(&self) -> AdjusterReport {
        self.adjuster.report()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: rounding down; a weight of zero; more than 16 connections.
    #[test]
    fn a_weight_is_rounded_to_one_to_sixteen_connections() {
        for (millionths, expected) in
            [(0, 1), (400_000, 1), (1_499_999, 1), (1_500_000, 2), (15_700_000, 16), (u64::MAX, 16)]
        {
            assert_eq!(rounded(Factor::from_millionths(millionths)), expected, "{millionths}");
        }
    }

    /// Catches: packets that count as sent during a backlog although the queue was empty; backlogged time that is never
    /// added.
    #[test]
    fn only_backlogged_time_counts_as_busy() {
        let adjuster = crate::itcp::Config::default();
        let config = Config { weight: Some(adjuster), ..super::super::testing::config() };
        let mut it = TrunkWeight::new(&config, 1, Time::ZERO).unwrap();
        let ms = Time::from_millis;
        it.on_sent(ms(1), 100);
        it.observe(ms(1), false);
        it.observe(ms(2), true);
        it.on_sent(ms(2), 200);
        it.observe(ms(4), true);
        it.on_sent(ms(5), 400);
        it.observe(ms(5), false);
        assert_eq!((it.sent, it.sent_busy, it.busy), (700, 400, Duration::from_millis(3)));
    }
}
