//! Requests real-time scheduling for a thread, so it wakes up when its timers expire.

use std::fmt;
use std::io;

use crate::interface::check;

/// Scheduling requests of a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wish {
    /// Priority under `SCHED_FIFO`, 1 to 99. The thread runs before all ordinary processes, so it
    /// should sleep most of the time.
    pub realtime: Option<u8>,
    /// Locks the memory of the process, so it is not paged out.
    pub lock_memory: bool,
    /// Keeps the thread on one processor. A virtual interface queues each frame on the sender's
    /// processor, so frames of a thread that moves could be reordered.
    pub cpu: Option<Cpu>,
}

/// A processor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cpu {
    /// The processor on which the thread runs now.
    Current,
    /// The processor with this number, from 0.
    Number(usize),
}

impl Default for Wish {
    fn default() -> Self {
        Self { realtime: Some(10), lock_memory: false, cpu: Some(Cpu::Current) }
    }
}

/// The requests that the system granted to the calling thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Granted {
    /// Timers fire when they are due. By default, the kernel may delay them by up to 50 us.
    pub exact_timers: bool,
    /// The priority, if `SCHED_FIFO` was granted.
    pub realtime: Option<u8>,
    /// Memory is locked.
    pub locked_memory: bool,
    /// The processor on which the thread stays.
    pub cpu: Option<usize>,
}

/// Requests exact scheduling for the calling thread. Without privileges, the system grants only
/// some of the requests.
#[must_use]
pub fn keep_time(wish: Wish) -> Granted {
    Granted {
        exact_timers: exact_timers().is_ok(),
        realtime: wish.realtime.filter(|&priority| realtime(priority).is_ok()),
        locked_memory: wish.lock_memory && lock_memory().is_ok(),
        cpu: wish.cpu.and_then(|cpu| stay(cpu).ok()),
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
    // SAFETY: the kernel only reads `parameters`; 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })?;
    Ok(())
}

fn lock_memory() -> io::Result<()> {
    // Most of the packet memory is never used, so pages are locked only on first use.
    let what = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: the call takes no pointers.
    check(unsafe { libc::mlockall(what) })?;
    Ok(())
}

/// Pins the calling thread to a processor, and returns its number.
fn stay(cpu: Cpu) -> io::Result<usize> {
    let cpu = match cpu {
        // SAFETY: the call takes no arguments.
        Cpu::Current => check(unsafe { libc::sched_getcpu() })?.try_into().unwrap_or(0),
        Cpu::Number(number) => number,
    };
    // SAFETY: a cpu_set_t is plain data, and all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= 8 * size_of_val(&set) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: `cpu` is within the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the kernel only reads `set`; 0 is the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) })?;
    Ok(cpu)
}

impl fmt::Display for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.realtime {
            Some(priority) => write!(f, "SCHED_FIFO priority {priority}")?,
            None => write!(f, "ordinary priority (CAP_SYS_NICE is needed for exact pacing)")?,
        }
        write!(f, ", {} timers", if self.exact_timers { "exact" } else { "slack" })?;
        if let Some(cpu) = self.cpu {
            write!(f, ", on processor {cpu}")?;
        }
        if self.locked_memory { write!(f, ", memory locked") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_states_the_granted_requests_and_no_others() {
        let wish = Wish { realtime: Some(1), ..Wish::default() };
        let granted = std::thread::spawn(move || {
            // SAFETY: the call takes no pointers; 0 is the calling thread.
            (keep_time(wish), unsafe { (libc::sched_getscheduler(0), libc::sched_getcpu()) })
        });
        let (granted, (policy, cpu)) = granted.join().unwrap();
        assert_eq!(granted.cpu, usize::try_from(cpu).ok());
        assert!(granted.exact_timers && !granted.locked_memory);
        let fifo = policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO;
        assert_eq!(granted.realtime.is_some(), fifo);
        assert_eq!(granted.to_string().contains("FIFO"), fifo);
    }

    #[test]
    fn a_thread_stays_on_an_existing_processor_and_a_missing_processor_is_not_granted() {
        let on = |number| Wish { cpu: Some(Cpu::Number(number)), ..Wish::default() };
        let cpus = [0, 1 << 20].map(|number| {
            // SAFETY: the call takes no arguments.
            let run = move || (keep_time(on(number)).cpu, unsafe { libc::sched_getcpu() });
            std::thread::spawn(run).join().unwrap()
        });
        assert_eq!((cpus[0], cpus[1].0), ((Some(0), 0), None));
    }

    #[test]
    fn an_impossible_priority_is_not_granted() {
        let wish = Wish { realtime: Some(200), ..Wish::default() };
        let granted = std::thread::spawn(move || keep_time(wish)).join().unwrap();
        assert_eq!(granted.realtime, None);
    }
}
