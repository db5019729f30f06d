//! How many senders the aggregate has, as far as that matters: those that send little hardly count.
//!
//! Source: doi 10.1038/163688a0 (Simpson): the inverse of the sum of squared parts is as many as would send equally.
//! Differs: flows are told apart by a hash of their addresses and ports, so that some are held for one; the number is that
//! which would most likely show so.

use crate::packet::FlowKey;
use crate::random::{halves, mixed};

/// What each of some parts of all flows has sent since it was last asked.
pub(super) struct Senders {
    sent: Box<[u64; PARTS]>,
}

impl Default for Senders {
    fn default() -> Self {
        Self { sent: Box::new([0; PARTS]) }
    }
}

impl Senders {
    /// A packet of so many bytes leaves.
    pub(super) fn sends(&mut self, key: &FlowKey, bytes: u64) {
        let words = [key.src, key.dst].map(|it| halves(it.number()));
        let ports = u64::from(key.src.port) << 16 | u64::from(key.dst.port);
        let words = words.into_iter().flat_map(|(high, low)| [high, low]).chain([ports]);
        let hash = words.fold(0, |hash, word| mixed(hash ^ word));
        let part = usize::try_from(hash % (1 << 8)).unwrap_or(0);
        self.sent[part] += bytes;
    }

    /// How many there were, at least one; begins anew.
    pub(super) fn count(&mut self) -> u64 {
        let (mut sum, mut squares) = (0, 0);
        for bytes in std::mem::take(self).sent.iter().map(|it| u128::from(*it)) {
            (sum, squares) = (sum + bytes, squares + bytes * bytes);
        }
        // n senders of PARTS look like n PARTS / (PARTS + n - 1).
        let (square, parts) = (sum * sum, 1 << 8);
        let left = (squares * parts).saturating_sub(square).max(1);
        let count = (square * (parts - 1) + left / 2) / left;
        u64::try_from(count).unwrap_or(MOST).clamp(1, MOST)
    }
}

const PARTS: usize = 1 << 8;

/// So many that one more makes little difference.
const MOST: u64 = 64;
