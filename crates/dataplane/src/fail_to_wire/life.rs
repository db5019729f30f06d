//! The memory that the gateway shares with its BPF programs. It holds the deadline, and the bypass
//! counts of earlier programs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::MapData;
use tidegate_core::Count;
use tidegate_gateway::report::Bypassed;

use super::layout::{NOTHING_TO_MANAGE, PASS_REQUESTED, count_of};
use crate::heartbeat::Passing;
use crate::mapping::Mapping;

/// `struct life` of `bpf/wire.h` in mapped memory. A heartbeat is one store, without a system call.
#[derive(Debug)]
pub(super) struct Life {
    words: NonNull<[AtomicU64; Self::WORDS]>,
    /// The memory that the pointer points into.
    _mapping: Mapping,
}

impl Life {
    /// Words of the structure: the deadline of the gateway, and frames and bytes for each reason.
    const WORDS: usize = 9;

    /// Maps the single entry of `map`, which is an array with `BPF_F_MMAPABLE`.
    pub(super) fn of(map: &MapData) -> io::Result<Self> {
        Self::map(map.fd().as_fd())
    }

    fn map(file: BorrowedFd<'_>) -> io::Result<Self> {
        let mapping = Mapping::of(file, 0, Self::BYTES)?;
        Ok(Self { words: mapping.at(0, 1)?, _mapping: mapping })
    }

    /// Bytes of the structure.
    pub(super) const BYTES: usize = size_of::<[AtomicU64; Self::WORDS]>();

    /// Sets the deadline: the gateway gets the frames until `CLOCK_MONOTONIC` reaches `nanos`.
    pub(super) fn until(&self, nanos: u64) {
        self.words()[0].store(nanos, Ordering::Release);
    }

    /// Lets frames bypass the gateway.
    pub(super) fn pass(&self, why: Passing) {
        self.until(match why {
            Passing::Ended => PASS_REQUESTED,
            Passing::NothingToManage => NOTHING_TO_MANAGE,
        });
    }

    /// The counts of earlier programs on this port.
    pub(super) fn carried(&self) -> Bypassed {
        let mut carried = Bypassed::default();
        for (reason, [frames, bytes]) in (0..).zip(self.counts()) {
            if let Some(count) = count_of(&mut carried, reason) {
                let [frames, bytes] = [frames, bytes].map(|word| word.load(Ordering::Relaxed));
                *count = Count { packets: frames, bytes };
            }
        }
        carried
    }

    /// The counts of earlier programs in a map whose value has `size` bytes. `None` if no version
    /// had a map of this size.
    pub(super) fn carried_in(map: BorrowedFd<'_>, size: usize) -> Option<io::Result<Bypassed>> {
        match size {
            Self::BYTES => Some(Self::map(map).map(|life| life.carried())),
            FORMER_BYTES => Some(former_carried(map)),
            _ => None,
        }
    }

    /// Stores the counts of earlier programs on this port.
    pub(super) fn carry(&self, mut counts: Bypassed) {
        for (reason, [frames, bytes]) in (0..).zip(self.counts()) {
            let count = count_of(&mut counts, reason).map_or_else(Count::default, |count| *count);
            frames.store(count.packets, Ordering::Relaxed);
            bytes.store(count.bytes, Ordering::Relaxed);
        }
    }

    /// Frames and bytes for each reason.
    fn counts(&self) -> &[[AtomicU64; 2]] {
        self.words()[1..].as_chunks().0
    }

    fn words(&self) -> &[AtomicU64; Self::WORDS] {
        // SAFETY: the words lie in the mapping, which lives as long as `self`. The BPF programs
        // only read them.
        unsafe { self.words.as_ref() }
    }
}

/// The counts in the map of an earlier version. That map holds the deadline, and the number of
/// frames for each reason.
fn former_carried(file: BorrowedFd<'_>) -> io::Result<Bypassed> {
    let mapping = Mapping::of(file, 0, FORMER_BYTES)?;
    let words: NonNull<[AtomicU64; FORMER_WORDS]> = mapping.at(0, 1)?;
    // SAFETY: the words lie in the mapping, which lives until the end of this function. The BPF
    // programs only read them.
    let [_, counts @ ..] = unsafe { words.as_ref() };
    let mut carried = Bypassed::default();
    for (reason, frames) in (0..).zip(counts) {
        if let Some(count) = count_of(&mut carried, reason) {
            *count = Count { packets: frames.load(Ordering::Relaxed), bytes: 0 };
        }
    }
    Ok(carried)
}

/// Words and bytes of `struct life` in earlier versions.
const FORMER_WORDS: usize = 4;
const FORMER_BYTES: usize = size_of::<[AtomicU64; FORMER_WORDS]>();

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::FromRawFd;

    use super::*;

    /// A file in memory in place of a map.
    fn map_of(words: &[u64]) -> File {
        // SAFETY: the name ends in a zero, and nothing else owns the new file descriptor.
        let mut file = unsafe { File::from_raw_fd(libc::memfd_create(c"life".as_ptr(), 0)) };
        words.iter().for_each(|word| file.write_all(&word.to_ne_bytes()).unwrap());
        file
    }

    /// Catches: counts of an earlier version that become zero after an upgrade; a deadline or a
    /// frame count of the earlier version that is read as a byte count.
    #[test]
    fn counts_of_an_earlier_version_stay_after_an_upgrade() {
        let frames = |packets| Count { packets, bytes: 0 };
        let of = |words: &[u64]| {
            Life::carried_in(map_of(words).as_fd(), size_of_val(words)).map(Result::unwrap)
        };
        let former = Bypassed {
            requested: frames(5),
            silent: frames(6),
            no_socket: frames(7),
            ..Bypassed::default()
        };
        assert_eq!(of(&[99, 5, 6, 7]), Some(former));
        let now = of(&[99, 5, 50, 6, 60, 7, 70, 8, 80]).unwrap();
        assert_eq!(now.idle, Count { packets: 8, bytes: 80 });
        assert_eq!(of(&[99, 5, 6]), None);
    }
}
