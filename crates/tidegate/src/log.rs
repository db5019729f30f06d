//! The log of the gateway. A thread writes the lines to stderr, and counts the lines that it cannot
//! write.
//!
//! The gateway never waits for this thread. If the disk is full, or if the pipe is closed or
//! blocked, log lines are lost. The gateway neither ends nor slows down.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use tracing::Level;

/// A handle to the log. Clones share one thread.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    lines: SyncSender<Job>,
    losses: Losses,
}

/// Counts the lost log lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    lines: AtomicU64,
    /// The newest line was lost.
    newest: AtomicBool,
}

enum Job {
    Write(Vec<u8>),
    /// Asks for an answer once all earlier lines are written or lost.
    Answer(SyncSender<()>),
}

/// Capacity of the queue, in lines: 1,024 lines of 200 B are 200 kB.
const WAITING: usize = 1_024;

/// Longest time that the program waits for the log thread when it ends.
const FAREWELL: Duration = Duration::from_secs(1);

impl Log {
    /// Starts logging to stderr, at level "info", or "debug" if `verbose`.
    pub(crate) fn start(verbose: bool) -> Self {
        let log = Self::to(io::stderr());
        let writer = log.clone();
        let level = if verbose { Level::DEBUG } else { Level::INFO };
        let logs = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_max_level(level)
            .with_target(false)
            .with_ansi(io::stderr().is_terminal())
            // Errors of the subscriber would be printed by a macro that panics if stderr is closed.
            .log_internal_errors(false);
        // The result is ignored: in tests, a subscriber may be installed already.
        let _ = logs.try_init();
        log
    }

    /// A log that writes to `out`.
    fn to(out: impl Write + Send + 'static) -> Self {
        let (lines, jobs) = mpsc::sync_channel(WAITING);
        let losses = Losses::default();
        let counts = losses.clone();
        // If the thread cannot start, the queue has no receiver, so every line counts as lost.
        let write = move || write(&jobs, out, &counts);
        let _ = thread::Builder::new().name("log".to_owned()).spawn(write);
        Self { lines, losses }
    }

    /// The counter of lost lines.
    pub(crate) const fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Waits until all lines are written or lost, for at most a second.
    pub(crate) fn finish(&self) {
        let (sender, done) = mpsc::sync_channel(1);
        if self.lines.try_send(Job::Answer(sender)).is_ok() {
            let _ = done.recv_timeout(FAREWELL);
        }
    }
}

impl Write for Log {
    /// Queues one line. The subscriber passes one whole line per call. Never fails and never
    /// blocks.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.try_send(Job::Write(line.to_owned())).is_err() {
            self.losses.add();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Losses {
    /// The alarm if the newest line was lost.
    pub(crate) fn alarm(&self) -> Option<String> {
        let lines = self.0.lines.load(Ordering::Relaxed);
        self.0.newest.load(Ordering::Relaxed).then(|| {
            format!("the log cannot be written, {lines} lines are lost: check where stderr goes")
        })
    }

    fn add(&self) {
        self.0.lines.fetch_add(1, Ordering::Relaxed);
        self.0.newest.store(true, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.lines.load(Ordering::Relaxed)
    }
}

/// Writes lines to `out` until the last [`Log`] is dropped. After a loss, the first line that is
/// written again reports the number of lost lines.
fn write(jobs: &Receiver<Job>, mut out: impl Write, losses: &Losses) {
    let mut reported = 0;
    for job in jobs {
        let line = match job {
            Job::Write(line) => line,
            Job::Answer(sender) => {
                let _ = sender.try_send(());
                continue;
            }
        };
        let lost = losses.count();
        let report = match lost - reported {
            0 => Ok(()),
            new => writeln!(out, "{new} lines of the log before this one were lost"),
        };
        match report.and_then(|()| out.write_all(&line)).and_then(|()| out.flush()) {
            Ok(()) => {
                reported = lost;
                losses.0.newest.store(losses.count() > lost, Ordering::Relaxed);
            }
            Err(_) => losses.add(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A test disk. It is full while `full` is set.
    #[derive(Clone, Default)]
    struct Disk {
        full: Arc<AtomicBool>,
        text: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.full.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.text.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Catches: a lost line that is not counted; an alarm that never ends; a loss that is reported
    /// twice.
    #[test]
    fn lines_lost_to_a_full_disk_are_counted_and_reported_when_it_has_room_again() {
        let disk = Disk::default();
        let mut log = Log::to(disk.clone());
        let mut say = |line: &str, full: bool| {
            disk.full.store(full, Ordering::SeqCst);
            log.write_all(line.as_bytes()).unwrap();
            log.finish();
            log.losses().alarm()
        };
        assert_eq!(say("one\n", false), None);
        assert!(say("two\n", true).unwrap().contains("1 lines"));
        assert!(say("three\n", true).unwrap().contains("2 lines"));
        assert_eq!(say("four\n", false), None);
        assert_eq!(say("five\n", false), None);
        let text = String::from_utf8(disk.text.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "one\n2 lines of the log before this one were lost\nfour\nfive\n");
    }

    /// A test pipe without a reader: its first write never returns.
    struct Stuck(Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(|_| io::ErrorKind::BrokenPipe.into()).map(|()| 0)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Catches: a log call that blocks while the queue is full.
    #[test]
    fn a_blocked_pipe_does_not_block_the_caller() {
        let (keep, pipe) = mpsc::channel();
        let mut log = Log::to(Stuck(pipe));
        // The thread may have taken one line out of the queue.
        let (lines, taken) = (3 * WAITING, WAITING + 1);
        for _ in 0..lines {
            log.write_all(b"line\n").unwrap();
        }
        assert!(usize::try_from(log.losses().count()).unwrap() >= lines - taken);
        assert!(log.losses().alarm().is_some());
        drop(keep);
    }
}
