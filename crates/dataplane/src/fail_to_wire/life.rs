//! The word by which the programs know that the gateway lives.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::MapData;

use super::layout::TOLD_TO_PASS;
use crate::mapping::Mapping;

/// `struct life` of `bpf/wire.h`, mapped: a sign of life is one store, without a system call.
#[derive(Debug)]
pub(super) struct Life {
    alive_until: NonNull<AtomicU64>,
    /// What the pointer points into.
    _mapping: Mapping,
}

impl Life {
    /// The one entry of `map`, which is an array with `BPF_F_MMAPABLE`.
    pub(super) fn of(map: &MapData) -> io::Result<Self> {
        let mapping = Mapping::of(map.fd().as_fd(), 0, size_of::<AtomicU64>())?;
        Ok(Self { alive_until: mapping.at(0, 1)?, _mapping: mapping })
    }

    /// Frames come to the gateway until `nanos` of `CLOCK_MONOTONIC`.
    pub(super) fn until(&self, nanos: u64) {
        self.word().store(nanos, Ordering::Release);
    }

    /// Frames go straight across.
    pub(super) fn pass(&self) {
        self.word().store(TOLD_TO_PASS, Ordering::Release);
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: it lies in the mapping, which lives as long as `self`; the programs only read it.
        unsafe { self.alive_until.as_ref() }
    }
}
