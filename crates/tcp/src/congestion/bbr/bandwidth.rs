//! The greatest delivery rate of recent rounds.
//!
//! Source: Linux, `tcp_bbr.c` (`bbr_bw_rtts`: a sample of ten rounds ago still counts).

/// The greatest value of each recent round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Greatest {
    rounds: [u64; ROUNDS],
    current: u64,
    greatest: u64,
}

/// The current round and ten before it.
const ROUNDS: usize = 11;

impl Greatest {
    pub(super) const fn get(&self) -> u64 {
        self.greatest
    }

    /// Adds a value of round `round`. Round numbers never decrease.
    pub(super) fn insert(&mut self, round: u64, value: u64) {
        let slots = u64::try_from(ROUNDS).unwrap_or(1);
        let forgotten = round.saturating_sub(self.current).min(slots);
        for past in 0..forgotten {
            self.rounds[slot(round - past)] = 0;
        }
        self.current = round;
        let newest = &mut self.rounds[slot(round)];
        *newest = value.max(*newest);
        self.greatest = self.rounds.iter().copied().max().unwrap_or(0);
    }
}

fn slot(round: u64) -> usize {
    usize::try_from(round % u64::try_from(ROUNDS).unwrap_or(1)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_for_ten_rounds_after_its_own() {
        // Catches: a value that counts for nine or eleven rounds; slots of skipped rounds that are
        // not cleared.
        let mut greatest = Greatest::default();
        greatest.insert(3, 100);
        for round in 4..=13 {
            greatest.insert(round, 10 + round);
            assert_eq!(greatest.get(), 100, "round {round}");
        }
        greatest.insert(14, 5);
        assert_eq!(greatest.get(), 23);
        greatest.insert(24, 1);
        assert_eq!(greatest.get(), 5);
        greatest.insert(1_000, 2);
        assert_eq!(greatest.get(), 2);
        greatest.insert(1_000, 1);
        assert_eq!(greatest.get(), 2);
    }
}
