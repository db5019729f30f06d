//! A set of small numbers whose lowest member is found in constant time.

use crate::packet::make_room;

/// A set of numbers below 16,777,216. The search for the lowest number reads four words.
#[derive(Debug, Default)]
pub(super) struct Bits {
    /// Level 0 has a bit for each number. Each higher level has a bit for each word below it that
    /// is not 0.
    levels: [Vec<u64>; LEVELS],
}

/// `64^4` numbers are more than any flow table holds.
const LEVELS: usize = 4;

impl Bits {
    pub(super) fn insert(&mut self, number: usize) {
        let mut at = number;
        for words in &mut self.levels {
            make_room(words, at / 64, 0);
            words[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }

    /// Removes `number`. Returns `true` if the set contained it.
    pub(super) fn remove(&mut self, number: usize) -> bool {
        let inside = self.contains(number);
        let mut at = number;
        for words in &mut self.levels {
            let Some(word) = words.get_mut(at / 64) else { break };
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
        inside
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        self.levels[0].get(number / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// The lowest number.
    pub(super) fn first(&self) -> Option<usize> {
        let mut at = 0;
        for words in self.levels.iter().rev() {
            let word = words.get(at).filter(|word| **word != 0)?;
            at = at * 64 + usize::try_from(word.trailing_zeros()).unwrap_or(0);
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Catches: a word that becomes zero but is still marked in the level above; a lowest
        /// number that is only found within one level.
        #[test]
        fn the_lowest_number_is_found_after_any_changes(
            changes in prop::collection::vec((any::<bool>(), 0usize..10_000), 1..200),
        ) {
            let mut bits = Bits::default();
            let mut model = BTreeSet::new();
            for (insert, number) in changes {
                if insert {
                    bits.insert(number);
                    model.insert(number);
                } else {
                    bits.remove(number);
                    model.remove(&number);
                }
                prop_assert_eq!(bits.first(), model.first().copied());
            }
        }
    }
}
