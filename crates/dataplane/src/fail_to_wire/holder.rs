//! A thread that keeps the gateway's program arrays open, in a descriptor table of its own.
//!
//! The kernel empties a program array when its last descriptor closes, and frames then bypass the
//! gateway. A killed process closes its descriptors only after its memory is freed and its last
//! thread has ended. This thread has only the arrays in its table, and its real-time priority is
//! above that of the data plane. If the process is killed, the arrays therefore close within about
//! 1 ms.
//!
//! Source: Linux `unshare(2)`, `CLONE_FILES`; `close_range(2)`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use crate::interface::check;
use crate::schedule::{Wish, keep_time};

/// Keeps descriptors open until it is dropped or the process ends, even by SIGKILL.
#[derive(Debug)]
pub(super) struct Holder {
    /// Dropping this sender ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Real-time priority above that of the data plane (10). The thread sleeps all the time and runs
/// only when it ends.
const PRIORITY: u8 = 11;

impl Holder {
    /// Moves `files` into the descriptor table of a new thread.
    ///
    /// # Errors
    ///
    /// If the thread or its descriptor table cannot be created.
    pub(super) fn new<F: AsFd>(files: Vec<F>) -> io::Result<Self> {
        let mut numbers: Vec<_> = files.iter().map(|file| file.as_fd().as_raw_fd()).collect();
        numbers.sort_unstable();
        let (end, ended) = mpsc::channel();
        let (ready, made) = mpsc::channel();
        let hold = move || hold(&numbers, &ready, &ended);
        let thread = thread::Builder::new().name("holder".to_owned()).spawn(hold)?;
        let holder = Self { end: Some(end), thread: Some(thread) };
        made.recv().map_err(|_| io::Error::other("the holder ended"))??;
        // Now only the thread's table refers to the files.
        drop(files);
        Ok(holder)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.end.take());
        // The result is ignored: a thread that panicked has closed its descriptors too.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn hold(numbers: &[RawFd], ready: &Sender<io::Result<()>>, end: &Receiver<()>) {
    let kept = keep_only(numbers);
    // The result is ignored: without the privilege, the thread keeps the normal priority and closes
    // the descriptors somewhat later.
    let _ = keep_time(Wish { realtime: Some(PRIORITY), cpu: None, ..Wish::default() });
    if kept.is_ok() & ready.send(kept).is_ok() {
        // No message is ever sent. `recv` returns when the sender is dropped.
        let _ = end.recv();
    }
}

/// Gives the calling thread a descriptor table of its own that contains only `numbers`, which must
/// be sorted.
fn keep_only(numbers: &[RawFd]) -> io::Result<()> {
    // SAFETY: the call takes no pointers. Other threads keep their own table, and this thread uses only
    // `numbers`, which it never closes.
    check(unsafe { libc::unshare(libc::CLONE_FILES) })?;
    let bounds = numbers.iter().map(|number| number.cast_unsigned());
    let mut first = 0;
    for number in bounds.chain([u32::MAX]) {
        if first < number {
            let (last, flags) = (number - 1, 0);
            // SAFETY: the call takes no pointers, and affects only the table of this thread.
            let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
            check(i32::try_from(result).unwrap_or(-1))?;
        }
        first = number.saturating_add(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{PipeReader, Read, pipe};

    use super::*;

    fn ends(mut reader: PipeReader) -> bool {
        reader.read_to_end(&mut Vec::new()).is_ok()
    }

    /// Catches: a thread that also keeps other descriptors of the process open; a process that
    /// keeps its own copy of a held descriptor, so that dropping the holder does not close it.
    #[test]
    fn the_holder_keeps_its_descriptors_and_no_others_open() {
        let ((held, writer), (other, also)) = (pipe().unwrap(), pipe().unwrap());
        let number = writer.as_raw_fd();
        let holder = Holder::new(vec![writer]).unwrap();
        let mine = || std::fs::read_link(format!("/proc/self/fd/{number}"));
        let pipe_of =
            |file: &File| std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let held = File::from(std::os::fd::OwnedFd::from(held));
        assert!(mine().ok() != pipe_of(&held).ok(), "the process still has the descriptor");
        drop(also);
        assert!(ends(other), "the holder keeps a foreign descriptor open");
        drop(holder);
        assert!(ends(PipeReader::from(std::os::fd::OwnedFd::from(held))), "still open after drop");
    }
}
