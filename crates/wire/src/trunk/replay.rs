//! The anti-replay window: remembers which recent packet numbers were accepted.
//!
//! Source: RFC 6479, section 2 (a ring of blocks of bits, so that an advance clears whole blocks).

/// The packet numbers accepted recently.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// The highest accepted number. Zero before the first packet, because packet numbers begin at
    /// one.
    top: u64,
    taken: [u64; BLOCKS],
}

/// Number of blocks, each of 64 bits.
const BLOCKS: usize = 32;

/// Width of the window in packet numbers. Older packets are refused.
const SPAN: u64 = 64 * 31;

impl Window {
    /// Accepts `number` and returns `true`, unless it was accepted before or is too old.
    pub(super) fn take(&mut self, number: u64) -> bool {
        if number == 0 || self.top.saturating_sub(number) >= SPAN {
            return false;
        }
        if number > self.top {
            let (from, to) = (self.top / 64, number / 64);
            for block in (from + 1..=to).rev().take(BLOCKS) {
                self.taken[place(block)] = 0;
            }
            self.top = number;
        }
        let (block, bit) = (&mut self.taken[place(number / 64)], 1 << (number % 64));
        let fresh = *block & bit == 0;
        *block |= bit;
        fresh
    }
}

fn place(block: u64) -> usize {
    usize::try_from(block).unwrap_or(usize::MAX) % BLOCKS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Packet numbers that advance, with steps back of all sizes, and with jumps beyond all blocks.
    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let step = prop_oneof![
            6 => -3i64..6, 2 => -200i64..200, 1 => -2_500i64..0, 1 => 0i64..5_000, 1 => 0i64..1_000_000
        ];
        prop::collection::vec(step, 1..400).prop_map(|steps| {
            let mut at = 1i64;
            let walk = steps.into_iter().map(|step| {
                at = (at + step).max(0);
                at.unsigned_abs()
            });
            walk.collect()
        })
    }

    proptest! {
        /// Comparison with a set that keeps all numbers: no number is accepted twice, and no new
        /// number within the window is refused.
        ///
        /// Catches: numbers that are refused as repeated after an advance of the window; numbers
        /// that are accepted twice, because the window is as wide as all blocks; a packet number of
        /// zero that is accepted.
        #[test]
        fn a_number_is_accepted_once_and_only_numbers_below_the_window_are_refused(numbers in numbers()) {
            let (mut window, mut taken, mut top) = (Window::default(), BTreeSet::new(), 0u64);
            for number in numbers {
                let near = number > 0 && top.saturating_sub(number) < SPAN;
                let expected = near && taken.insert(number);
                prop_assert_eq!(window.take(number), expected, "{} after {}", number, top);
                top = top.max(if expected { number } else { 0 });
            }
        }
    }
}
