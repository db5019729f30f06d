//! A one-way link: a queue with a transmitter, then a propagation delay with random losses.
//!
//! The lab's emulator and the simulator build networks from these links.

mod delay;
mod loss;
mod overhead;
mod transmitter;

use std::time::Duration;

use serde::Deserialize;

pub use delay::Jitter;
pub use loss::{GilbertElliott, Loss};
pub use overhead::{Headers, Overhead};

use self::delay::Delay;
use self::loss::LossProcess;
use self::transmitter::Transmitter;
use crate::packet::{Note, Travelling};
use crate::qdisc::{Backlog, QdiscSpec};
use crate::random::Random;
use crate::{Cx, Packet, PacketId, PacketPool, Rate, Reason, Time, units};

/// Properties of a link.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct LinkConfig {
    /// Propagation delay of a packet after its transmission.
    #[serde(with = "units::duration")]
    pub delay: Duration,
    /// Random variation of the delay.
    pub jitter: Jitter,
    /// Packets with a shorter delay may overtake earlier packets. Otherwise they wait and arrive
    /// together with the earlier packets.
    pub reorder: bool,
    /// Loss of packets. A lost packet still takes its transmission time.
    pub loss: Loss,
    /// Transmission rate. `None` for an unlimited rate, at which no packet waits.
    pub rate: Option<Rate>,
    /// Queue discipline before the transmitter, if the link has a rate.
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

/// A change of a link. A field that is `None` keeps its value.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkChange {
    /// New transmission rate.
    pub rate: Option<Rate>,
    /// New propagation delay.
    pub delay: Option<Duration>,
}

/// A one-way link.
///
/// Arrival times depend only on the packets, the times at which they were sent, and the seed. The
/// times of calls to [`poll`](Self::poll) make no difference.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::link::{Link, LinkConfig};
/// use tidegate_core::{Cx, Packet, PacketPool, Rate, Tally, Time};
///
/// let (rate, delay) = (Some(Rate::from_mbps(8)), Duration::from_millis(20));
/// let mut link = Link::new(&LinkConfig { rate, delay, ..LinkConfig::default() }, 1, 0);
/// let (mut pool, mut tally) = (PacketPool::with_capacity(4), Tally::default());
/// for _ in 0..2 {
///     let packet = pool.insert(Packet { len: 1_000, cost: 1_000, ..Packet::default() }).unwrap();
///     link.send(&mut Cx { now: Time::ZERO, pool: &mut pool, tally: &mut tally }, packet);
/// }
/// let mut arrivals = Vec::new();
/// while let Some(now) = link.ready_at() {
///     let mut cx = Cx { now, pool: &mut pool, tally: &mut tally };
///     while let Some(packet) = link.poll(&mut cx) {
///         arrivals.push(now);
///         cx.pool.release(packet);
///     }
/// }
/// // Each packet takes a millisecond to transmit, and then 20 ms to arrive.
/// assert_eq!(arrivals, [Time::from_millis(21), Time::from_millis(22)]);
/// ```
pub struct Link {
    transmitter: Option<Transmitter>,
    delay: Delay,
    /// Random process of losses. `None` without losses.
    loss: Option<Box<LossProcess>>,
    /// Packets in flight, ordered by their arrival times.
    travelling: Travelling,
}

impl Link {
    /// An idle link. `component` is the number of the link in the run with this `seed`, so that
    /// each link has its own random numbers.
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

    /// Accepts a packet at the sending end.
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

    /// Changes the rate and the delay of the link. The packet in transmission keeps its rate, and
    /// packets in flight keep their arrival times. After a reduction of the delay, later packets
    /// may therefore overtake them.
    ///
    /// A link without a rate cannot get one: then nothing changes, and the result is `false`.
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

    /// Returns a packet that has arrived at the receiving end.
    #[inline]
    pub fn poll(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.advance(cx);
        self.travelling.pop(cx.pool, cx.now)
    }

    /// The packet in flight that arrives next, with the driver's private data about it.
    #[inline]
    #[must_use]
    pub fn next_packet<'p>(&self, pool: &'p PacketPool) -> Option<(&'p Packet, &'p Note)> {
        self.travelling.peek(pool)
    }

    /// Time at which [`poll`](Self::poll) may next return a packet. `None` if the link is empty.
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

    /// Packets that wait for the transmitter.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.transmitter.as_ref().map_or_else(Backlog::default, Transmitter::backlog)
    }

    /// Number of packets that wait or are in flight.
    #[must_use]
    pub fn held(&self) -> usize {
        let inside = self.travelling.packets() + self.backlog().packets;
        usize::try_from(inside).unwrap_or(usize::MAX)
    }

    /// Transmits waiting packets up to the current time, each at the end of the previous
    /// transmission.
    #[inline]
    fn advance(&mut self, cx: &mut Cx<'_>) {
        while let Some((sent, packet)) = self.transmitter.as_mut().and_then(|it| it.next(cx)) {
            self.depart(cx, sent, packet);
        }
    }

    /// The transmitter has sent the last bit of `packet` at `sent`: the packet is lost, or is in
    /// flight.
    fn depart(&mut self, cx: &mut Cx<'_>, sent: Time, packet: PacketId) {
        let arrives = self.delay.arrival(sent);
        if self.loss.as_mut().is_some_and(|loss| loss.loses()) {
            cx.drop(packet, Reason::LinkLoss);
            return;
        }
        self.travelling.push(cx.pool, arrives, packet);
    }
}
