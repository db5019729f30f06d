//! The frames that wait for an interface: in order within each flow, and past flows whose frames it refuses.
//!
//! The kernel says the same of a frame that it will never send and of one that finds its queue full. If it refuses
//! the first frame, the first frames of a few other flows are offered. If it refuses these too, there is no room:
//! all wait, and the order stays. If it takes one, the flows that it refused move behind all others.
//!
//! Source: Linux `net/packet/af_packet.c` (`packet_snd`) and `net/core/dev.c`: a frame that the queueing discipline,
//! a filter of the egress hook or the segmentation in software drops gives ENOBUFS.

use std::collections::VecDeque;

use tidegate_core::packet::FlowKey;
use tidegate_core::{PacketId, PacketPool};

use crate::memory::{self, PacketMemory};
use crate::vnet::VnetHeader;

/// Times a frame is refused before it is dropped, as the queue of the interface would have done.
pub(super) const ATTEMPTS: u32 = 64;

/// Flows offered after one whose frame was refused. The issue behind this file was 8 bad flows beside a good one.
const PROBES: usize = 8;

/// As many refusals one counts for that was followed by a frame of another flow that was taken: a frame is dropped
/// after four of these.
const OVERTAKEN: u32 = ATTEMPTS / 4;

/// Flows remembered whose frames were dropped: as many as are offered at once.
const REMEMBERED: usize = PROBES + 1;

/// A frame that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) frame: Body,
    /// Bytes of the frame.
    pub(super) len: u32,
    /// How often it was refused.
    tries: u32,
}

/// Where its bytes are.
#[derive(Debug)]
pub(super) enum Body {
    /// In the memory of all ports.
    Packet(PacketId),
    /// Here: a piece of a super-packet of this flow.
    Piece(Vec<u8>, FlowKey),
}

impl Waiting {
    pub(super) const fn new(frame: Body, len: u32) -> Self {
        Self { frame, len, tries: 0 }
    }

    /// Its bytes, and what is left to do to it.
    pub(super) fn parts(&self, memory: &PacketMemory) -> (*const u8, usize, VnetHeader) {
        match &self.frame {
            Body::Packet(packet) => {
                let frame = memory.frame(packet);
                let span = memory::span(memory.size(), frame.offset, self.len);
                let start = memory.start(packet).wrapping_add(span.start);
                (start.cast_const(), span.len(), frame.vnet.to_send())
            }
            Body::Piece(bytes, _) => (bytes.as_ptr(), bytes.len(), VnetHeader::default()),
        }
    }

    /// A copy of its bytes.
    #[cfg(test)]
    pub(super) fn to_vec(&self, memory: &PacketMemory) -> Vec<u8> {
        match &self.frame {
            Body::Packet(packet) => memory.bytes(packet, self.len).to_vec(),
            Body::Piece(bytes, _) => bytes.clone(),
        }
    }

    pub(super) fn key(&self, pool: &PacketPool) -> FlowKey {
        match &self.frame {
            Body::Packet(packet) => pool[packet].key,
            Body::Piece(_, key) => *key,
        }
    }

    /// Releases its packet.
    pub(super) fn release(self, pool: &mut PacketPool) {
        if let Body::Packet(packet) = self.frame {
            pool.release(packet);
        }
    }
}

/// The frames of a port, those to send first in front.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// Flows of which frames were refused at the moment, the first of them in front.
    refused: Vec<FlowKey>,
    /// Flows whose frames were dropped and none taken since, with how many: the next waits half as long.
    dropped: VecDeque<(FlowKey, u32)>,
}

/// What to do after a refusal.
#[derive(Debug)]
pub(super) enum Next {
    /// Offer the frame at this place.
    Offer(usize),
    /// There is no room: wait.
    Wait,
    /// It was tried often enough, and is in the queue no more; go on with the first.
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

    /// The frames from the place `at` on: all where `at` is the first.
    pub(super) fn from(&mut self, at: usize) -> &[Waiting] {
        let all = self.waiting.make_contiguous();
        let end = if at == 0 { all.len() } else { at + 1 };
        all.get(at..end).unwrap_or_default()
    }

    /// Takes the frame at the place `at` out, which can never be sent.
    pub(super) fn drop_at(&mut self, at: usize) -> Option<Waiting> {
        self.refused.clear();
        self.waiting.remove(at)
    }

    /// The interface took `n` frames from the place `at` on, which `sent` is given.
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

    /// Moves the flows that were refused behind those that were not.
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

    /// The interface refused the frame at the place `at`.
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

    /// Times a frame of the flow is refused before it is dropped.
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
