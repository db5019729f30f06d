//! The transmitter of a link, and the queue before it.

use std::time::Duration;

use crate::packet::{FlowKey, Member};
use crate::qdisc::{Backlog, Qdisc, QdiscSpec};
use crate::random::{Random, halves, mixed};
use crate::units::NANOBITS_PER_BYTE;
use crate::{Cx, PacketId, Rate, Time};

/// Sends packets one after the other at its rate.
///
/// A busy transmitter sends exactly its rate: what the time of one packet is rounded up by, the next
/// packet gets back.
pub(super) struct Transmitter {
    rate: Rate,
    queue: Box<dyn Qdisc>,
    /// When the packet in transmission, if any, is through.
    free_at: Time,
    /// By how much `free_at` is rounded up, in `bits/s * ns`; less than `rate`.
    rounded: u128,
}

impl Transmitter {
    /// An idle transmitter; at rate zero it never sends.
    pub(super) fn new(rate: Rate, queue: &QdiscSpec, random: Random) -> Self {
        let queue = queue.build(Some(rate), random);
        Self { rate, queue, free_at: Time::ZERO, rounded: 0 }
    }

    /// Takes `packet` into the queue. What began before now must have been taken with
    /// [`next`](Self::next) already.
    pub(super) fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        if self.backlog().packets == 0 && self.free_at < cx.now {
            (self.free_at, self.rounded) = (cx.now, 0);
        }
        let waiting = &mut cx.pool[&packet];
        waiting.member = bucket(&waiting.key);
        self.queue.enqueue(cx, packet);
    }

    /// The next packet whose transmission has begun by now, and when it is through.
    pub(super) fn next(&mut self, cx: &mut Cx<'_>) -> Option<(Time, PacketId)> {
        if self.free_at > cx.now || self.rate.bps() == 0 {
            return None;
        }
        // What the queue decides, it decides when the transmitter asks, however late we are.
        let mut then = Cx { now: self.free_at, pool: cx.pool, tally: cx.tally };
        let packet = self.queue.dequeue(&mut then)?;
        let bps = u128::from(self.rate.bps());
        let bits = u128::from(cx.pool[&packet].charged().0) * u128::from(NANOBITS_PER_BYTE);
        let nanos = bits.saturating_sub(self.rounded).div_ceil(bps);
        self.rounded = nanos * bps + self.rounded - bits;
        self.free_at += Duration::from_nanos_u128(nanos);
        Some((self.free_at, packet))
    }

    /// When [`next`](Self::next) has the next packet; `None` if nothing waits.
    pub(super) fn ready_at(&self) -> Option<Time> {
        (self.backlog().packets > 0 && self.rate.bps() > 0).then_some(self.free_at)
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

/// The line of its queue a flow waits in: flows that share one share its turns.
///
/// Source: RFC 8290, section 4.1 (1,024 queues, chosen by a hash of the flow's key).
fn bucket(key: &FlowKey) -> Member {
    let ends = [key.src, key.dst].map(|end| hash(hash(0, end.number()), u128::from(end.port)));
    let flow = hash(hash(ends[0], u128::from(ends[1])), u128::from(key.protocol.0));
    Member(u32::try_from(flow % BUCKETS).unwrap_or(0))
}

fn hash(so_far: u64, number: u128) -> u64 {
    let (high, low) = halves(number);
    mixed(mixed(so_far ^ high) ^ low)
}

const BUCKETS: u64 = 1_024;
