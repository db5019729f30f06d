//! The tunnel queue: where user packets wait, as they came.
//!
//! Source: `trunking`, section 4.2. Differs: a packet gets the codepoint of the trunk when it leaves and not
//! when it comes, so that the queue tells the management packets of a trunk within this one from what
//! they go with: `trunk-fifo` there drops them first, as a router does.

use super::packet::Frame;
use crate::ack::{Ahead, Waiting};
use crate::packet::{FlowId, Handover};
use crate::qdisc::{Backlog, Qdisc};
use crate::{Bytes, Cx, PacketId, PacketPool, Rate};

/// Where user packets wait.
pub(super) struct Tunnel {
    waiting: Waiting,
    dscp: u8,
    /// What the frames of user packets are like.
    frame: Frame,
}

impl Tunnel {
    /// Its packets leave with this codepoint.
    pub(super) fn new(queue: Box<dyn Qdisc>, dscp: u8) -> Self {
        Self { waiting: Waiting::new(queue), dscp, frame: Frame::default() }
    }

    /// Takes in a user packet.
    pub(super) fn push(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        self.frame = Frame::of(&cx.pool[&packet]);
        self.waiting.enqueue(cx, packet);
    }

    /// The next user packet, marked as one of the trunk.
    pub(super) fn pop(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.waiting.dequeue(cx)?;
        cx.pool[&packet].set_dscp(self.dscp);
        Some(packet)
    }

    /// What the frames of user packets are like.
    pub(super) const fn frame(&self) -> Frame {
        self.frame
    }

    pub(super) fn is_empty(&self) -> bool {
        self.backlog().packets == 0
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.waiting.backlog()
    }

    pub(super) fn has(&self, flow: FlowId) -> bool {
        self.waiting.has(flow)
    }

    pub(super) fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        self.waiting.hand_over(pool, what)
    }

    /// The trunk may have so many user bytes in flight.
    pub(super) fn set_window(&mut self, window: Bytes) {
        self.waiting.set_window(window);
    }

    /// What waits, as a signal sees it, if it leaves at `rate`.
    pub(super) fn ahead(&self, rate: Rate) -> Ahead {
        self.waiting.ahead(rate)
    }
}
