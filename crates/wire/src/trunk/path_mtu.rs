//! The path MTU to the other end of a trunk: the configured MTU, reduced by "packet too big" errors
//! of routers.
//!
//! An error is accepted only if it quotes a datagram that was sent. An attacker who cannot see the
//! datagrams must guess their UDP checksum, which is random because it covers the authentication
//! tag. A correct guess gains little: the MTU never falls below [`PathMtu::LEAST`], with which a
//! user packet of IPv6's minimum MTU still fits.
//!
//! Source: RFC 1191, sections 3 and 6.3 (a reported MTU expires after ten minutes); RFC 8201,
//! section 4; RFC 5927, section 7 (checks before an error is accepted).

use std::time::Duration;

use tidegate_core::Time;

use crate::icmp::TooBig;

/// The MTU of IP packets to the other end.
#[derive(Clone, Debug)]
pub struct PathMtu {
    configured: u32,
    reported: Option<(u32, Time)>,
    /// UDP checksums of the latest datagrams, indexed by datagram number. Zero if none was sent.
    sent: Vec<u16>,
    ignored: u64,
}

impl PathMtu {
    /// The smallest accepted MTU: a user packet of 1,280 bytes in a datagram over IPv6.
    ///
    /// Source: RFC 8200, section 5.
    pub const LEAST: u32 = 1_280 + 40 + 8 + 7 + 16;

    /// A path with the MTU `configured`, until a router reports a smaller one.
    #[must_use]
    pub fn new(configured: u32) -> Self {
        let configured = configured.max(Self::LEAST);
        Self { configured, reported: None, sent: vec![0; LATEST], ignored: 0 }
    }

    /// Length of the longest IP packet that fits, in bytes, as known at `now`.
    #[must_use]
    pub fn get(&self, now: Time) -> u32 {
        let reported = self.reported.filter(|(_, at)| now.since(*at) < FORGOTTEN);
        reported.map_or(self.configured, |(mtu, _)| mtu)
    }

    /// Records that datagram `number` was sent with this UDP checksum.
    pub fn sent(&mut self, number: u64, checksum: u16) {
        self.sent[place(number)] = checksum;
    }

    /// Processes a router's error about the datagram `number`. Returns `true` if the error is
    /// accepted. Only the lower 16 bits of `number` need be correct.
    pub fn report(&mut self, now: Time, error: &TooBig, number: u64) -> bool {
        let was_sent = error.checksum != 0 && self.sent[place(number)] == error.checksum;
        let mtu = error.mtu.max(Self::LEAST);
        // A router with an MTU of at least the datagram's length would have forwarded it.
        let believed = was_sent && error.mtu < error.len && mtu < self.get(now);
        if believed {
            self.reported = Some((mtu, now));
        } else {
            self.ignored += 1;
        }
        believed
    }

    /// Number of errors that were not accepted, or did not report a smaller MTU.
    #[must_use]
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }
}

/// Number of datagrams whose checksum is stored. A path of 1 Gbit/s has about as many in flight in
/// 50 ms.
const LATEST: usize = 4_096;

/// Time after which a reported MTU expires (RFC 1191, section 6.3).
const FORGOTTEN: Duration = Duration::from_secs(600);

fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX) % LATEST
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(mtu: u32, checksum: u16) -> TooBig {
        let (ends, ports) = (([192, 0, 2, 1].into(), [192, 0, 2, 2].into()), (4754, 4754));
        TooBig { mtu, ends, ports, len: 1_500, identification: None, checksum, payload: 0 }
    }

    #[test]
    fn a_reported_mtu_expires_after_ten_minutes() {
        let mut path = PathMtu::new(1_500);
        path.sent(9, 77);
        assert!(path.report(Time::from_secs(1), &error(1_400, 77), 9 + (1 << 16)));
        assert_eq!(path.get(Time::from_secs(600)), 1_400);
        assert_eq!(path.get(Time::from_secs(601)), 1_500);
    }

    #[test]
    fn an_error_without_an_mtu_means_the_least_mtu() {
        let mut path = PathMtu::new(1_500);
        path.sent(9, 77);
        assert!(path.report(Time::ZERO, &error(0, 77), 9));
        assert_eq!(path.get(Time::ZERO), PathMtu::LEAST);
    }

    proptest! {
        /// For any sequence of errors, the MTU stays between the least and the configured value. It
        /// changes only if an error quotes a datagram that was sent.
        ///
        /// Catches: an MTU below the least; an error that quotes a checksum that was never sent, or
        /// zero, and is accepted; a path MTU that grows.
        #[test]
        fn the_mtu_stays_between_the_least_and_the_configured_value(
            events in prop::collection::vec((any::<bool>(), 0u32..3_000, 0u16..4, 0u64..6), 1..60),
        ) {
            let mut path = PathMtu::new(1_500);
            let (mut sent, mut before) = ([0u16; 6], 1_500);
            for (now, (sends, mtu, checksum, number)) in (0u64..).zip(events) {
                if sends {
                    path.sent(number, checksum.max(1));
                    sent[usize::try_from(number).unwrap()] = checksum.max(1);
                    continue;
                }
                let quoted = checksum != 0 && sent[usize::try_from(number).unwrap()] == checksum;
                let believed = path.report(Time::from_secs(now), &error(mtu, checksum), number);
                let after = path.get(Time::from_secs(now));
                prop_assert!(!believed || quoted);
                prop_assert_eq!(believed, quoted && mtu.max(PathMtu::LEAST) < before);
                prop_assert_eq!(after, if believed { mtu.max(PathMtu::LEAST) } else { before });
                before = after;
            }
        }
    }
}
