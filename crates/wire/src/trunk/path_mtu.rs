//! How long datagrams to the other end may be: what was configured, and what routers on the way say.
//!
//! What a router says counts only if it quotes a datagram that was sent: the checksum of one is as good as
//! chance to whoever does not see it, since a seal goes into it. Whoever guesses it gains little: nothing below
//! [`PathMtu::LEAST`] is believed, with which every IPv6 packet of the least MTU still fits.
//!
//! Source: RFC 1191, sections 3 and 6.3 (what is heard is forgotten after ten minutes); RFC 8201, section 4;
//! RFC 5927, section 7 (what has to be looked at before it is believed).

use std::time::Duration;

use tidegate_core::Time;

use crate::icmp::TooBig;

/// How long IP packets to the other end may be.
#[derive(Clone, Debug)]
pub struct PathMtu {
    configured: u32,
    heard: Option<(u32, Time)>,
    /// The checksums of the latest datagrams, by their number; zero of none.
    sent: Vec<u16>,
    ignored: u64,
}

impl PathMtu {
    /// The least there can be: an IPv6 packet of 1280 bytes in a datagram over IPv6.
    ///
    /// Source: RFC 8200, section 5.
    pub const LEAST: u32 = 1_280 + 40 + 8 + 7 + 16;

    /// A path that carries `configured` bytes as far as is known.
    #[must_use]
    pub fn new(configured: u32) -> Self {
        let configured = configured.max(Self::LEAST);
        Self { configured, heard: None, sent: vec![0; LATEST], ignored: 0 }
    }

    /// The longest IP packet that fits, as far as is known.
    #[must_use]
    pub fn get(&self, now: Time) -> u32 {
        let heard = self.heard.filter(|(_, at)| now.since(*at) < FORGOTTEN);
        heard.map_or(self.configured, |(mtu, _)| mtu)
    }

    /// A datagram of this number was sent with this UDP checksum.
    pub fn sent(&mut self, number: u64, checksum: u16) {
        self.sent[place(number)] = checksum;
    }

    /// Takes in what a router says of datagram `number`, of which at least the last 16 bits are known; says whether
    /// it is believed.
    pub fn hear(&mut self, now: Time, told: &TooBig, number: u64) -> bool {
        let was_sent = told.checksum != 0 && self.sent[place(number)] == told.checksum;
        let mtu = told.mtu.max(Self::LEAST);
        // It is not too big for who would have let it pass.
        let believed = was_sent && told.mtu < told.len && mtu < self.get(now);
        if believed {
            self.heard = Some((mtu, now));
        } else {
            self.ignored += 1;
        }
        believed
    }

    /// What was said and not believed, or not news.
    #[must_use]
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }
}

/// Datagrams that are remembered: what a path of 1 Gbit/s has under way in 50 ms.
const LATEST: usize = 4_096;

/// Source: RFC 1191, section 6.3.
const FORGOTTEN: Duration = Duration::from_secs(600);

fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX) % LATEST
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(mtu: u32, checksum: u16) -> TooBig {
        let (ends, ports) = (([192, 0, 2, 1].into(), [192, 0, 2, 2].into()), (4754, 4754));
        TooBig { mtu, ends, ports, len: 1_500, identification: None, checksum, payload: 0 }
    }

    #[test]
    fn what_was_heard_is_forgotten_after_ten_minutes() {
        let mut path = PathMtu::new(1_500);
        path.sent(9, 77);
        assert!(path.hear(Time::from_secs(1), &told(1_400, 77), 9 + (1 << 16)));
        assert_eq!(path.get(Time::from_secs(600)), 1_400);
        assert_eq!(path.get(Time::from_secs(601)), 1_500);
    }

    #[test]
    fn a_router_of_before_1990_that_says_no_mtu_means_the_least() {
        let mut path = PathMtu::new(1_500);
        path.sent(9, 77);
        assert!(path.hear(Time::ZERO, &told(0, 77), 9));
        assert_eq!(path.get(Time::ZERO), PathMtu::LEAST);
    }

    proptest! {
        /// Whatever anybody says, the path is never wider than configured and never narrower than the least;
        /// nothing changes unless a datagram that was sent is quoted.
        ///
        /// Kills: no floor; a checksum that is not looked at, or zero taken for one that was sent; a path that
        /// grows by what is said.
        #[test]
        fn nobody_makes_it_less_than_the_least_or_more_than_was_configured(
            said in prop::collection::vec((any::<bool>(), 0u32..3_000, 0u16..4, 0u64..6), 1..60),
        ) {
            let mut path = PathMtu::new(1_500);
            let (mut sent, mut before) = ([0u16; 6], 1_500);
            for (now, (sends, mtu, checksum, number)) in (0u64..).zip(said) {
                if sends {
                    path.sent(number, checksum.max(1));
                    sent[usize::try_from(number).unwrap()] = checksum.max(1);
                    continue;
                }
                let quoted = checksum != 0 && sent[usize::try_from(number).unwrap()] == checksum;
                let believed = path.hear(Time::from_secs(now), &told(mtu, checksum), number);
                let after = path.get(Time::from_secs(now));
                prop_assert!(!believed || quoted);
                prop_assert_eq!(believed, quoted && mtu.max(PathMtu::LEAST) < before);
                prop_assert_eq!(after, if believed { mtu.max(PathMtu::LEAST) } else { before });
                before = after;
            }
        }
    }
}
