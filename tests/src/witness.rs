//! Detects that this machine stood still during a test, as virtual machines sometimes do. A test
//! that failed during such a standstill is repeated.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_dataplane::{Cpu, Wish, keep_time};

use crate::testbed::{Sharing, Testbed};
use crate::wait::{now, pause};

/// Maximum number of runs of a test.
const RUNS: u32 = 4;

/// Interval at which a *witness* reads the time. A witness is a thread; one runs on each processor.
const LOOK: Duration = Duration::from_millis(5);

/// If a witness wakes up later than planned by this time, its processor stood still. Witnesses have
/// a higher priority than all processes of tests, so a test cannot delay them.
const LATE: Duration = Duration::from_millis(5);

/// Priority of witnesses, above that of gateways (10).
const PRIORITY: u8 = 20;

/// Number of times that a witness woke up late.
static STALLS: AtomicU64 = AtomicU64::new(0);

/// Runs `test` in a test bed. If it panics and a processor stood still meanwhile, runs it again,
/// but at most four times in all. A failure without a standstill counts at once.
///
/// # Panics
///
/// If `test` panics.
pub fn witnessed(test: impl Fn(&Testbed)) {
    watch();
    repeat(|| attempt(Sharing::Alone, &test));
}

/// As [`witnessed`], but other tests of this kind may run at the same time.
///
/// # Panics
///
/// If `test` panics.
pub fn witnessed_beside_others(test: impl Fn(&Testbed)) {
    watch();
    repeat(|| attempt(Sharing::BesideOthers, &test));
}

fn attempt(sharing: Sharing, test: impl Fn(&Testbed)) -> Result<(), Failure> {
    let stalls = || STALLS.load(Ordering::Relaxed);
    let Some(bed) = Testbed::sharing(sharing) else { return Ok(()) };
    let before = stalls();
    let outcome = catch_unwind(AssertUnwindSafe(|| test(&bed)));
    outcome.map_err(|panic| Failure { panic, stalls: stalls() - before })
}

/// A failed run: its panic, and the number of standstills during it.
struct Failure {
    panic: Box<dyn std::any::Any + Send>,
    stalls: u64,
}

fn repeat(run: impl Fn() -> Result<(), Failure>) {
    for number in 1.. {
        let Err(Failure { panic, stalls }) = run() else { return };
        if stalls == 0 || number == RUNS {
            resume_unwind(panic);
        }
        eprintln!("run {number} of {RUNS}: this machine stood still, {stalls} times; once more");
    }
}

/// On the first call, starts a witness on each processor.
fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(begin_to_watch);
}

fn begin_to_watch() {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    for cpu in (0..processors).map(Cpu::Number) {
        thread::spawn(move || {
            let wish = Wish { realtime: Some(PRIORITY), cpu: Some(cpu), ..Wish::default() };
            let granted = keep_time(wish);
            // Without real-time priority, other processes could delay this thread, so it could not
            // serve as a witness.
            while granted.realtime.is_some() {
                let start = now();
                pause(LOOK);
                if start.elapsed() > LOOK + LATE {
                    STALLS.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::wait::until;

    /// Catches: a witness that does not run on its own processor; standstills that are not counted.
    #[test]
    fn a_processor_that_stands_still_is_noticed() {
        watch();
        let before = STALLS.load(Ordering::Relaxed);
        let stand_still = || {
            let wish = Wish { realtime: Some(PRIORITY + 1), ..Wish::default() };
            let (granted, start) = (keep_time(wish), now());
            while granted.realtime.is_some() && start.elapsed() < 10 * LATE {}
            granted.realtime.is_some()
        };
        // Some witnesses may not run yet at the first standstill.
        if thread::spawn(stand_still).join().unwrap() {
            until("a witness", Duration::from_secs(5), || {
                thread::spawn(stand_still).join().unwrap();
                (STALLS.load(Ordering::Relaxed) > before).then_some(())
            });
        }
    }

    /// Simulates a test that fails `failures` times, with `stalls` standstills during each run.
    /// Returns the number of runs, and whether the test passes.
    fn run(failures: u32, stalls: u64) -> (u32, bool) {
        let ran = Cell::new(0);
        let test = || {
            ran.set(ran.get() + 1);
            let failure = Failure { panic: Box::new("failed"), stalls };
            if ran.get() <= failures { Err(failure) } else { Ok(()) }
        };
        let passed = catch_unwind(AssertUnwindSafe(|| repeat(test))).is_ok();
        (ran.get(), passed)
    }

    /// Catches: a test that is repeated although the machine did not stand still; an unlimited
    /// number of runs.
    #[test]
    fn only_a_test_during_a_standstill_is_repeated() {
        assert_eq!(run(0, 9), (1, true));
        assert_eq!(run(1, 0), (1, false));
        assert_eq!(run(1, 2), (2, true));
        assert_eq!(run(RUNS, 1), (RUNS, false));
    }
}
