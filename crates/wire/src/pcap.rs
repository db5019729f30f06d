//! Packet captures in the classic pcap format. Timestamps are written in nanoseconds, and read in
//! nanoseconds or microseconds.
//!
//! Source: draft-ietf-opsawg-pcap. Only Ethernet frames (link type 1) are supported.

use std::io::{self, IoSlice, Read, Write};

use tidegate_core::Time;

/// Writes a capture in batches. Without a call of [`finish`](Self::finish), the last batch is lost.
///
/// ```
/// use tidegate_core::Time;
/// use tidegate_wire::build::Frame;
/// use tidegate_wire::pcap::{Reader, Writer};
///
/// let query = Frame::udp("10.0.0.1:5000".parse().unwrap(), "10.9.0.1:53".parse().unwrap()).bytes();
/// let mut capture = Writer::new(Vec::new()).unwrap();
/// capture.write(Time::from_millis(5), &query).unwrap();
/// let file = capture.finish().unwrap();
///
/// let mut reader = Reader::new(file.as_slice()).unwrap();
/// let record = reader.next().unwrap().unwrap();
/// assert_eq!((record.time, record.bytes), (Time::from_millis(5), query));
/// assert!(reader.next().is_none());
/// ```
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// The record headers and bytes of the frames in the batch.
    bytes: Vec<u8>,
    /// For each frame of the batch: the offset of its end in `bytes`, and the number of zero bytes
    /// that follow it in the file.
    frames: Vec<(usize, usize)>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture in `out`, which need not be buffered.
    ///
    /// # Errors
    ///
    /// If writing to `out` fails.
    pub fn new(mut out: W) -> io::Result<Self> {
        let words = [NANOSECONDS, VERSION, 0, 0, LONGEST, ETHERNET];
        out.write_all(words.map(u32::to_le_bytes).as_flattened())?;
        Ok(Self { out, bytes: Vec::new(), frames: Vec::new() })
    }

    /// Adds a frame seen at `time`.
    ///
    /// # Errors
    ///
    /// If writing this or an earlier frame fails, or the frame exceeds 256 KiB, the limit of the
    /// format.
    pub fn write(&mut self, time: Time, frame: &[u8]) -> io::Result<()> {
        self.write_before_zeros(time, frame, 0)
    }

    /// Adds a frame that consists of the bytes `frame` and `zeros` zero bytes.
    ///
    /// # Errors
    ///
    /// In the same cases as [`write`](Self::write).
    pub fn write_before_zeros(&mut self, time: Time, frame: &[u8], zeros: usize) -> io::Result<()> {
        let len = u32::try_from(frame.len() + zeros).ok().filter(|len| *len <= LONGEST);
        let len = len.ok_or_else(|| invalid("a frame is longer than a capture takes"))?;
        let seconds = u32::try_from(time.nanos() / SECOND)
            .map_err(|_| invalid("a time is later than a capture can say (year 2106)"))?;
        let nanos = u32::try_from(time.nanos() % SECOND).map_err(io::Error::other)?;
        self.bytes.extend([seconds, nanos, len, len].map(u32::to_le_bytes).as_flattened());
        self.bytes.extend(frame);
        self.frames.push((self.bytes.len(), zeros));
        if self.frames.len() < AT_ONCE { Ok(()) } else { self.flush() }
    }

    /// Writes the batch. Zeros are most of a capture, and are written without a copy to the buffer.
    fn flush(&mut self) -> io::Result<()> {
        let (mut slices, mut start) = (Vec::with_capacity(2 * AT_ONCE), 0);
        for &(end, mut zeros) in &self.frames {
            slices.push(IoSlice::new(&self.bytes[start..end]));
            while zeros > 0 {
                let some = zeros.min(ZEROS.len());
                slices.push(IoSlice::new(&ZEROS[..some]));
                zeros -= some;
            }
            start = end;
        }
        write_all(&mut self.out, &mut slices)?;
        self.bytes.clear();
        self.frames.clear();
        Ok(())
    }

    /// Writes the last batch and returns the output.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn write_all(out: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        match out.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A frame of a capture.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// The capture time.
    pub time: Time,
    /// Length of the frame on the wire.
    pub len: u32,
    /// The captured first bytes of the frame.
    pub bytes: Vec<u8>,
}

/// Reads a capture, of either byte order.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    word: fn([u8; 4]) -> u32,
    nanos_per_tick: u64,
}

impl<R: Read> Reader<R> {
    /// Opens the capture in `input`, which should be buffered.
    ///
    /// # Errors
    ///
    /// If reading fails, or this is not a classic pcap file of Ethernet frames.
    pub fn new(mut input: R) -> io::Result<Self> {
        let mut header = [[0; 4]; 6];
        input.read_exact(header.as_flattened_mut())?;
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
        Ok(Self { input, word, nanos_per_tick })
    }

    /// Reads the next frame. `None` at the end of the capture.
    fn read(&mut self) -> io::Result<Option<Record>> {
        let mut header = [[0; 4]; 4];
        let bytes = header.as_flattened_mut();
        // The capture ends only at a record boundary.
        if self.input.read(&mut bytes[..1])? == 0 {
            return Ok(None);
        }
        self.input.read_exact(&mut bytes[1..])?;
        let [seconds, ticks, kept, len] = header.map(self.word);
        let mut bytes = vec![0; usize::try_from(kept.min(LONGEST)).map_err(io::Error::other)?];
        if kept > LONGEST {
            return Err(invalid("a record is longer than any frame: the capture is damaged"));
        }
        self.input.read_exact(&mut bytes)?;
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
/// Version 2.4 in two fields of 16 bits.
const VERSION: u32 = 4 << 16 | 2;
/// The largest snapshot length of tcpdump (`MAXIMUM_SNAPLEN`).
const LONGEST: u32 = 262_144;
/// Link type of Ethernet (`LINKTYPE_ETHERNET`).
const ETHERNET: u32 = 1;
const SECOND: u64 = 1_000_000_000;
/// Frames in a batch. Each needs two slices, and Linux accepts 1,024 in one call (`IOV_MAX`).
const AT_ONCE: usize = 512;
/// Zero bytes to write. This length suffices for most frames.
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
    fn a_written_capture_is_read_back() {
        let records: Vec<_> = Reader::new(&capture()[..]).unwrap().map(Result::unwrap).collect();
        let time = Time::from_nanos(1_000_000_007);
        assert_eq!(records[0], Record { time, len: 3, bytes: vec![1, 2, 3] });
        assert_eq!((records.len(), records[1].bytes.len()), (2, 0));
    }

    /// An output that accepts at most 1,000 bytes per call. Every second call is interrupted: the
    /// flag is `true` after such a call.
    #[derive(Default)]
    struct Slow(Vec<u8>, bool);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let some = bytes.len().min(1_000);
            self.0.extend(&bytes[..some]);
            Ok(some)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Catches: a partial write that counts as complete; bytes written twice; a last batch that is
    /// lost.
    #[test]
    fn all_frames_are_written_in_order_to_an_output_that_takes_few_bytes_at_once() {
        let zeros = |n: usize| [0, 1, 2_048, 2_049, 9_000][n % 5];
        let frame = |n: usize| (n.to_le_bytes(), Time::from_nanos(n.try_into().unwrap()));
        let mut writer = Writer::new(Slow(Vec::new(), true)).unwrap();
        for n in 0..2 * AT_ONCE + 5 {
            let (bytes, time) = frame(n);
            writer.write_before_zeros(time, &bytes, zeros(n)).unwrap();
        }
        let all = writer.finish().unwrap().0;
        let records: Vec<_> = Reader::new(&all[..]).unwrap().map(Result::unwrap).collect();
        assert_eq!(records.len(), 2 * AT_ONCE + 5);
        for (n, record) in records.into_iter().enumerate() {
            let ((head, time), whole) = (frame(n), 8 + zeros(n));
            assert_eq!((record.time, record.bytes.len()), (time, whole));
            assert_eq!(record.bytes[..8], head);
            assert!(record.bytes[8..].iter().all(|byte| *byte == 0));
        }
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
    fn a_capture_that_is_cut_off_or_states_a_wrong_length_is_an_error() {
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
