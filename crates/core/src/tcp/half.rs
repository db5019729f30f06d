//! The half of an end point that sends, made once there is something to send.
//!
//! An end that only receives needs of it no more than what the handshake agreed on and how far the
//! peer's window reaches; with thousands of connections the rest would be most of their memory.

use std::time::Duration;

use super::profile::Config;
use super::sender::{AckInfo, Agreed, Cx, Sender};
use crate::Time;

/// The half of an end point that sends.
#[derive(Default)]
pub(super) struct Half {
    /// What it will begin with, once the handshake is over and until there is anything to send.
    idle: Option<Box<Idle>>,
    /// Once there was anything to send.
    busy: Option<Box<Sender>>,
}

/// What a sender will begin with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    /// When the handshake was over, and what it agreed on.
    begun: Option<Begun>,
    /// How far the peer's window reaches, as of the last ACK; the largest it showed.
    limit: u64,
    largest_window: u64,
}

/// A handshake that is over.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Time,
    agreed: Agreed,
    rtt: Option<Duration>,
    /// SYNs that were lost.
    lost: u8,
}

impl Half {
    /// What [`Sender::establish`] says.
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

    /// What [`Sender::acknowledge`] says; with nothing out, only the window matters.
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

    /// The sender, made if there is none.
    pub(super) fn wake(&mut self, config: &Config) -> &mut Sender {
        let idle = self.idle.take();
        let sender = || Box::new(idle.unwrap_or_default().sender(config));
        self.busy.get_or_insert_with(sender)
    }

    /// The sender, if it ever had anything to send.
    #[inline]
    pub(super) fn busy(&self) -> Option<&Sender> {
        self.busy.as_deref()
    }

    /// The same, to be worked with.
    #[inline]
    pub(super) fn busy_mut(&mut self) -> Option<&mut Sender> {
        self.busy.as_deref_mut()
    }

    /// Does `look` with the sender there is, or would be.
    pub(super) fn with<T>(&self, config: &Config, look: impl FnOnce(&Sender) -> T) -> T {
        match &self.busy {
            Some(sender) => look(sender),
            None => look(&self.idle.as_deref().copied().unwrap_or_default().sender(config)),
        }
    }

    /// The next place to send from.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.busy().map_or(0, Sender::next)
    }

    /// All below is acknowledged.
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
