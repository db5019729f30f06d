//! The time of a run, and waiting for the next thing to happen in it.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use tidegate_core::Time;

/// A clock that can be waited on: the host's, or a test's.
pub trait Clock {
    /// The time of the run.
    fn now(&mut self) -> Time;

    /// Returns at `until`, or before that when one of `ports` or `inbox` can be read, or for no
    /// reason; says whether `inbox` can.
    fn wait(
        &mut self,
        until: Option<Time>,
        ports: &mut dyn Iterator<Item = BorrowedFd<'_>>,
        inbox: BorrowedFd<'_>,
    ) -> bool;
}

/// The host's `CLOCK_MONOTONIC`, counted from when this was made.
#[derive(Debug)]
pub struct Monotonic {
    origin: u64,
    polled: Vec<libc::pollfd>,
}

impl Monotonic {
    /// A clock that is at [`Time::ZERO`] now.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: reading(), polled: Vec::new() }
    }

    /// What `CLOCK_MONOTONIC` reads at [`Time::ZERO`], in nanoseconds: for those who share that
    /// clock, such as programs in the kernel.
    #[must_use]
    pub const fn origin(&self) -> u64 {
        self.origin
    }
}

impl Clock for Monotonic {
    fn now(&mut self) -> Time {
        Time::from_nanos(reading().saturating_sub(self.origin))
    }

    fn wait(
        &mut self,
        until: Option<Time>,
        ports: &mut dyn Iterator<Item = BorrowedFd<'_>>,
        inbox: BorrowedFd<'_>,
    ) -> bool {
        let polled = |fd: BorrowedFd<'_>| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        self.polled.clear();
        self.polled.push(polled(inbox));
        self.polled.extend(ports.map(polled));
        let left = until.map(|until| timespec(until.since(self.now())));
        let timeout = left.as_ref().map_or(ptr::null(), ptr::from_ref);
        let count = libc::nfds_t::try_from(self.polled.len()).unwrap_or(0);
        // SAFETY: `polled` holds `count` entries, whose descriptors are borrowed for the call, and
        // `timeout` is null or points at `left`.
        let ready = unsafe { libc::ppoll(self.polled.as_mut_ptr(), count, timeout, ptr::null()) };
        ready > 0 && self.polled[0].revents != 0
    }
}

fn reading() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a whole timespec. The call cannot fail: every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

fn timespec(span: std::time::Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}
