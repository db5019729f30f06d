//! Packet captures: the classic pcap format, written with nanoseconds, read with either resolution.
//!
//! Source: draft-ietf-opsawg-pcap. Only Ethernet (link type 1).

use std::io::{self, Read, Write};

use tidegate_core::Time;

/// Writes a capture.
#[derive(Debug)]
pub struct Writer<W>(W);

impl<W: Write> Writer<W> {
    /// Begins a capture in `out`, which had better be buffered.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written to.
    pub fn new(mut out: W) -> io::Result<Self> {
        let words = [NANOSECONDS, VERSION, 0, 0, LONGEST, ETHERNET];
        out.write_all(words.map(u32::to_le_bytes).as_flattened())?;
        Ok(Self(out))
    }

    /// Adds a frame that was seen at `time`.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or is longer than the format takes (256 KiB).
    pub fn write(&mut self, time: Time, frame: &[u8]) -> io::Result<()> {
        self.write_before_zeros(time, frame, 0)
    }

    /// Adds a frame that begins with `frame` and goes on with so many zeros.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_before_zeros(
        &mut self,
        time: Time,
        frame: &[u8],
        mut zeros: usize,
    ) -> io::Result<()> {
        let len = u32::try_from(frame.len() + zeros).ok().filter(|len| *len <= LONGEST);
        let len = len.ok_or_else(|| invalid("a frame is longer than a capture takes"))?;
        let seconds = u32::try_from(time.nanos() / SECOND)
            .map_err(|_| invalid("a time is later than a capture can say (year 2106)"))?;
        let nanos = u32::try_from(time.nanos() % SECOND).map_err(io::Error::other)?;
        self.0.write_all([seconds, nanos, len, len].map(u32::to_le_bytes).as_flattened())?;
        self.0.write_all(frame)?;
        while zeros > 0 {
            let some = zeros.min(ZEROS.len());
            self.0.write_all(&ZEROS[..some])?;
            zeros -= some;
        }
        Ok(())
    }

    /// Ends the capture and gives back what it was written to.
    ///
    /// # Errors
    ///
    /// If what is buffered cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.0.flush()?;
        Ok(self.0)
    }
}

/// A frame of a capture.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// When it was seen.
    pub time: Time,
    /// Its length on the wire.
    pub len: u32,
    /// Its bytes, or the first of them.
    pub bytes: Vec<u8>,
}

/// Reads a capture, of either byte order.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    word: fn([u8; 4]) -> u32,
    nanos_per_tick: u64,
}

impl<R: Read> Reader<R> {
    /// Opens the capture in `from`, which had better be buffered.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not a classic pcap file with Ethernet frames.
    pub fn new(mut from: R) -> io::Result<Self> {
        let mut header = [[0; 4]; 6];
        from.read_exact(header.as_flattened_mut())?;
        let little: fn([u8; 4]) -> u32 = u32::from_le_bytes;
        let big: fn([u8; 4]) -> u32 = u32::from_be_bytes;
        let formats = [little, big].map(|word| (word, word(header[0])));
        let (word, nanos_per_tick) = formats
            .into_iter()
            .find_map(|(word, magic)| match magic {
                NANOSECONDS => Some((word, 1)),
                MICROSECONDS => Some((word, 1_000)),
                _ => None,
            })
            .ok_or_else(|| {
                invalid("not a classic pcap file; convert it with `editcap -F nsecpcap`")
            })?;
        if word(header[5]) & 0xffff != ETHERNET {
            return Err(invalid("the capture is not of Ethernet frames"));
        }
        Ok(Self { from, word, nanos_per_tick })
    }

    /// The next frame; `None` at the end.
    fn read(&mut self) -> io::Result<Option<Record>> {
        let mut header = [[0; 4]; 4];
        let bytes = header.as_flattened_mut();
        // The end of the file is an end only between two records.
        if self.from.read(&mut bytes[..1])? == 0 {
            return Ok(None);
        }
        self.from.read_exact(&mut bytes[1..])?;
        let [seconds, ticks, kept, len] = header.map(self.word);
        let mut bytes = vec![0; usize::try_from(kept.min(LONGEST)).map_err(io::Error::other)?];
        if kept > LONGEST {
            return Err(invalid("a record is longer than any frame: the capture is damaged"));
        }
        self.from.read_exact(&mut bytes)?;
        let nanos = u64::from(seconds) * SECOND + u64::from(ticks) * self.nanos_per_tick;
        Ok(Some(Record { time: Time::from_nanos(nanos), len, bytes }))
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        self.read().transpose()
    }
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Major 2, minor 4, each 16 bits.
const VERSION: u32 = 4 << 16 | 2;
/// What tcpdump captures at most (its MAXIMUM_SNAPLEN).
const LONGEST: u32 = 262_144;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;
const SECOND: u64 = 1_000_000_000;
/// As many as most frames have.
static ZEROS: [u8; 1 << 11] = [0; 1 << 11];

#[cfg(test)]
mod tests {
    use super::*;

    fn capture() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.write(Time::from_nanos(1_000_000_007), &[1, 2, 3]).unwrap();
        writer.write(Time::from_nanos(2_000_000_000), &[]).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn what_was_written_is_read() {
        let records: Vec<_> = Reader::new(&capture()[..]).unwrap().map(Result::unwrap).collect();
        let time = Time::from_nanos(1_000_000_007);
        assert_eq!(records[0], Record { time, len: 3, bytes: vec![1, 2, 3] });
        assert_eq!((records.len(), records[1].bytes.len()), (2, 0));
    }

    #[test]
    fn captures_of_the_other_byte_order_and_of_microseconds_are_read() {
        let mut bytes = vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4];
        bytes.extend([[0; 4], [0; 4], [0, 0, 1, 0], [0, 0, 0, 1]].concat());
        bytes.extend([[0, 0, 0, 1], [0, 0, 0, 5], [0, 0, 0, 1], [0, 0, 0, 60]].concat());
        bytes.push(9);
        let record = Reader::new(&bytes[..]).unwrap().next().unwrap().unwrap();
        let time = Time::from_nanos(1_000_005_000);
        assert_eq!(record, Record { time, len: 60, bytes: vec![9] });
    }

    #[test]
    fn a_capture_that_breaks_off_or_lies_about_a_length_is_an_error() {
        let good = capture();
        for len in (0..good.len()).filter(|len| ![24, 43].contains(len)) {
            let cut =
                Reader::new(&good[..len]).and_then(|reader| reader.collect::<io::Result<Vec<_>>>());
            assert!(cut.is_err(), "{len}");
        }
        let mut lies = good.clone();
        lies[32..36].fill(0xff);
        assert!(Reader::new(&lies[..]).unwrap().next().unwrap().is_err());
    }
}
