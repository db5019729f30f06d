//! The bytes that the test connection transfers. Each byte depends on its position, so the checksum
//! shows bytes that were lost or moved.

use std::hash::{DefaultHasher, Hasher};

use serde::{Deserialize, Serialize};

/// The data received at one end.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Received {
    /// Number of bytes received in order, without a gap.
    pub bytes: u64,
    /// Checksum of the received bytes.
    pub checksum: u64,
    /// Checksum of the data that was sent to this end.
    pub expected: u64,
}

/// A stream of bytes. Each number denotes another stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content(u64);

impl Content {
    /// The stream that the kernel sends.
    pub(super) const KERNELS: Self = Self(1);
    /// The stream that Tidegate's endpoint sends.
    pub(super) const OURS: Self = Self(2);

    /// The `len` bytes of the stream from `offset` on.
    pub(super) fn bytes(self, offset: u64, len: usize) -> Vec<u8> {
        let skip = usize::from((offset % 8).to_le_bytes()[0]);
        let words = (offset / 8..).map(|index| self.word(index).to_le_bytes());
        words.take((skip + len).div_ceil(8)).flatten().skip(skip).take(len).collect()
    }

    /// The checksum of the stream's first `len` bytes.
    pub(super) fn checksum(self, len: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut at = 0;
        while at < len {
            let piece = (len - at).min(1 << 16);
            hasher.write(&self.bytes(at, usize::try_from(piece).unwrap_or(0)));
            at += piece;
        }
        hasher.finish()
    }

    /// Source: Steele, Lea, Flood, doi 10.1145/2714064.2660195 (SplitMix64).
    const fn word(self, index: u64) -> u64 {
        let sum = self.0.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(index);
        let mut z = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The checksum of bytes in several pieces.
pub(super) fn checksum(pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> u64 {
    let mut hasher = DefaultHasher::new();
    pieces.for_each(|piece| hasher.write(piece.as_ref()));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_make_up_the_stream() {
        let (content, len) = (Content(7), 100_003);
        let whole = content.bytes(0, len);
        let pieces = [0..1, 1..8, 8..1_465, 1_465..len];
        let cut = || {
            pieces.iter().map(|range| content.bytes(range.start.try_into().unwrap(), range.len()))
        };
        assert_eq!(cut().flatten().collect::<Vec<_>>(), whole);
        let expected = content.checksum(len.try_into().unwrap());
        assert_eq!((checksum([&whole].into_iter()), checksum(cut())), (expected, expected));
        assert_ne!(Content(8).bytes(0, 100), content.bytes(0, 100));
        assert_ne!(content.bytes(8, 100), content.bytes(0, 100));
    }
}
