//! An estimate of the number of flows that share a trunk. Flows with little traffic hardly count.
//!
//! A hash of the addresses and ports assigns each flow to one of `m` byte counters. Let `S` be the square of the sum of
//! all counters, and `Q` the sum of their squares. The estimate is `S (m - 1) / (Q m - S)`. Example: ten flows with equal
//! traffic in ten different counters give 10. A further flow with a hundredth of their traffic changes it by 0.02 only.
//!
//! Source: doi 10.1038/163688a0 (Simpson's index): `n` flows with equal shares have `S / Q = n`.
//! Differs: several flows may share a counter, which makes `S / Q` smaller. The formula corrects for the mean of this
//! effect: it returns the `n` for which equal flows would have this `S / Q` on average.

use crate::packet::FlowKey;
use crate::random::{halves, mixed};

/// Bytes sent since the last estimate, in a counter for each value of the hash.
pub(super) struct Senders {
    sent: Box<[u64; PARTS]>,
}

impl Default for Senders {
    fn default() -> Self {
        Self { sent: Box::new([0; PARTS]) }
    }
}

impl Senders {
    /// Counts a departing user packet of `bytes`.
    pub(super) fn sends(&mut self, key: &FlowKey, bytes: u64) {
        let words = [key.src, key.dst].map(|it| halves(it.number()));
        let ports = u64::from(key.src.port) << 16 | u64::from(key.dst.port);
        let words = words.into_iter().flat_map(|(high, low)| [high, low]).chain([ports]);
        let hash = words.fold(0, |hash, word| mixed(hash ^ word));
        let part = usize::try_from(hash % (1 << 8)).unwrap_or(0);
        self.sent[part] += bytes;
    }

    /// The estimated number of flows since the last call, at least one. Resets all counters.
    pub(super) fn count(&mut self) -> u64 {
        let (mut sum, mut squares) = (0, 0);
        for bytes in std::mem::take(self).sent.iter().map(|it| u128::from(*it)) {
            (sum, squares) = (sum + bytes, squares + bytes * bytes);
        }
        // `n` equal flows in `m` counters have `S / Q = n m / (m + n - 1)` on average. Solve this
        // for `n`.
        let (square, parts) = (sum * sum, 1 << 8);
        let left = (squares * parts).saturating_sub(square).max(1);
        let count = (square * (parts - 1) + left / 2) / left;
        u64::try_from(count).unwrap_or(MOST).clamp(1, MOST)
    }
}

/// Number of counters, `m`: four times the greatest estimate.
const PARTS: usize = 1 << 8;

/// Greatest estimate. With more flows, one further flow hardly changes the window.
const MOST: u64 = 64;
