//! Selective acknowledgements of a segment.

/// The SACK blocks of a segment, the most recent first: ranges of sequence numbers, first byte and
/// the one after the last.
///
/// Source: RFC 2018, section 3: four fit beside no other option, three beside timestamps.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SackBlocks {
    blocks: [(u32, u32); Self::MOST],
    len: u8,
}

impl SackBlocks {
    /// How many there may be.
    pub const MOST: usize = 4;

    /// Adds a block behind the others; says whether there was room.
    pub fn push(&mut self, block: (u32, u32)) -> bool {
        let free = self.blocks.get_mut(usize::from(self.len));
        let fits = free.is_some();
        if let Some(free) = free {
            *free = block;
            self.len += 1;
        }
        fits
    }

    /// The blocks there are.
    #[must_use]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Whether there are none.
    #[must_use]
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
