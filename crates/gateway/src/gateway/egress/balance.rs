//! The token bucket of a link with a rate: it decides when the link may choose its next packet.
//!
//! The content of the bucket is the *balance*, in bytes. The link chooses a packet when the balance is not negative, and
//! the length of the packet is then subtracted. So the choice is made as late as possible: an urgent packet that arrives
//! while another packet is on the line can still be the next one. In any time `t`,
//!
//! ```text
//! departed bytes <= rate * t + burst,   burst = max(2 ms * rate, 2 frames)
//! ```
//!
//! The greatest balance is `burst - frame`, and a full-size frame overdraws the balance by at most `frame`. A
//! longer packet waits, once it is chosen, until the balance covers its excess over a frame, or is full.
//!
//! Source: RFC 2475, section 2.3.2 (token bucket).
//! Differs: tokens may be overdrawn by a frame, and the depth is smaller by as much.

use std::time::Duration;

use tidegate_core::link::Overhead;
use tidegate_core::meter::{Nanobits, TokenBucket, nanobits};
use tidegate_core::{Bytes, Packet, Rate, Time};

/// The balance of a link, in charged bytes.
pub(super) struct Balance {
    bucket: TokenBucket,
    /// A full-size frame.
    frame: Bytes,
}

impl Balance {
    /// A link of `rate` with the greatest balance.
    pub(super) fn new(rate: Rate, overhead: &Overhead, now: Time) -> Self {
        let frame = frame(overhead);
        Self { bucket: TokenBucket::new(rate, greatest(rate, frame), now), frame }
    }

    /// Changes the rate and the overhead from `now` on. Debts stay.
    pub(super) fn set(&mut self, now: Time, rate: Rate, overhead: &Overhead) {
        self.frame = frame(overhead);
        self.bucket.set(now, rate, greatest(rate, self.frame));
    }

    pub(super) const fn rate(&self) -> Rate {
        self.bucket.rate()
    }

    /// Returns `true` if the link may choose a packet at `now`.
    #[inline]
    pub(super) fn permits(&mut self, now: Time) -> bool {
        self.bucket.refill(now);
        self.bucket.content() >= 0
    }

    /// Earliest time at which the link may choose a packet.
    pub(super) fn permits_at(&self) -> Time {
        self.bucket.reaches(0)
    }

    /// Pays for a chosen packet of `len`. Returns `false` if the packet is too long to depart at `now`.
    #[inline]
    pub(super) fn pay(&mut self, now: Time, len: Bytes) -> bool {
        self.bucket.refill(now);
        let departs = self.bucket.content() >= self.needed(len);
        if departs {
            self.bucket.charge(nanobits(len));
        }
        departs
    }

    /// Departure time of a chosen packet of `len`.
    pub(super) fn pays_at(&self, len: Bytes) -> Time {
        self.bucket.reaches(self.needed(len))
    }

    /// The balance at which a chosen packet of `len` departs.
    fn needed(&self, len: Bytes) -> Nanobits {
        nanobits(Bytes(len.0.saturating_sub(self.frame.0))).min(self.bucket.depth())
    }
}

/// Bytes that may depart beyond `rate * t` in any time `t`.
fn burst(rate: Rate) -> Bytes {
    rate.bytes_in(CATCH_UP).max(TWO_FRAMES)
}

fn greatest(rate: Rate, frame: Bytes) -> Bytes {
    Bytes(burst(rate).0.saturating_sub(frame.0))
}

/// Charged bytes of a full-size frame.
fn frame(overhead: &Overhead) -> Bytes {
    let tagged = Packet { len: TAGGED, segments: 1, ..Packet::default() };
    Bytes(overhead.charge(&tagged).into()).max(FULL_SIZE)
}

/// Tolerated lateness of the driver's loop. The bursts of classes tolerate the same.
const CATCH_UP: Duration = Duration::from_millis(2);

/// A full-size Ethernet frame with preamble and gap.
const FULL_SIZE: Bytes = Bytes(1_538);
const TWO_FRAMES: Bytes = Bytes(2 * FULL_SIZE.0);

/// A full-size Ethernet frame without preamble and FCS, with two VLAN tags.
const TAGGED: u32 = 1_522;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Departures of a link of `rate` that always has a packet of the next length, if its driver comes back
    /// `late[n]` after packet `n` may depart.
    fn departures(rate: Rate, overhead: &Overhead, packets: &[(u32, u64)]) -> Vec<(Time, u64)> {
        let mut balance = Balance::new(rate, overhead, Time::ZERO);
        let (mut now, mut departed) = (Time::ZERO, Vec::new());
        for (len, late) in packets {
            let charged = overhead.charge(&Packet { len: *len, segments: 1, ..Packet::default() });
            let len = Bytes(charged.into());
            now = now.max(balance.permits_at()) + Duration::from_micros(*late);
            assert!(balance.permits(now));
            if !balance.pay(now, len) {
                now = balance.pays_at(len);
                assert!(balance.pay(now, len), "{len:?} at {now:?}");
            }
            departed.push((now, len.0));
        }
        departed
    }

    fn packets() -> impl Strategy<Value = Vec<(u32, u64)>> {
        let len = prop_oneof![3 => Just(1_514_u32), 2 => 60_u32..300, 1 => 60_u32..9_000];
        let late = prop_oneof![4 => Just(0_u64), 1 => 0_u64..3_000, 1 => 0_u64..400_000];
        prop::collection::vec((len, late), 1..80)
    }

    fn overheads() -> impl Strategy<Value = Overhead> {
        let atm = Overhead { per_packet: 18, min: 0, atm: true, ..Overhead::default() };
        let ethernet = Overhead { per_packet: 24, min: 84, atm: false, ..Overhead::default() };
        prop::sample::select(vec![Overhead::default(), ethernet, atm])
    }

    proptest! {
        /// Catches: a greatest balance of the whole burst; a long packet paid for afterwards; a debt that is
        /// forgotten.
        #[test]
        fn in_no_time_more_departs_than_the_rate_carries_and_the_burst(
            packets in packets(), overhead in overheads(), kbps in prop_oneof![64_u64..2_000, 2_000_u64..2_000_000],
        ) {
            let rate = Rate::from_kbps(kbps);
            let departed = departures(rate, &overhead, &packets);
            let most = |span: Duration| {
                u128::from(burst(rate).0) * 8_000_000_000 + u128::from(rate.bps()) * span.as_nanos()
            };
            for (first, (from, longest)) in departed.iter().enumerate() {
                let (mut sum, mut longest) = (0_u64, *longest);
                for (at, len) in &departed[first..] {
                    (sum, longest) = (sum + len, longest.max(*len));
                    // A packet that is longer than the burst waits for a full balance, and then departs at
                    // once.
                    let beyond = u128::from(longest.saturating_sub(burst(rate).0)) * 8_000_000_000;
                    prop_assert!(u128::from(sum) * 8_000_000_000 <= most(at.since(*from)) + beyond);
                }
            }
        }

        /// Catches: a remainder that is rounded off at each packet; time that is counted twice.
        #[test]
        fn a_busy_link_carries_its_rate_to_the_byte(
            lens in prop::collection::vec(60_u32..1_514, 50..200), kbps in 64_u64..2_000_000,
        ) {
            let rate = Rate::from_kbps(kbps);
            let packets: Vec<_> = lens.iter().map(|len| (*len, 0)).collect();
            let departed = departures(rate, &Overhead::default(), &packets);
            let (last, len) = *departed.last().unwrap();
            let sum: u64 = departed.iter().map(|(_, len)| len).sum();
            // The link may be ahead by the greatest balance, and by the debt of the last packet, whose time
            // has just begun.
            let greatest = greatest(rate, frame(&Overhead::default())).0;
            let carried = (sum - len).saturating_sub(greatest);
            let exact = rate.time_for(Bytes(carried));
            let late = last.since(Time::ZERO).saturating_sub(exact);
            prop_assert!(late <= Duration::from_nanos(1), "{late:?} after {sum} bytes");
        }
    }

    /// Catches: a choice that is made when the bucket has the tokens of a frame, not when the link is free.
    #[test]
    fn after_a_full_frame_the_next_choice_is_as_far_as_the_frame_takes() {
        let rate = Rate::from_kbps(128);
        let mut balance = Balance::new(rate, &Overhead::default(), Time::ZERO);
        let mut now = Time::ZERO;
        for _ in 0..10 {
            now = now.max(balance.permits_at());
            assert!(balance.permits(now) && balance.pay(now, Bytes(1_514)));
        }
        let wait = balance.permits_at().since(now);
        assert!(wait <= rate.time_for(Bytes(1_514)), "{wait:?}");
    }
}
