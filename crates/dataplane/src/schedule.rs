//! What a loop asks of the scheduler, to come back when it wants to, and what it is granted.

use std::fmt;
use std::io;

use crate::interface::check;

/// What to ask for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wish {
    /// Priority under `SCHED_FIFO`, 1 to 99: ahead of all ordinary processes. A loop that never
    /// spins may ask for it.
    pub realtime: Option<u8>,
    /// Keep the memory of the process from being paged out.
    pub lock_memory: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Self { realtime: Some(10), lock_memory: false }
    }
}

/// What was granted to the calling thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Granted {
    /// Timers that fire when they are due, not up to 50 us later.
    pub exact_timers: bool,
    /// The priority, if `SCHED_FIFO` was allowed.
    pub realtime: Option<u8>,
    /// Memory stays where it is.
    pub locked_memory: bool,
}

/// Asks for what the calling thread needs to keep time; without privileges it gets less.
#[must_use]
pub fn keep_time(wish: Wish) -> Granted {
    Granted {
        exact_timers: exact_timers().is_ok(),
        realtime: wish.realtime.filter(|&priority| realtime(priority).is_ok()),
        locked_memory: wish.lock_memory && lock_memory().is_ok(),
    }
}

fn exact_timers() -> io::Result<()> {
    let slack: libc::c_ulong = 1;
    // SAFETY: PR_SET_TIMERSLACK takes one number and no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack) })?;
    Ok(())
}

fn realtime(priority: u8) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority.into() };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `parameters` is whole and only read; 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })?;
    Ok(())
}

fn lock_memory() -> io::Result<()> {
    // The packet memory is mostly untouched, so pages are locked when they are first used.
    let what = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: takes no pointers.
    check(unsafe { libc::mlockall(what) })?;
    Ok(())
}

impl fmt::Display for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.realtime {
            Some(priority) => write!(f, "SCHED_FIFO priority {priority}")?,
            None => write!(f, "ordinary priority (CAP_SYS_NICE is needed for exact pacing)")?,
        }
        write!(f, ", {} timers", if self.exact_timers { "exact" } else { "slack" })?;
        if self.locked_memory { write!(f, ", memory locked") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_granted_and_claims_nothing_else() {
        let wish = Wish { realtime: Some(1), lock_memory: false };
        let granted = std::thread::spawn(move || {
            // SAFETY: takes no pointers; 0 is the calling thread.
            (keep_time(wish), unsafe { libc::sched_getscheduler(0) })
        });
        let (granted, policy) = granted.join().unwrap();
        assert!(granted.exact_timers && !granted.locked_memory);
        let fifo = policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO;
        assert_eq!(granted.realtime.is_some(), fifo);
        assert_eq!(granted.to_string().contains("FIFO"), fifo);
    }

    #[test]
    fn an_impossible_priority_is_not_granted() {
        let wish = Wish { realtime: Some(200), lock_memory: false };
        let granted = std::thread::spawn(move || keep_time(wish)).join().unwrap();
        assert_eq!(granted.realtime, None);
    }
}
