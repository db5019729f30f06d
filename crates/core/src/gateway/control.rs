//! Control traffic at a link whose rate is kept: a queue of its own, so that no other traffic starves it.
//!
//! Control traffic goes before all classes as long as its [allowance](crate::class::control) lasts.
//! Beyond that it borrows: beside classes as one more class with the weight and priority of
//! `default`, else in equal parts with the queue of the link. Sources take turns, a source that was
//! silent first.
//!
//! Source: RFC 8290, section 4.2 (turns, and queues by hash). Differs: the hash is that of the
//! station that sent a packet, not of the flow; the controlled delay is that of requests which are
//! repeated after a second.

use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::fast::FixedState;

use super::Gateway;
use super::aggregates::Exit;
use super::trunks::stays_here;
use crate::class::control::{self, Allowance};
use crate::flow::Handle;
use crate::packet::{Direction, Fifo, FlowId, Kind, Member};
use crate::qdisc::{Backlog, Qdisc, QdiscSpec};
use crate::random::Random;
use crate::report::ControlReport;
use crate::{Bytes, Cx, PacketId, Rate, Reason, Time};

/// The control traffic of one direction of a link.
pub(super) struct Control {
    queue: Box<dyn Qdisc>,
    allowance: Allowance,
    seed: FixedState,
    /// Bytes borrowed beyond what the queue of the link sent meanwhile, where no classes share it.
    lead: i64,
    report: ControlReport,
}

impl Control {
    /// No control traffic yet, on a link of rate `link`.
    pub(super) fn new(direction: Direction, seed: u64, link: Rate, now: Time) -> Self {
        Self {
            queue: queue().build(None, Random::named(seed, &["control", direction.name()])),
            allowance: Allowance::new(link, now),
            seed: FixedState::with_seed(seed),
            lead: 0,
            report: ControlReport::new(direction, control::allowance(link)),
        }
    }

    /// The link has rate `link` from `now` on.
    pub(super) fn set_rate(&mut self, now: Time, link: Rate) {
        self.allowance.set(now, link);
        self.report.allowance = control::allowance(link);
    }

    /// Takes in a packet that `source` has sent.
    ///
    /// When buffers are scarce, a packet that would wait behind others of its source is dropped.
    pub(super) fn push(&mut self, cx: &mut Cx<'_>, source: Member, packet: PacketId) {
        let line = self.seed.hash_one(source) % LINES;
        let line = Member(u32::try_from(line).unwrap_or(0));
        self.report.arrived += 1;
        if cx.pool.is_scarce() && self.queue.bytes_of(line) > Bytes::ZERO {
            return cx.drop(packet, Reason::NoBuffer);
        }
        if !self.waits() {
            // An idle time earns nothing.
            self.lead = self.lead.max(0);
        }
        let waiting = &mut cx.pool[&packet];
        // Lines belong to sources here; flows are not told apart.
        (waiting.member, waiting.flow) = (line, FlowId::NONE);
        self.queue.enqueue(cx, packet);
    }

    /// Whether packets wait.
    pub(super) fn waits(&self) -> bool {
        self.queue.backlog().packets > 0
    }

    /// A packet that goes before all others, if one waits and the allowance permits it.
    pub(super) fn pop_allowed(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        if !self.waits() || !self.allowance.permits(cx.now) {
            return None;
        }
        let packet = self.pop(cx)?;
        self.allowance.charge(cx.pool[&packet].charged());
        Some(packet)
    }

    /// A packet that goes although the allowance is used up.
    pub(super) fn pop_borrowed(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.pop(cx)?;
        self.report.sent.borrowed += cx.pool[&packet].charged().0;
        Some(packet)
    }

    /// A packet that borrows from a queue, which has packets or not; `None` if it is the turn of the
    /// queue.
    pub(super) fn pop_beside(&mut self, cx: &mut Cx<'_>, queue_waits: bool) -> Option<PacketId> {
        if queue_waits && self.lead > 0 {
            return None;
        }
        let packet = self.pop_borrowed(cx)?;
        self.lead = if queue_waits { self.lead + signed(cx.pool[&packet].charged()) } else { 0 };
        Some(packet)
    }

    /// The queue beside it has sent `len`.
    pub(super) fn yielded(&mut self, len: Bytes) {
        if self.waits() {
            self.lead -= signed(len);
        }
    }

    /// The next packet, whether it is permitted or not.
    pub(super) fn pop(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.queue.dequeue(cx)?;
        self.report.sent.packets += 1;
        self.report.sent.bytes += cx.pool[&packet].charged().0;
        Some(packet)
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Its state now.
    pub(super) fn report(&self) -> ControlReport {
        let backlog = self.backlog();
        let gone = self.report.sent.packets + u64::from(backlog.packets);
        let drops = self.report.arrived.saturating_sub(gone);
        ControlReport { backlog, drops, ..self.report }
    }
}

impl Gateway {
    /// Takes in a packet of control traffic for a link whose rate is kept.
    ///
    /// It waits for no policy. Only a policy that drops its protocol by name conditions it, and a
    /// policy that has a trunk carries it through the trunk like other traffic.
    pub(super) fn handle_control(&mut self, now: Time, direction: Direction, id: PacketId) {
        let source = self.pool[&id].member;
        let (flow, slot) = self.classify(now, direction, &id);
        let slot = slot.unwrap_or(Handle::NO_AGGREGATE);
        let Exit { trunk, drops_control, .. } = self.aggregates.exit(slot);
        if trunk.is_some() && !stays_here(&self.pool[&id]) {
            self.pool[&id].kind = Kind::User;
            return self.handle_classified(now, direction, flow, slot, id);
        }
        if let Some(flow) = flow {
            self.track(now, direction, flow, &id);
        }
        let mut out = Fifo::new();
        match self.aggregates.get_mut(slot) {
            Some(aggregate) if drops_control => {
                // A policer holds nothing: the packet is in `out`, or dropped.
                aggregate.offer(now, &mut self.pool, id, &mut out);
            }
            aggregate => {
                if let Some(aggregate) = aggregate {
                    aggregate.pass_by(now, &self.pool[&id]);
                }
                out.push(&mut self.pool, id);
            }
        }
        let link = &mut self.links[direction.index()];
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        while let Some(id) = out.pop(cx.pool) {
            link.push_control(&mut cx, source, id);
        }
    }

    /// The control traffic up and down; `None` where there was none, or the link has no rate.
    #[must_use]
    pub fn control(&self) -> [Option<ControlReport>; 2] {
        let of = |way: Direction| Some(self.links[way.index()].control()?.report());
        Direction::BOTH.map(of)
    }
}

/// The queue of control traffic.
///
/// Its controlled delay drops requests that waited for a second: their senders have repeated them
/// (RFC 4861, section 10: 1 s; Linux, `arp(7)`: 1 s). The quantum is the least, as most packets are
/// short.
fn queue() -> QdiscSpec {
    let mut queue = QdiscSpec::FqCodel(Default::default());
    if let QdiscSpec::FqCodel(config) = &mut queue {
        config.quantum = Bytes(256);
        config.limit = LIMIT;
        config.packets = PACKETS;
        config.target = REPEATED;
        config.interval = 10 * REPEATED;
        config.ecn = false;
    }
    queue
}

fn signed(len: Bytes) -> i64 {
    i64::try_from(len.0).unwrap_or(i64::MAX)
}

/// The time after which a request that was not answered is sent again.
const REPEATED: Duration = Duration::from_secs(1);

/// Room for four packets of the greatest length, those of a routing protocol that are sent at once.
const LIMIT: Bytes = Bytes(256 << 10);

/// An eighth of the buffers that a gateway has if nothing else is said: the reserve of the pool.
const PACKETS: u32 = 2_048;

/// Lines that sources are hashed into (RFC 8290, section 5.2.5).
const LINES: u64 = 1_024;
