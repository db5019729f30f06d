//! The bytes of a transfer. They are the same in every transfer, so a receiver can detect changes.

use std::io::{self, Read, Write};

use tidegate_core::random::Random;

use super::request::Receipt;

/// A position in the sequence of bytes that every transfer sends.
///
/// The sequence repeats after a prime number of bytes. A block that is lost, repeated, or moved by
/// a power of two then has wrong bytes at its position.
struct Stream {
    block: Vec<u8>,
    at: usize,
}

const PERIOD: usize = 65_521;

impl Stream {
    /// The beginning of the sequence.
    fn new() -> Self {
        let mut random = Random::new(0, 0);
        let byte = |_| u8::try_from(random.below(256)).unwrap_or(0);
        Self { block: (0..PERIOD).map(byte).collect(), at: 0 }
    }

    /// The next bytes of the sequence: at least one, at most `most`, which must not be zero.
    fn upcoming(&self, most: u64) -> &[u8] {
        let rest = &self.block[self.at..];
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        &rest[..most.min(rest.len())]
    }

    /// Advances by `bytes`, which must be no more than [`upcoming`](Self::upcoming) returned.
    const fn advance(&mut self, bytes: usize) {
        self.at = (self.at + bytes) % PERIOD;
    }

    /// Returns `true` if `received` are the next bytes of the sequence. Advances by the number of
    /// received bytes in any case.
    fn continues_with(&mut self, mut received: &[u8]) -> bool {
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

/// Sends `bytes` bytes of the sequence. Calls `go_on` with the number of bytes sent so far, and
/// ends early if it returns `false`.
pub(super) fn send(
    to: &mut impl Write,
    bytes: u64,
    mut go_on: impl FnMut(u64) -> bool,
) -> io::Result<u64> {
    let (mut stream, mut sent) = (Stream::new(), 0);
    while sent < bytes && go_on(sent) {
        match to.write(stream.upcoming(bytes - sent)) {
            Ok(written) => {
                stream.advance(written);
                sent += u64::try_from(written).unwrap_or(0);
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Receives `bytes` bytes. Calls `go_on` with the number of bytes received so far. Ends early if
/// `go_on` returns `false` or the other end closes the connection.
pub(super) fn receive(
    from: &mut impl Read,
    bytes: u64,
    mut go_on: impl FnMut(u64) -> bool,
) -> io::Result<Receipt> {
    let (mut stream, mut receipt) = (Stream::new(), Receipt { bytes: 0, intact: true });
    let mut piece = vec![0; 1 << 16];
    while receipt.bytes < bytes && go_on(receipt.bytes) {
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(received) => {
                receipt.intact &= stream.continues_with(&piece[..received]);
                receipt.bytes += u64::try_from(received).unwrap_or(0);
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(receipt)
}

/// Returns `true` if `error` is a timeout.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
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

    /// Catches: a receiver that does not advance after a wrong byte; a comparison that ignores the
    /// bytes at the end of a block.
    #[test]
    fn a_receiver_notices_changed_bytes() {
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
