//! 32-bit sequence numbers and their stream offsets; ticks of the timestamp clock.

use tidegate_base::Time;

/// Signed distance from `reference` to `seq`, at most half of the number space.
///
/// Source: RFC 9293, section 3.4.
pub(super) const fn distance(seq: u32, reference: u32) -> i64 {
    #[expect(clippy::as_conversions, reason = "widening")]
    let wide = seq.wrapping_sub(reference).cast_signed() as i64;
    wide
}

/// The low 32 bits of a stream offset.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "sequence numbers are places modulo 2^32"
)]
pub(super) const fn low(place: u64) -> u32 {
    place as u32
}

/// A length as `u32`; segments have at most 65,535 bytes.
pub(super) fn short(len: u64) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Rounds `at` down to a tick of the timestamp clock (RFC 7323, section 5.4: a millisecond).
pub(super) fn tick(at: Time) -> Time {
    Time::from_millis(at.nanos() / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_reach_across_the_wrap() {
        assert_eq!(distance(5, u32::MAX), 6);
        assert_eq!(distance(u32::MAX, 5), -6);
        assert_eq!(distance(low(1 << 33), 3), -3);
    }
}
