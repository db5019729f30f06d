//! Holds the frames that wait for an interface. A flow whose frames the interface refuses does not
//! delay other flows.
//!
//! The kernel returns the same error (ENOBUFS) for a full queue and for a frame that it never
//! sends. After the error, this queue offers the first frame of up to eight other flows. If the
//! kernel refuses these frames too, its queue is full, so all frames wait in order. If it accepts
//! a frame, the frames of the refused flows move to the end of this queue.
//!
//! Source: Linux `net/packet/af_packet.c` (`packet_snd`) and `net/core/dev.c`: a frame that the
//! queueing discipline, a filter of the egress hook or the segmentation in software drops gives
//! ENOBUFS.

use std::collections::VecDeque;

use tidegate_core::packet::FlowKey;
use tidegate_core::{PacketId, PacketPool};

use crate::memory::{self, PacketMemory};
use crate::vnet::VnetHeader;

/// Refusals after which a frame is dropped. The interface's own queue would have dropped it.
pub(super) const ATTEMPTS: u32 = 64;

/// Number of other flows whose first frames are offered to the kernel after a refusal. If the
/// kernel never sends the frames of eight flows, a ninth flow is still not delayed.
const PROBES: usize = 8;

/// A refusal counts as 16 refusals if the kernel then accepts a frame of another flow: the kernel
/// has room, so the fault lies in the refused frame. Four such refusals drop it.
const OVERTAKEN: u32 = ATTEMPTS / 4;

/// Number of flows whose drops are counted: all flows whose frames one flush can offer.
const REMEMBERED: usize = PROBES + 1;

/// A frame that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) frame: Body,
    /// Bytes of the frame.
    pub(super) len: u32,
    /// Number of refusals. A refusal counts as [`OVERTAKEN`] if the kernel accepted a frame of
    /// another flow after it.
    tries: u32,
}

/// Where the bytes of a waiting frame are.
#[derive(Debug)]
pub(super) enum Body {
    /// A packet in the memory of all ports.
    Packet(PacketId),
    /// A piece of a super-packet.
    Piece(Box<Piece>),
}

/// A frame that was cut from a super-packet.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    pub(super) key: FlowKey,
}

impl Waiting {
    pub(super) const fn new(frame: Body, len: u32) -> Self {
        Self { frame, len, tries: 0 }
    }

    /// Address and length of the frame's bytes, and its header for the kernel.
    pub(super) fn parts(&self, memory: &PacketMemory) -> (*const u8, usize, VnetHeader) {
        match &self.frame {
            Body::Packet(packet) => {
                let frame = memory.frame(packet);
                let span = memory::span(memory.size(), frame.offset, self.len);
                let start = memory.start(packet).wrapping_add(span.start);
                (start.cast_const(), span.len(), frame.vnet.to_send())
            }
            Body::Piece(piece) => (piece.bytes.as_ptr(), piece.bytes.len(), VnetHeader::default()),
        }
    }

    /// A copy of the frame's bytes.
    #[cfg(test)]
    pub(super) fn to_vec(&self, memory: &PacketMemory) -> Vec<u8> {
        match &self.frame {
            Body::Packet(packet) => memory.bytes(packet, self.len).to_vec(),
            Body::Piece(piece) => piece.bytes.clone(),
        }
    }

    pub(super) fn key(&self, pool: &PacketPool) -> FlowKey {
        match &self.frame {
            Body::Packet(packet) => pool[packet].key,
            Body::Piece(piece) => piece.key,
        }
    }

    /// Releases the frame's packet to the pool.
    pub(super) fn release(self, pool: &mut PacketPool) {
        if let Body::Packet(packet) = self.frame {
            pool.release(packet);
        }
    }
}

/// The frames of a port that wait to be sent, the next one first.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// Flows refused since the kernel last took a frame.
    refused: Vec<FlowKey>,
    /// Flows whose frames were dropped, with the number of drops since the kernel last accepted a
    /// frame of the flow. Each drop halves the refusals that the flow's next frame may have.
    dropped: VecDeque<(FlowKey, u32)>,
}

/// The next step of the caller after a refusal.
#[derive(Debug)]
pub(super) enum Next {
    /// Offer the frame at this index.
    Offer(usize),
    /// Wait, because the interface has no room.
    Wait,
    /// Drop this frame, which is no longer in the queue, and continue with the first frame.
    Drop(Waiting),
}

impl Queue {
    pub(super) fn with_capacity(frames: usize) -> Self {
        let waiting = VecDeque::with_capacity(frames);
        Self { waiting, refused: Vec::new(), dropped: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, frame: Waiting) {
        self.waiting.push_back(frame);
    }

    /// The frames to offer in one system call: the frame at index `at`, or all frames if `at` is 0.
    pub(super) fn from(&mut self, at: usize) -> &[Waiting] {
        let all = self.waiting.make_contiguous();
        let end = if at == 0 { all.len() } else { at + 1 };
        all.get(at..end).unwrap_or_default()
    }

    /// Removes the frame at index `at`, which can never be sent.
    pub(super) fn drop_at(&mut self, at: usize) -> Option<Waiting> {
        self.refused.clear();
        self.waiting.remove(at)
    }

    /// Removes the `n` frames from index `at` on, which the interface accepted, and passes each to
    /// `sent`.
    pub(super) fn taken(
        &mut self,
        pool: &mut PacketPool,
        at: usize,
        n: usize,
        mut sent: impl FnMut(&mut PacketPool, Waiting),
    ) {
        for _ in 0..n {
            let Some(frame) = self.waiting.remove(at) else { break };
            if !self.dropped.is_empty() {
                let key = frame.key(pool);
                self.dropped.retain(|(flow, _)| *flow != key);
            }
            sent(pool, frame);
        }
        if !self.refused.is_empty() {
            self.overtake(pool);
        }
    }

    /// Moves the frames of the refused flows to the end of the queue.
    fn overtake(&mut self, pool: &PacketPool) {
        let refused = std::mem::take(&mut self.refused);
        for flow in &refused {
            let mut own = self.waiting.iter_mut().filter(|it| it.key(pool) == *flow);
            if let Some(first) = own.next() {
                first.tries += OVERTAKEN - 1;
            }
        }
        let (mut others, behind): (VecDeque<_>, VecDeque<_>) =
            self.waiting.drain(..).partition(|it| !refused.contains(&it.key(pool)));
        others.extend(behind);
        self.waiting = others;
    }

    /// Decides what to do after the interface refused the frame at index `at`.
    pub(super) fn refuse(&mut self, pool: &PacketPool, at: usize) -> Next {
        let Some(frame) = self.waiting.get_mut(at) else { return Next::Wait };
        frame.tries += 1;
        let (key, tries) = (frame.key(pool), frame.tries);
        if tries >= self.patience(key) {
            let Some(frame) = self.waiting.remove(at) else { return Next::Wait };
            self.refused.clear();
            self.remember(key);
            return Next::Drop(frame);
        }
        self.refused.push(key);
        let probed = self.refused.len() > PROBES;
        let other = |it: &Waiting| !self.refused.contains(&it.key(pool));
        match self.waiting.iter().position(other).filter(|_| !probed) {
            Some(at) => Next::Offer(at),
            None => {
                self.refused.clear();
                Next::Wait
            }
        }
    }

    /// Number of refusals after which a frame of this flow is dropped.
    fn patience(&self, key: FlowKey) -> u32 {
        let drops = self.dropped.iter().find(|(flow, _)| *flow == key).map_or(0, |(_, n)| *n);
        ATTEMPTS.checked_shr(drops).unwrap_or(0).max(1)
    }

    fn remember(&mut self, key: FlowKey) {
        if let Some((_, drops)) = self.dropped.iter_mut().find(|(flow, _)| *flow == key) {
            *drops = drops.saturating_add(1);
            return;
        }
        if self.dropped.len() == REMEMBERED {
            self.dropped.pop_front();
        }
        self.dropped.push_back((key, 1));
    }
}
