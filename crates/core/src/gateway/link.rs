//! The way out of the gateway in one direction: the access link's rate, and where packets wait for it.

use std::time::Duration;

use crate::meter::TokenBucket;
use crate::packet::{Direction, Fifo, FlowId, Member};
use crate::qdisc::{Backlog, Qdisc};
use crate::random::Random;
use crate::{Bytes, Cx, PacketId, Rate, Reason, Time};

use super::GatewayConfig;

/// One direction's way out.
pub(super) struct Link {
    /// What may leave, if the link's rate is to be kept.
    bucket: Option<TokenBucket>,
    queue: Box<dyn Qdisc>,
    /// What leaves next: with a rate, one packet, or what a swap left over; else all there is.
    next: Fifo,
}

impl Link {
    pub(super) fn new(config: &GatewayConfig, direction: Direction, now: Time) -> Self {
        let rate = config.rate[direction.index()];
        let bucket = rate.map(|rate| TokenBucket::new(rate, burst(rate), now));
        let random = Random::named(config.seed, &["link", direction.name()]);
        Self { bucket, queue: config.queue.build(rate, random), next: Fifo::new() }
    }

    /// Takes in a packet that may leave as far as its policy is concerned.
    ///
    /// When buffers are scarce, one that would wait behind others is dropped: the other direction
    /// needs some.
    pub(super) fn push(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        if self.bucket.is_none() {
            self.next.push(cx.pool, packet);
            return;
        }
        if cx.pool.is_scarce() && self.queue.backlog().packets > 0 {
            cx.drop(packet, Reason::NoBuffer);
            return;
        }
        cx.pool[&packet].member = line(cx.pool[&packet].flow);
        self.queue.enqueue(cx, packet);
    }

    /// Takes in what a swap of policies lets go, all of it: it leaves at the link's rate, in line
    /// behind what waits here, and whatever comes later waits behind it.
    pub(super) fn take_over(&mut self, cx: &mut Cx<'_>, mut more: Fifo) {
        if more.packets() == 0 {
            return;
        }
        self.line_up(cx);
        while let Some(packet) = more.pop(cx.pool) {
            self.next.push(cx.pool, packet);
        }
    }

    /// Whether packets of `flow` wait in the queue; what leaves next does so before anything else.
    pub(super) fn has_waiting(&self, flow: FlowId) -> bool {
        self.queue.bytes_of(line(flow)) > Bytes::ZERO
    }

    /// A packet that leaves now.
    #[inline]
    pub(super) fn pop(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        if self.bucket.is_some() && !self.take(cx) {
            return None;
        }
        self.next.pop(cx.pool)
    }

    /// Takes the tokens for what leaves next, if there is something and they are there.
    fn take(&mut self, cx: &mut Cx<'_>) -> bool {
        self.stage(cx);
        let Some(next) = self.next.peek(cx.pool) else { return false };
        let len = next.charged();
        self.bucket.as_mut().is_none_or(|bucket| bucket.try_take(cx.now, len))
    }

    /// When [`pop`](Self::pop) has a packet; `None` if nothing waits.
    pub(super) fn ready_at(&mut self, cx: &mut Cx<'_>) -> Option<Time> {
        self.stage(cx);
        let len = self.next.peek(cx.pool)?.charged();
        Some(self.bucket.as_ref().map_or(cx.now, |bucket| bucket.ready_at(len)))
    }

    /// Changes the rate; what waits stays.
    pub(super) fn set_rate(&mut self, cx: &mut Cx<'_>, rate: Option<Rate>) {
        if let Some(rate) = rate {
            self.queue.set_rate(rate);
        }
        match (&mut self.bucket, rate) {
            (Some(bucket), Some(rate)) => bucket.set(cx.now, rate, burst(rate)),
            (None, Some(rate)) => self.bucket = Some(TokenBucket::new(rate, burst(rate), cx.now)),
            (_, None) => self.open(cx),
        }
    }

    /// Lets all that waits leave at once, and all that comes.
    pub(super) fn open(&mut self, cx: &mut Cx<'_>) {
        self.bucket = None;
        self.line_up(cx);
    }

    /// Lets all that waits leave in one line, in the order in which the queue would let it go.
    fn line_up(&mut self, cx: &mut Cx<'_>) {
        while let Some(packet) = self.queue.dequeue(cx) {
            self.next.push(cx.pool, packet);
        }
    }

    pub(super) fn backlog(&self) -> Backlog {
        let queue = self.queue.backlog();
        Backlog {
            packets: queue.packets + self.next.packets(),
            bytes: queue.bytes + self.next.bytes(),
        }
    }

    /// Takes the next packet out of the queue, to see how long it is; without a rate, none is there.
    fn stage(&mut self, cx: &mut Cx<'_>) {
        if self.bucket.is_some()
            && self.next.packets() == 0
            && let Some(packet) = self.queue.dequeue(cx)
        {
            self.next.push(cx.pool, packet);
        }
    }
}

/// What tells a flow from others in the queue: its number, and zero for what is in no flow.
const fn line(flow: FlowId) -> Member {
    Member(flow.0.wrapping_add(1))
}

/// What may leave the link back to back: what it carries while a loop may sensibly be late, and two
/// full-size frames at least.
fn burst(rate: Rate) -> Bytes {
    rate.bytes_in(CATCH_UP).max(TWO_FRAMES)
}

const CATCH_UP: Duration = Duration::from_millis(2);
const TWO_FRAMES: Bytes = Bytes(2 * 1_538);
