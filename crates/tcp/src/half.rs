//! The sending half of an end point, created when there is data to send.
//!
//! An end that only receives needs only the result of the handshake and the limit of the peer's
//! window. With thousands of connections, full senders would take most of their memory.

use std::time::Duration;

use tidegate_base::Time;

use super::profile::Config;
use super::sender::{AckInfo, Agreed, Cx, Sender};

/// The sending half of an end point.
#[derive(Default)]
pub(super) struct Half {
    /// Initial state of the sender, from the end of the handshake until the first data.
    idle: Option<Box<Idle>>,
    /// The sender, from the first data on.
    busy: Option<Box<Sender>>,
}

/// The state from which a sender is created.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    /// Time and result of the handshake.
    begun: Option<Begun>,
    /// End of the peer's window as of the last ACK, and the largest window seen.
    limit: u64,
    largest_window: u64,
}

/// A completed handshake.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Time,
    agreed: Agreed,
    rtt: Option<Duration>,
    /// Number of SYNs that were lost.
    lost: u8,
}

impl Half {
    /// Stores the result of the handshake, for [`Sender::establish`].
    pub(super) fn establish(
        &mut self,
        cx: Cx<'_>,
        agreed: Agreed,
        rtt: Option<Duration>,
        lost: u8,
    ) {
        if let Some(sender) = &mut self.busy {
            return sender.establish(cx, agreed, rtt, lost);
        }
        let begun = Some(Begun { at: cx.now, agreed, rtt, lost });
        let idle = Idle { begun, limit: agreed.window, largest_window: agreed.window };
        self.idle = Some(Box::new(idle));
    }

    /// Passes an ACK to [`Sender::acknowledge`]. Without a sender, only the window is stored.
    pub(super) fn acknowledge(&mut self, config: &Config, now: Time, info: &AckInfo) {
        let cx = Cx { now, details: &config.details };
        match &mut self.busy {
            Some(sender) => sender.acknowledge(cx, info),
            None if info.says_more_than_window() => self.wake(config).acknowledge(cx, info),
            None => {
                let Some(window) = info.window else { return };
                let idle = self.idle.get_or_insert_default();
                idle.limit = info.to + window;
                idle.largest_window = idle.largest_window.max(window);
            }
        }
    }

    /// The sender; creates it if necessary.
    pub(super) fn wake(&mut self, config: &Config) -> &mut Sender {
        let idle = self.idle.take();
        let sender = || Box::new(idle.unwrap_or_default().sender(config));
        self.busy.get_or_insert_with(sender)
    }

    /// The sender, if it was created.
    #[inline]
    pub(super) fn busy(&self) -> Option<&Sender> {
        self.busy.as_deref()
    }

    /// Mutable access to the sender, if it was created.
    #[inline]
    pub(super) fn busy_mut(&mut self) -> Option<&mut Sender> {
        self.busy.as_deref_mut()
    }

    /// Calls `look` with the sender, or with a temporary sender made from the idle state.
    pub(super) fn with<T>(&self, config: &Config, look: impl FnOnce(&Sender) -> T) -> T {
        match &self.busy {
            Some(sender) => look(sender),
            None => look(&self.idle.as_deref().copied().unwrap_or_default().sender(config)),
        }
    }

    /// The next stream offset to send.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.busy().map_or(0, Sender::next)
    }

    /// Stream offset up to which all data is acknowledged.
    #[inline]
    pub(super) fn una(&self) -> u64 {
        self.busy().map_or(0, Sender::una)
    }
}

impl Idle {
    fn sender(&self, config: &Config) -> Sender {
        let mut sender = Sender::new(config);
        if let Some(Begun { at, agreed, rtt, lost }) = self.begun {
            sender.establish(Cx { now: at, details: &config.details }, agreed, rtt, lost);
            sender.set_window(self.limit, self.largest_window);
        }
        sender
    }
}
