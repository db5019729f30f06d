//! The transmitter of a link, with its queue.

use std::time::Duration;

use crate::packet::{FlowKey, QueueIndex};
use crate::qdisc::{Backlog, Qdisc, QdiscSpec};
use crate::random::{Random, halves, mixed};
use crate::units::NANOBITS_PER_BYTE;
use crate::{Bytes, Cx, PacketId, Rate, Time};

/// Sends packets one after the other at a fixed rate.
///
/// Transmission times are whole nanoseconds. The rounding of one packet is compensated at the next,
/// so a busy transmitter keeps exactly its rate.
pub(super) struct Transmitter {
    rate: Rate,
    queue: Box<dyn Qdisc>,
    /// Length of the longest packet that may bypass an empty queue. Zero if all packets must be
    /// queued.
    passes: Bytes,
    /// Number of packets in the queue.
    waiting: u32,
    /// End of the last transmission.
    free_at: Time,
    /// Amount by which `free_at` is rounded up, in `bits/s * ns`. Less than `rate`.
    rounded: u64,
    /// A cache of the last transmission time, because most packets have the length of the previous
    /// packet. `charged` is the length, `nanos` the time in whole nanoseconds, and `left` the
    /// remainder in `bits/s * ns`.
    charged: u32,
    nanos: u64,
    left: u64,
}

impl Transmitter {
    /// An idle transmitter. At rate zero, it never sends.
    pub(super) fn new(rate: Rate, queue: &QdiscSpec, random: Random) -> Self {
        let queue = queue.build(Some(rate), random);
        let passes = queue.passes().unwrap_or_default();
        Self {
            rate,
            queue,
            passes,
            waiting: 0,
            free_at: Time::ZERO,
            rounded: 0,
            charged: 0,
            nanos: 0,
            left: 0,
        }
    }

    /// Sets the rate of later transmissions.
    pub(super) fn set_rate(&mut self, now: Time, rate: Rate) {
        if self.rate.bps() == 0 {
            self.free_at = self.free_at.max(now);
        }
        (self.rate, self.rounded) = (rate, 0);
        (self.charged, self.nanos, self.left) = (0, 0, 0);
    }

    /// Accepts `packet`. If the transmission can begin at once, returns the packet and the end of
    /// its transmission. The caller must first call [`next`](Self::next) until it returns `None`.
    pub(super) fn send(&mut self, cx: &mut Cx<'_>, packet: PacketId) -> Option<(Time, PacketId)> {
        if self.waiting == 0 && self.free_at < cx.now {
            (self.free_at, self.rounded) = (cx.now, 0);
        }
        let waiting = &mut cx.pool[&packet];
        let idle = self.waiting == 0 && self.free_at == cx.now && self.rate.bps() > 0;
        if idle && waiting.frame_len() <= self.passes {
            return Some(self.begin(cx, packet));
        }
        let apart = !self.queue.is_one_line();
        waiting.queue_index = if apart { bucket(&waiting.key) } else { QueueIndex::default() };
        self.queue.enqueue(cx, packet);
        self.waiting = self.queue.backlog().packets;
        None
    }

    /// Dequeues the next packet whose transmission has begun by now. Also returns the end of its
    /// transmission.
    #[inline]
    pub(super) fn next(&mut self, cx: &mut Cx<'_>) -> Option<(Time, PacketId)> {
        if self.waiting == 0 || self.free_at > cx.now || self.rate.bps() == 0 {
            return None;
        }
        // The queue decides at the start of the transmission, even if this call comes later.
        let mut then = Cx { now: self.free_at, pool: cx.pool, tally: cx.tally };
        let packet = self.queue.dequeue(&mut then);
        self.waiting = self.queue.backlog().packets;
        packet.map(|packet| self.begin(cx, packet))
    }

    fn begin(&mut self, cx: &Cx<'_>, packet: PacketId) -> (Time, PacketId) {
        let takes = self.transmission(cx.pool[&packet].cost);
        self.free_at += takes;
        (self.free_at, packet)
    }

    /// Transmission time of the next packet, rounded up to nanoseconds. The excess that rounding
    /// added to the last packet's time is subtracted.
    fn transmission(&mut self, charged: u32) -> Duration {
        if charged != self.charged {
            self.charge(charged);
        }
        let nanos = if self.left <= self.rounded {
            self.rounded -= self.left;
            self.nanos
        } else {
            self.rounded += self.rate.bps() - self.left;
            self.nanos + 1
        };
        Duration::from_nanos(nanos)
    }

    /// Computes the transmission time of packets with this charged length.
    #[cold]
    fn charge(&mut self, charged: u32) {
        let bits = u128::from(charged) * u128::from(NANOBITS_PER_BYTE);
        let bps = u128::from(self.rate.bps());
        let narrow = |x: u128| u64::try_from(x).unwrap_or(u64::MAX);
        (self.charged, self.nanos, self.left) = (charged, narrow(bits / bps), narrow(bits % bps));
    }

    /// Start of the next transmission. `None` if no packet waits.
    #[inline]
    pub(super) fn ready_at(&self) -> Option<Time> {
        (self.waiting > 0 && self.rate.bps() > 0).then_some(self.free_at)
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

/// Index of a flow's queue in the discipline. Two flows with the same index share a queue.
///
/// Source: RFC 8290, section 4.1 (a hash of the flow's key into 1,024 queues).
fn bucket(key: &FlowKey) -> QueueIndex {
    let ends = [key.src, key.dst].map(|end| hash(hash(0, end.number()), u128::from(end.port)));
    let flow = hash(hash(ends[0], u128::from(ends[1])), u128::from(key.protocol.0));
    QueueIndex(u32::try_from(flow % BUCKETS).unwrap_or(0))
}

fn hash(so_far: u64, number: u128) -> u64 {
    let (high, low) = halves(number);
    mixed(mixed(so_far ^ high) ^ low)
}

const BUCKETS: u64 = 1_024;
