//! SACK blocks of a segment.

/// The SACK blocks of a segment, most recent first. A block is the sequence number of its first
/// byte, and the number after its last byte.
///
/// Source: RFC 2018, section 3 (at most four blocks, or three beside timestamps).
///
/// ```
/// use tidegate_base::packet::SackBlocks;
///
/// let mut blocks = SackBlocks::default();
/// for first in [9_000, 6_000, 3_000, 0] {
///     assert!(blocks.push((first, first + 1_448)));
/// }
/// assert!(!blocks.push((20_000, 21_448)), "a segment has room for four");
/// assert_eq!(blocks.as_slice()[0], (9_000, 10_448));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SackBlocks {
    blocks: [(u32, u32); Self::MOST],
    len: u8,
}

impl SackBlocks {
    /// Largest number of SACK blocks in a segment.
    pub const MOST: usize = 4;

    /// Appends a block. Returns `false` if there is no room for it.
    #[inline]
    pub fn push(&mut self, block: (u32, u32)) -> bool {
        let free = self.blocks.get_mut(usize::from(self.len));
        let fits = free.is_some();
        if let Some(free) = free {
            *free = block;
            self.len += 1;
        }
        fits
    }

    /// The blocks, most recent first.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Returns `true` if there are no blocks.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_four_blocks_and_says_when_it_is_full() {
        let mut sack = SackBlocks::default();
        assert!((0..4).all(|n| sack.push((n, n + 1))));
        assert!(!sack.push((9, 10)));
        assert_eq!(sack.as_slice(), [(0, 1), (1, 2), (2, 3), (3, 4)]);
    }
}
