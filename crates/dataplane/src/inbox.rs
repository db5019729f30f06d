//! How the rest of the program reaches a running machine: between two turns, by a closure.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use tidegate_core::Time;

use crate::interface::check;
use crate::port::Port;

/// What a command sees: everything the loop has, at one instant.
#[expect(missing_debug_implementations, reason = "ports and machines need not have one")]
pub struct Live<'a, M, H = ()> {
    /// The machine.
    pub machine: &'a mut M,
    /// Its ports, in the order of their numbers.
    pub ports: &'a mut [Box<dyn Port>],
    /// What tells the kernel that the loop lives.
    pub heartbeat: &'a mut H,
    /// The present.
    pub now: Time,
    /// How often the loop came back so late that what had arrived was too old to send.
    pub hangs: u64,
    /// The longest processor time so far of one command, or of one turn during a policy change.
    pub occupied: Duration,
    /// The time of the last hang.
    pub hung_at: Time,
}

/// What the loop is to do between two turns.
pub type Command<M, H> = Box<dyn FnOnce(&mut Live<'_, M, H>) + Send>;

/// What the loop is sent.
enum Message<M, H> {
    Run(Command<M, H>),
    Stop,
}

/// The way into a loop, from any thread.
#[expect(missing_debug_implementations, reason = "commands have none")]
pub struct Remote<M, H = ()> {
    messages: Sender<Message<M, H>>,
    bell: Arc<OwnedFd>,
}

/// The loop's end of the ways into it.
#[expect(missing_debug_implementations, reason = "commands have none")]
pub struct Inbox<M, H = ()> {
    messages: Receiver<Message<M, H>>,
    bell: Arc<OwnedFd>,
}

/// The loop is no longer there.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the data plane has stopped")]
pub struct Stopped;

/// A read takes one message from the count of the bell, so the bell goes on ringing for the others.
const BELL: libc::c_int = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE;

/// A loop's inbox, and the first way into it.
///
/// # Errors
///
/// When the process has no file descriptor left.
pub fn inbox<M, H>() -> io::Result<(Remote<M, H>, Inbox<M, H>)> {
    let (sender, receiver) = mpsc::channel();
    // SAFETY: takes no pointers.
    let fd = check(unsafe { libc::eventfd(0, BELL) })?;
    // SAFETY: the kernel just gave us this descriptor, and nobody else knows it.
    let bell = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((Remote { messages: sender, bell: bell.clone() }, Inbox { messages: receiver, bell }))
}

impl<M, H> Remote<M, H> {
    /// Has the loop run `command` between two turns. There is a turn between two commands.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the loop is no longer there.
    pub fn post(
        &self,
        command: impl FnOnce(&mut Live<'_, M, H>) + Send + 'static,
    ) -> Result<(), Stopped> {
        self.send(Message::Run(Box::new(command)))
    }

    /// Has the loop run `question` between two turns, and waits for what it returns.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the loop is no longer there to answer.
    pub fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Live<'_, M, H>) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let (sender, answer) = mpsc::sync_channel(1);
        self.post(move |live| drop(sender.send(question(live))))?;
        answer.recv().map_err(|_| Stopped)
    }

    /// Has the loop send what is held and end.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if it already has.
    pub fn stop(&self) -> Result<(), Stopped> {
        self.send(Message::Stop)
    }

    fn send(&self, message: Message<M, H>) -> Result<(), Stopped> {
        self.messages.send(message).map_err(|_| Stopped)?;
        let one = 1_u64.to_ne_bytes();
        // SAFETY: writes the eight bytes of `one`. The only way to fail is a count that is full,
        // which rings as well.
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
    /// What can be read when there is something for [`serve`](Self::serve).
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Runs the oldest command. The loop has a turn before the next one. Returns `false` if the loop is to stop.
    pub(crate) fn serve(&self, live: &mut Live<'_, M, H>) -> bool {
        let mut count = [0_u8; 8];
        // SAFETY: reads at most eight bytes into `count`. Nothing to read is fine.
        unsafe { libc::read(self.bell.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        match self.messages.try_recv() {
            Ok(Message::Run(command)) => command(live),
            Ok(Message::Stop) => return false,
            Err(_) => {}
        }
        true
    }
}
