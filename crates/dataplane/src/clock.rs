//! Clocks for the loop that runs a gateway. A clock returns the time, and waits until the next
//! alarm or packet.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use tidegate_core::Time;

use crate::lead::Lead;

/// A clock with a wait operation. It is the host's clock, or a virtual clock in a test.
pub trait Clock {
    /// The time now.
    fn now(&mut self) -> Time;

    /// The processor time of the calling thread. A virtual clock returns zero.
    fn used(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Waits until the alarm, or until one of `ports` or `inbox` is readable. May also return early
    /// without a reason. Returns `true` if `inbox` is readable.
    fn wait(
        &mut self,
        alarm: Option<Alarm>,
        ports: &mut dyn Iterator<Item = BorrowedFd<'_>>,
        inbox: BorrowedFd<'_>,
    ) -> bool;
}

/// A time at which a wait ends.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Alarm {
    /// The latest time of return.
    pub at: Time,
    /// Return exactly at this time, even if a descriptor becomes readable shortly before.
    pub exact: bool,
}

/// The host's `CLOCK_MONOTONIC`, relative to the creation of this value.
///
/// For an exact alarm, the thread wakes slightly early and spins until the alarm. It spins for at
/// most about 50 us per alarm, and for at most an eighth of the time.
///
/// The thread uses at most 15/16 of a core. Under `SCHED_FIFO`, the kernel would stop a busier
/// thread for about 50 ms in every second. Instead, this clock makes the thread sleep for at most 1
/// ms (a rest).
#[derive(Debug)]
pub struct Monotonic {
    origin: u64,
    polled: Vec<libc::pollfd>,
    /// Time of the last check of the processor time.
    looked: u64,
    /// Processor time of the thread at the last check. `u64::MAX` before the first check, because
    /// another thread may have created the clock.
    used: u64,
    lead: Lead,
}

/// Interval between two checks of the processor time, in nanoseconds.
const LOOK: u64 = 10_000_000;

/// Longest rest, in nanoseconds.
const REST: u64 = 1_000_000;

impl Monotonic {
    /// A clock that shows [`Time::ZERO`] now.
    #[must_use]
    pub fn start() -> Self {
        let origin = reading(libc::CLOCK_MONOTONIC);
        let lead = Lead::new(origin);
        Self { origin, polled: Vec::new(), looked: origin, used: u64::MAX, lead }
    }

    /// The value of `CLOCK_MONOTONIC` at [`Time::ZERO`], in nanoseconds. BPF programs in the kernel
    /// use the same clock.
    #[must_use]
    pub const fn origin(&self) -> u64 {
        self.origin
    }

    /// Returns exactly at `deadline`. Returns earlier only if a descriptor becomes readable well
    /// before the deadline.
    fn meet(&mut self, deadline: u64) {
        let now = reading(libc::CLOCK_MONOTONIC);
        let lead = self.lead.at(now);
        let left = deadline.saturating_sub(now);
        let asleep = left.saturating_sub(lead);
        let ready = poll(&mut self.polled, Some(Duration::from_nanos(asleep)));
        let back = reading(libc::CLOCK_MONOTONIC);
        if asleep > 0 && !ready {
            self.lead.woke(back.saturating_sub(now + asleep));
        }
        if back.saturating_add(lead) < deadline {
            return;
        }
        let mut late = back;
        while late < deadline {
            late = reading(libc::CLOCK_MONOTONIC);
        }
        self.lead.spun(late - back);
    }

    /// Sleeps if the thread has used more than its share of the processor since the last check.
    fn rest(&mut self) {
        let now = reading(libc::CLOCK_MONOTONIC);
        let elapsed = now.saturating_sub(self.looked);
        if elapsed < LOOK {
            return;
        }
        let used = reading(libc::CLOCK_THREAD_CPUTIME_ID);
        let busy = used.saturating_sub(self.used);
        let owed = (busy + busy / 15).saturating_sub(elapsed).min(REST);
        if owed > 0 {
            poll(&mut [], Some(Duration::from_nanos(owed)));
        }
        (self.looked, self.used) = (now + owed, used);
    }
}

impl Clock for Monotonic {
    fn now(&mut self) -> Time {
        Time::from_nanos(reading(libc::CLOCK_MONOTONIC).saturating_sub(self.origin))
    }

    fn used(&mut self) -> Duration {
        Duration::from_nanos(reading(libc::CLOCK_THREAD_CPUTIME_ID))
    }

    fn wait(
        &mut self,
        alarm: Option<Alarm>,
        ports: &mut dyn Iterator<Item = BorrowedFd<'_>>,
        inbox: BorrowedFd<'_>,
    ) -> bool {
        let polled = |fd: BorrowedFd<'_>| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        self.rest();
        self.polled.clear();
        self.polled.push(polled(inbox));
        self.polled.extend(ports.map(polled));
        match alarm {
            Some(Alarm { at, exact: true }) => self.meet(self.origin.saturating_add(at.nanos())),
            Some(Alarm { at, exact: false }) => {
                let left = at.since(self.now());
                poll(&mut self.polled, Some(left));
            }
            None => {
                poll(&mut self.polled, None);
            }
        }
        self.polled[0].revents != 0
    }
}

/// Waits until a descriptor in `polled` is ready, or for `timeout`. Returns `true` if a descriptor
/// is ready.
fn poll(polled: &mut [libc::pollfd], timeout: Option<Duration>) -> bool {
    let timeout = timeout.map(timespec);
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let count = libc::nfds_t::try_from(polled.len()).unwrap_or(0);
    // SAFETY: `polled` holds `count` entries, and `timeout` is null or points to a timespec that
    // lives until the end of this function. The kernel reports a closed descriptor as an error.
    unsafe { libc::ppoll(polled.as_mut_ptr(), count, timeout, ptr::null()) > 0 }
}

/// The value of `clock`, in nanoseconds.
fn reading(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a whole timespec. The call cannot fail: every Linux has these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

fn timespec(span: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_thread_that_never_waits_uses_at_most_its_share_of_the_core() {
        let mut clock = Monotonic::start();
        let (reader, _writer) = std::io::pipe().unwrap();
        let used = reading(libc::CLOCK_THREAD_CPUTIME_ID);
        let alarm = Alarm { at: Time::ZERO, exact: true };
        while clock.now() < Time::from_millis(200) {
            clock.wait(Some(alarm), &mut std::iter::empty(), reader.as_fd());
        }
        let used = reading(libc::CLOCK_THREAD_CPUTIME_ID) - used;
        let elapsed = clock.now().nanos();
        assert!(used * 100 < elapsed * 97, "{used} of {elapsed} ns");
    }

    #[test]
    fn a_wait_ends_at_its_alarm_or_when_a_descriptor_is_readable() {
        let mut clock = Monotonic::start();
        let (reader, writer) = std::io::pipe().unwrap();
        for exact in [false, true] {
            let at = clock.now() + Duration::from_millis(2);
            let alarm = Some(Alarm { at, exact });
            assert!(!clock.wait(alarm, &mut std::iter::empty(), reader.as_fd()));
            assert!(clock.now() >= at);
        }
        std::io::Write::write_all(&mut &writer, b"x").unwrap();
        assert!(clock.wait(None, &mut std::iter::empty(), reader.as_fd()));
    }

    /// Catches: an exact alarm at which the thread returns early, because a descriptor is readable.
    #[test]
    fn an_exact_alarm_that_is_close_is_met_before_readable_descriptors_are_served() {
        let mut clock = Monotonic::start();
        let (reader, writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut &writer, b"x").unwrap();
        while clock.now() < Time::from_millis(1) {}
        let at = clock.now() + Duration::from_micros(30);
        let alarm = |exact| Some(Alarm { at, exact });
        assert!(clock.wait(alarm(true), &mut std::iter::empty(), reader.as_fd()));
        assert!(clock.now() >= at);
        let far = Alarm { at: at + Duration::from_secs(3_600), exact: true };
        assert!(clock.wait(Some(far), &mut std::iter::empty(), reader.as_fd()));
    }
}
