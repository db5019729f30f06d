//! The allowance of control traffic: the bytes that it may send before all classes of a link.
//!
//! Control traffic keeps a network alive: address resolution, configuration, routing. A link
//! reserves `max(rate / 50, 64 kbit/s)` for it, but never more than half of its rate.
//!
//! In any interval `t`, control traffic takes at most `burst + packet + allowance * t` before others.
//!
//! Source: RFC 4594, section 3.2 (network control traffic has a minimum rate of its own);
//! IEEE 802.1Q, annex I (network control comes first).

use std::time::Duration;

use crate::meter::{TokenBucket, nanobits};
use crate::{Bytes, Rate, Time};

/// The rate that a link of rate `link` reserves for control traffic.
#[must_use]
pub fn allowance(link: Rate) -> Rate {
    let part = Rate::from_bps(link.bps() / PART).max(LEAST);
    part.min(Rate::from_bps(link.bps() / 2))
}

/// The bytes that control traffic may send at once, one packet beyond them not counted.
///
/// These are what the allowance earns while a packet of others occupies the link and the loop of a
/// driver is late. Without them an allowance would not be reached on a busy link.
#[must_use]
pub fn burst(link: Rate) -> Bytes {
    allowance(link).bytes_in(link.time_for(FULL_SIZE).saturating_add(CATCH_UP))
}

/// The part of a link that control traffic has: 2 %.
const PART: u64 = 50;

/// The least allowance: about 100 ARP requests in a second.
const LEAST: Rate = Rate::from_kbps(64);

/// A full-size frame of Ethernet and the gap between two.
const FULL_SIZE: Bytes = Bytes(1_538);

/// The time by which a loop may sensibly be late; the bursts of classes use the same.
const CATCH_UP: Duration = Duration::from_millis(2);

/// The allowance of one link, as far as it is not used.
#[derive(Clone, Debug)]
pub struct Allowance(TokenBucket);

impl Allowance {
    /// The allowance of a link of rate `link`, unused.
    #[must_use]
    pub fn new(link: Rate, now: Time) -> Self {
        Self(TokenBucket::new(allowance(link), burst(link), now))
    }

    /// The link has rate `link` from `now` on.
    pub fn set(&mut self, now: Time, link: Rate) {
        self.0.set(now, allowance(link), burst(link));
    }

    /// Whether a packet of control traffic may go before all classes at `now`.
    pub fn permits(&mut self, now: Time) -> bool {
        self.0.refill(now);
        self.0.content() >= 0
    }

    /// A packet of `len`, which was permitted, goes: it may exceed the allowance, and is paid off.
    pub fn charge(&mut self, len: Bytes) {
        self.0.charge(nanobits(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_per_cent_of_a_link_but_no_less_than_64_kbit_and_no_more_than_half() {
        let of = |kbps| allowance(Rate::from_kbps(kbps)).bps() / 1_000;
        assert_eq!([of(1_000_000), of(20_000), of(3_200), of(1_000)], [20_000, 400, 64, 64]);
        assert_eq!([of(128), of(64), of(0)], [64, 32, 0]);
    }

    /// Kills: tokens taken only as far as there are some; a burst that grows while nothing is sent.
    #[test]
    fn packets_that_always_wait_get_the_allowance_whatever_others_occupy_the_link() {
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
