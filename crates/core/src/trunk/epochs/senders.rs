//! An estimate of the number of senders of an aggregate. Senders with little traffic hardly count.
//!
//! Bytes are counted in `m` parts, selected by a hash. With `S` the squared sum and `Q` the sum of
//! squares, the estimate is `S (m - 1) / (Q m - S)`.
//!
//! Source: doi 10.1038/163688a0 (Simpson): the inverse of the sum of squared shares is the number
//! of equal senders.
//! Differs: several flows may share a part. The estimate is the number of equal flows that would
//! most likely show these counts.

use crate::packet::FlowKey;
use crate::random::{halves, mixed};

/// Bytes sent in each part since the last count.
pub(super) struct Senders {
    sent: Box<[u64; PARTS]>,
}

impl Default for Senders {
    fn default() -> Self {
        Self { sent: Box::new([0; PARTS]) }
    }
}

impl Senders {
    /// A user packet of `bytes` departs.
    pub(super) fn sends(&mut self, key: &FlowKey, bytes: u64) {
        let words = [key.src, key.dst].map(|it| halves(it.number()));
        let ports = u64::from(key.src.port) << 16 | u64::from(key.dst.port);
        let words = words.into_iter().flat_map(|(high, low)| [high, low]).chain([ports]);
        let hash = words.fold(0, |hash, word| mixed(hash ^ word));
        let part = usize::try_from(hash % (1 << 8)).unwrap_or(0);
        self.sent[part] += bytes;
    }

    /// The estimate since the last count, at least one. Counting starts again from zero.
    pub(super) fn count(&mut self) -> u64 {
        let (mut sum, mut squares) = (0, 0);
        for bytes in std::mem::take(self).sent.iter().map(|it| u128::from(*it)) {
            (sum, squares) = (sum + bytes, squares + bytes * bytes);
        }
        // `n` equal senders hashed into `m` parts give `S / Q = n m / (m + n - 1)`.
        let (square, parts) = (sum * sum, 1 << 8);
        let left = (squares * parts).saturating_sub(square).max(1);
        let count = (square * (parts - 1) + left / 2) / left;
        u64::try_from(count).unwrap_or(MOST).clamp(1, MOST)
    }
}

const PARTS: usize = 1 << 8;

/// Greatest estimate. One more sender beyond it makes little difference.
const MOST: u64 = 64;
