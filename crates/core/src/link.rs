//! A one-way link: a queue before a transmitter, then a delay, and some packets lost on the way.
//!
//! The lab's emulator and the simulator make their networks of these.

mod delay;
mod loss;
mod transmitter;

use std::time::Duration;

use serde::Deserialize;

pub use delay::Jitter;
pub use loss::{GilbertElliott, Loss};

use self::delay::Delay;
use self::loss::LossProcess;
use self::transmitter::Transmitter;
use crate::packet::{Note, Travelling};
use crate::qdisc::{Backlog, QdiscSpec};
use crate::random::Random;
use crate::{Cx, Packet, PacketId, PacketPool, Rate, Reason, Time, units};

/// What a link is like.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct LinkConfig {
    /// How long a packet travels once it is sent.
    #[serde(with = "units::duration")]
    pub delay: Duration,
    /// How much that varies.
    pub jitter: Jitter,
    /// Whether a packet with less delay overtakes those before it. If not, it arrives with them.
    pub reorder: bool,
    /// Which packets are lost; they have taken their time on the link.
    pub loss: Loss,
    /// What the link carries; `None` for everything at once, so that nothing queues.
    pub rate: Option<Rate>,
    /// Where packets wait for a link that has a rate.
    pub queue: QdiscSpec,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Jitter::default(),
            reorder: false,
            loss: Loss::default(),
            rate: None,
            queue: QdiscSpec::DropTail(Default::default()),
        }
    }
}

/// What of a link is another from now on; what is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkChange {
    /// What it carries.
    pub rate: Option<Rate>,
    /// How long a packet travels once it is sent.
    pub delay: Option<Duration>,
}

/// A one-way link.
///
/// When a packet arrives depends on what was sent and when, and on the link's seed; not on when, or
/// how often, the link is asked.
pub struct Link {
    transmitter: Option<Transmitter>,
    delay: Delay,
    /// Where any are lost.
    loss: Option<Box<LossProcess>>,
    /// Packets on their way, by when each arrives at the other end.
    travelling: Travelling,
}

impl Link {
    /// An idle link, number `component` of the run seeded with `seed`.
    #[must_use]
    pub fn new(config: &LinkConfig, seed: u64, component: u64) -> Self {
        let part = |n| Random::new(seed, component * 3 + n);
        let transmitter = |rate| Transmitter::new(rate, &config.queue, part(2));
        Self {
            transmitter: config.rate.map(transmitter),
            delay: Delay::new(config, part(0)),
            loss: (config.loss != Loss::None)
                .then(|| Box::new(LossProcess::new(config.loss, part(1)))),
            travelling: Travelling::new(),
        }
    }

    /// Takes a packet in at this end.
    pub fn send(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        self.advance(cx);
        match &mut self.transmitter {
            Some(transmitter) => {
                let sent = transmitter.send(cx, packet);
                if let Some((sent, packet)) = sent {
                    self.depart(cx, sent, packet);
                }
                self.advance(cx);
            }
            None => self.depart(cx, cx.now, packet),
        }
    }

    /// Changes it from now on. The packet that is being sent is sent as fast as it began, and what
    /// travels arrives when it would have: with less delay than before, others may overtake it.
    ///
    /// Says no, and changes nothing, where a link that carries everything at once is to get a rate.
    #[must_use]
    pub fn change(&mut self, cx: &mut Cx<'_>, change: LinkChange) -> bool {
        self.advance(cx);
        match (change.rate, &mut self.transmitter) {
            (Some(_), None) => return false,
            (Some(rate), Some(transmitter)) => transmitter.set_rate(cx.now, rate),
            (None, _) => {}
        }
        if let Some(delay) = change.delay {
            self.delay.set(delay);
        }
        true
    }

    /// A packet that has arrived at the other end.
    #[inline]
    pub fn poll(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.advance(cx);
        self.travelling.pop(cx.pool, cx.now)
    }

    /// The packet that arrives next of those on their way, and what the driver noted of it.
    #[inline]
    #[must_use]
    pub fn next_packet<'p>(&self, pool: &'p PacketPool) -> Option<(&'p Packet, &'p Note)> {
        self.travelling.peek(pool)
    }

    /// When [`poll`](Self::poll) may next have a packet; `None` if the link is empty.
    #[inline]
    #[must_use]
    pub fn ready_at(&self) -> Option<Time> {
        let arrives = self.travelling.next_at();
        let sends = self.transmitter.as_ref().and_then(Transmitter::ready_at);
        match (arrives, sends) {
            (Some(arrives), Some(sends)) => Some(arrives.min(sends)),
            (one, other) => one.or(other),
        }
    }

    /// What waits for the transmitter.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.transmitter.as_ref().map_or_else(Backlog::default, Transmitter::backlog)
    }

    /// Packets inside, those that wait and those that travel.
    #[must_use]
    pub fn held(&self) -> usize {
        let inside = self.travelling.packets() + self.backlog().packets;
        usize::try_from(inside).unwrap_or(usize::MAX)
    }

    /// Sends what was waiting, each packet as soon as the one before it was through.
    #[inline]
    fn advance(&mut self, cx: &mut Cx<'_>) {
        while let Some((sent, packet)) = self.transmitter.as_mut().and_then(|it| it.next(cx)) {
            self.depart(cx, sent, packet);
        }
    }

    /// `packet` has left the transmitter at `sent`, or will have then.
    fn depart(&mut self, cx: &mut Cx<'_>, sent: Time, packet: PacketId) {
        let arrives = self.delay.arrival(sent);
        if self.loss.as_mut().is_some_and(|loss| loss.loses()) {
            cx.drop(packet, Reason::LinkLoss);
            return;
        }
        self.travelling.push(cx.pool, arrives, packet);
    }
}
