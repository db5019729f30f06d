//! Commands from other threads to the loop that runs a gateway. A command is a closure that runs
//! between two iterations of the loop. An iteration receives and sends packets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use tidegate_core::Time;

use crate::interface::check;
use crate::port::Port;

/// The state of the loop that a command can access.
#[expect(missing_debug_implementations, reason = "ports and machines need not have one")]
pub struct Live<'a, M, H = ()> {
    /// The machine: the logic between the ports, such as a gateway.
    pub machine: &'a mut M,
    /// The ports, in the order of their numbers.
    pub ports: &'a mut [Box<dyn Port>],
    /// The heartbeat of the loop.
    pub heartbeat: &'a mut H,
    /// The current time.
    pub now: Time,
    /// Number of times that the loop hung: it returned so late that the arrived frames were dropped
    /// as stale.
    pub hangs: u64,
    /// The longest processor time so far of one command, or of one iteration during a policy
    /// change.
    pub occupied: Duration,
    /// The time of the last hang.
    pub hung_at: Time,
}

/// A command that runs between two iterations of the loop.
pub type Command<M, H> = Box<dyn FnOnce(&mut Live<'_, M, H>) + Send>;

/// A message to the loop.
enum Message<M, H> {
    Run(Command<M, H>),
    Stop,
}

/// Access to a loop from another thread.
#[expect(missing_debug_implementations, reason = "commands have none")]
pub struct Remote<M, H = ()> {
    messages: Sender<Message<M, H>>,
    bell: Arc<OwnedFd>,
}

/// The loop's end of the channel.
#[expect(missing_debug_implementations, reason = "commands have none")]
pub struct Inbox<M, H = ()> {
    messages: Receiver<Message<M, H>>,
    bell: Arc<OwnedFd>,
}

/// The loop has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the data plane has stopped")]
pub struct Stopped;

/// Flags of the descriptor that wakes the loop. With `EFD_SEMAPHORE`, a read takes one message off
/// the counter. The descriptor stays readable while further messages wait.
const BELL: libc::c_int = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE;

/// Creates the inbox of a loop, and access to it.
///
/// # Errors
///
/// If the process has no free file descriptor.
pub fn inbox<M, H>() -> io::Result<(Remote<M, H>, Inbox<M, H>)> {
    let (sender, receiver) = mpsc::channel();
    // SAFETY: the call takes no pointers.
    let fd = check(unsafe { libc::eventfd(0, BELL) })?;
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    let bell = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((Remote { messages: sender, bell: bell.clone() }, Inbox { messages: receiver, bell }))
}

impl<M, H> Remote<M, H> {
    /// Makes the loop run `command` between two iterations. Between two commands, there is at least
    /// one iteration.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the loop has ended.
    pub fn post(
        &self,
        command: impl FnOnce(&mut Live<'_, M, H>) + Send + 'static,
    ) -> Result<(), Stopped> {
        self.send(Message::Run(Box::new(command)))
    }

    /// Makes the loop run `question` between two iterations, and waits for its result.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the loop has ended.
    pub fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Live<'_, M, H>) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let (sender, answer) = mpsc::sync_channel(1);
        self.post(move |live| drop(sender.send(question(live))))?;
        answer.recv().map_err(|_| Stopped)
    }

    /// Makes the loop send its queued packets and end.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the loop has already ended.
    pub fn stop(&self) -> Result<(), Stopped> {
        self.send(Message::Stop)
    }

    fn send(&self, message: Message<M, H>) -> Result<(), Stopped> {
        self.messages.send(message).map_err(|_| Stopped)?;
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the call writes the eight bytes of `one`. The only possible error is a full counter, which
        // keeps the descriptor readable.
        unsafe { libc::write(self.bell.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        Ok(())
    }
}

impl<M, H> Clone for Remote<M, H> {
    fn clone(&self) -> Self {
        Self { messages: self.messages.clone(), bell: self.bell.clone() }
    }
}

impl<M, H> Inbox<M, H> {
    /// A descriptor that is readable while messages wait for [`serve`](Self::serve).
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Runs the oldest command. Returns `false` if the loop is to stop.
    pub(crate) fn serve(&self, live: &mut Live<'_, M, H>) -> bool {
        let mut count = [0_u8; 8];
        // SAFETY: the call reads at most eight bytes into `count`. The error of an empty counter is ignored.
        unsafe { libc::read(self.bell.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        match self.messages.try_recv() {
            Ok(Message::Run(command)) => command(live),
            Ok(Message::Stop) => return false,
            Err(_) => {}
        }
        true
    }
}
