//! The shared memory between the gateway and its programs: the deadline, and counts of earlier runs.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::MapData;

use super::layout::{Bypassed, FrameCount, NOTHING_TO_MANAGE, TOLD_TO_PASS};
use crate::heartbeat::Passing;
use crate::mapping::Mapping;

/// `struct life` of `bpf/wire.h` in mapped memory. A beat is one store, without a system call.
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
        let mapping = Mapping::of(map.fd().as_fd(), 0, Self::BYTES)?;
        Ok(Self { words: mapping.at(0, 1)?, _mapping: mapping })
    }

    /// Bytes of the structure.
    pub(super) const BYTES: usize = size_of::<[AtomicU64; Self::WORDS]>();

    /// Sets the deadline: frames come to the gateway until `CLOCK_MONOTONIC` reaches `nanos`.
    pub(super) fn until(&self, nanos: u64) {
        self.words()[0].store(nanos, Ordering::Release);
    }

    /// Lets frames bypass the gateway.
    pub(super) fn pass(&self, why: Passing) {
        self.until(match why {
            Passing::Ended => TOLD_TO_PASS,
            Passing::NothingToManage => NOTHING_TO_MANAGE,
        });
    }

    /// The counts of earlier programs on this port.
    pub(super) fn carried(&self) -> Bypassed {
        let mut carried = Bypassed::default();
        for (reason, [frames, bytes]) in (0..).zip(self.counts()) {
            if let Some(count) = carried.of(reason) {
                let [frames, bytes] = [frames, bytes].map(|word| word.load(Ordering::Relaxed));
                *count = FrameCount { frames, bytes };
            }
        }
        carried
    }

    /// Stores the counts of earlier programs on this port.
    pub(super) fn carry(&self, mut counts: Bypassed) {
        for (reason, [frames, bytes]) in (0..).zip(self.counts()) {
            let count = counts.of(reason).map_or_else(FrameCount::default, |count| *count);
            frames.store(count.frames, Ordering::Relaxed);
            bytes.store(count.bytes, Ordering::Relaxed);
        }
    }

    /// Frames and bytes for each reason.
    fn counts(&self) -> &[[AtomicU64; 2]] {
        self.words()[1..].as_chunks().0
    }

    fn words(&self) -> &[AtomicU64; Self::WORDS] {
        // SAFETY: the words lie in the mapping, which lives as long as `self`. The programs only read.
        unsafe { self.words.as_ref() }
    }
}
