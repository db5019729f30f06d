//! The allowance of control traffic: the bytes that it may send before all classes of a link.
//!
//! Control traffic keeps a network alive: address resolution, configuration, routing. A link reserves
//! `max(rate / 50, 64 kbit/s)` for it, but never more than half of its rate.
//!
//! In any interval `t`, control traffic takes at most `burst + packet + allowance * t` before other traffic.
//!
//! Source: RFC 4594, section 3.2 (network control traffic has a minimum rate of its own); IEEE 802.1Q, annex
//! I (network control comes first).

use std::time::Duration;

use crate::meter::{TokenBucket, nanobits};
use crate::{Bytes, Rate, Time};

/// The rate that a link of rate `link` reserves for control traffic.
///
/// ```
/// use tidegate_core::Rate;
/// use tidegate_core::class::control::allowance;
///
/// assert_eq!(allowance(Rate::from_mbps(100)), Rate::from_mbps(2));
/// assert_eq!(allowance(Rate::from_kbps(100)), Rate::from_kbps(50));
/// ```
#[must_use]
pub fn allowance(link: Rate) -> Rate {
    let part = Rate::from_bps(link.bps() / PART).max(LEAST);
    part.min(Rate::from_bps(link.bps() / 2))
}

/// Bytes that control traffic may send at once, in addition to one packet.
///
/// The allowance earns these bytes while another packet occupies the link and the driver's loop is late. With
/// a smaller burst, control traffic could not reach its allowance on a busy link.
#[must_use]
pub fn burst(link: Rate) -> Bytes {
    allowance(link).bytes_in(link.time_for(FULL_SIZE).saturating_add(CATCH_UP))
}

/// Control traffic has `1 / PART` of a link: 2 %.
const PART: u64 = 50;

/// Least allowance: about 100 ARP requests per second.
const LEAST: Rate = Rate::from_kbps(64);

/// Bytes on the wire of a full-size Ethernet frame with the gap between two frames.
const FULL_SIZE: Bytes = Bytes(1_538);

/// Tolerated lateness of the driver's loop. The bursts of classes tolerate the same.
const CATCH_UP: Duration = Duration::from_millis(2);

/// Unused allowance of one link.
#[derive(Clone, Debug)]
pub struct Allowance(TokenBucket);

impl Allowance {
    /// The allowance of a link of rate `link`, unused.
    #[must_use]
    pub fn new(link: Rate, now: Time) -> Self {
        Self(TokenBucket::new(allowance(link), burst(link), now))
    }

    /// Sets the rate of the link from `now` on.
    pub fn set(&mut self, now: Time, link: Rate) {
        self.0.set(now, allowance(link), burst(link));
    }

    /// Returns `true` if a packet of control traffic may precede all classes at `now`.
    pub fn permits(&mut self, now: Time) -> bool {
        self.0.refill(now);
        self.0.content() >= 0
    }

    /// Charges a permitted packet of `len`. It may exceed the allowance, which then stays overdrawn until it
    /// has earned the excess.
    pub fn charge(&mut self, len: Bytes) {
        self.0.charge(nanobits(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_is_two_per_cent_at_least_64_kbit_and_at_most_half_of_the_link() {
        let of = |kbps| allowance(Rate::from_kbps(kbps)).bps() / 1_000;
        assert_eq!([of(1_000_000), of(20_000), of(3_200), of(1_000)], [20_000, 400, 64, 64]);
        assert_eq!([of(128), of(64), of(0)], [64, 32, 0]);
    }

    /// Catches: a charge limited to the available tokens; a burst that grows during an idle time.
    #[test]
    fn backlogged_control_traffic_gets_its_allowance_on_a_busy_link() {
        let link = Rate::from_mbps(1);
        let (mut allowance, mut now, mut sent) = (Allowance::new(link, Time::ZERO), Time::ZERO, 0);
        allowance.permits(Time::from_secs(5));
        while now < Time::from_secs(10) {
            now += link.time_for(FULL_SIZE);
            while allowance.permits(Time::from_secs(5) + now.since(Time::ZERO)) {
                allowance.charge(Bytes(60));
                sent += 60;
            }
        }
        // 64 kbit/s for ten seconds, one burst and one packet.
        assert!((80_000..80_000 + burst(link).0 + 60).contains(&sent), "{sent}");
    }
}
