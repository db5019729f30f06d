//! A thread that lives as long as the process and holds the descriptors by which the kernel knows it.
//!
//! A process that is killed frees its memory first, and closes its descriptors when its last thread has
//! ended: 25 to 110 ms on a loaded machine. This thread has a descriptor table of its own with nothing
//! else in it, and the priority to end first: its descriptors close within a millisecond.
//!
//! Source: Linux `unshare(2)`, `CLONE_FILES`; `close_range(2)`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use crate::interface::check;
use crate::schedule::{Wish, keep_time};

/// Holds descriptors until it is dropped, or the process ends in any way.
#[derive(Debug)]
pub(super) struct Holder {
    /// Dropped, it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Ahead of the data plane, which has 10: it runs only to end.
const PRIORITY: u8 = 11;

impl Holder {
    /// Moves `files` into the descriptor table of a new thread.
    ///
    /// # Errors
    ///
    /// If there can be no thread, or no table of its own for it.
    pub(super) fn new<F: AsFd>(files: Vec<F>) -> io::Result<Self> {
        let mut numbers: Vec<_> = files.iter().map(|file| file.as_fd().as_raw_fd()).collect();
        numbers.sort_unstable();
        let (end, ended) = mpsc::channel();
        let (ready, made) = mpsc::channel();
        let hold = move || hold(&numbers, &ready, &ended);
        let thread = thread::Builder::new().name("holder".to_owned()).spawn(hold)?;
        let holder = Self { end: Some(end), thread: Some(thread) };
        made.recv().map_err(|_| io::Error::other("the holder ended"))??;
        // From here on, the thread's copies are the only ones.
        drop(files);
        Ok(holder)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.end.take());
        // If it panicked, its descriptors are closed as well.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn hold(numbers: &[RawFd], ready: &Sender<io::Result<()>>, end: &Receiver<()>) {
    let kept = keep_only(numbers);
    // Without the privilege it ends as soon as it is its turn.
    let _ = keep_time(Wish { realtime: Some(PRIORITY), cpu: None, ..Wish::default() });
    if kept.is_ok() & ready.send(kept).is_ok() {
        // Nothing is ever sent: it ends with the sender.
        let _ = end.recv();
    }
}

/// Gives the calling thread a descriptor table of its own, with only these descriptors, in order.
fn keep_only(numbers: &[RawFd]) -> io::Result<()> {
    // SAFETY: takes no pointers. The descriptors of other threads are in their own table, and this
    // thread uses none but `numbers`, which it never closes.
    check(unsafe { libc::unshare(libc::CLONE_FILES) })?;
    let bounds = numbers.iter().map(|number| number.cast_unsigned());
    let mut first = 0;
    for number in bounds.chain([u32::MAX]) {
        if first < number {
            let (last, flags) = (number - 1, 0);
            // SAFETY: as above.
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

    /// Kills: a holder that keeps a copy of what others close, or others of what it holds.
    #[test]
    fn it_holds_its_descriptors_alone_and_nothing_else() {
        let ((held, writer), (other, also)) = (pipe().unwrap(), pipe().unwrap());
        let number = writer.as_raw_fd();
        let holder = Holder::new(vec![writer]).unwrap();
        let mine = || std::fs::read_link(format!("/proc/self/fd/{number}"));
        let pipe_of =
            |file: &File| std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let held = File::from(std::os::fd::OwnedFd::from(held));
        assert!(mine().ok() != pipe_of(&held).ok(), "closed in the table of all");
        drop(also);
        assert!(ends(other), "the holder does not hold what it was not given");
        drop(holder);
        assert!(ends(PipeReader::from(std::os::fd::OwnedFd::from(held))), "it is closed with it");
    }
}
