//! The bytes of a transfer: the same for everyone, so that a receiver can tell whether they are
//! intact.

use tidegate_core::random::Random;

/// A place in the stream every transfer sends.
///
/// It repeats after a prime number of bytes: a piece lost, doubled or moved by a power of two shows.
pub(super) struct Stream {
    block: Vec<u8>,
    at: usize,
}

const PERIOD: usize = 65_521;

impl Stream {
    /// The beginning.
    pub(super) fn new() -> Self {
        let mut random = Random::new(0, 0);
        let byte = |_| u8::try_from(random.below(256)).unwrap_or(0);
        Self { block: (0..PERIOD).map(byte).collect(), at: 0 }
    }

    /// The next bytes, at least one and at most `most` (which is not zero).
    pub(super) fn upcoming(&self, most: u64) -> &[u8] {
        let rest = &self.block[self.at..];
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        &rest[..most.min(rest.len())]
    }

    /// Goes `bytes` on; no further than [`upcoming`](Self::upcoming) reached.
    pub(super) const fn advance(&mut self, bytes: usize) {
        self.at = (self.at + bytes) % PERIOD;
    }

    /// Whether `received` are the next bytes; goes on by as many.
    pub(super) fn continues_with(&mut self, mut received: &[u8]) -> bool {
        let mut same = true;
        while !received.is_empty() {
            let expected = self.upcoming(u64::try_from(received.len()).unwrap_or(u64::MAX));
            let (now, later) = received.split_at(expected.len());
            same &= now == expected;
            self.advance(now.len());
            received = later;
        }
        same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(from: usize, count: usize) -> Vec<u8> {
        let mut stream = Stream::new();
        stream.at = from % PERIOD;
        let mut out = Vec::new();
        while out.len() < count {
            let piece = stream.upcoming(u64::try_from(count - out.len()).unwrap()).to_vec();
            stream.advance(piece.len());
            out.extend(piece);
        }
        out
    }

    /// Kills: not advancing over what differed; comparing without the block's end.
    #[test]
    fn a_receiver_notices_what_is_not_intact() {
        let whole = bytes(0, 3 * PERIOD);
        assert!(Stream::new().continues_with(&whole));
        let mut piecewise = Stream::new();
        assert!(whole.chunks(1_448).all(|piece| piecewise.continues_with(piece)));

        let mut changed = whole.clone();
        changed[100_000] ^= 1;
        assert!(!Stream::new().continues_with(&changed));
        let lost = [&whole[..65_536], &whole[65_536 + 1_024..]].concat();
        assert!(!Stream::new().continues_with(&lost));
        let doubled = [&whole[..65_536], &whole[64_512..]].concat();
        assert!(!Stream::new().continues_with(&doubled));
        assert!(Stream::new().continues_with(&bytes(0, 10)));
        assert!(!Stream::new().continues_with(&bytes(1, 10)));
    }
}
