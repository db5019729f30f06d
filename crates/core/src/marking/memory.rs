//! The tracked flows of the markings `heuristic` and `coverage`, and their waiting packets, the oldest first.
//!
//! These markings mark packets before a queue overflows. They track only a part of the flows, and
//! mark the flow whose packet has waited longest.

use std::collections::VecDeque;

use super::Target;
use super::tracker::{Sighting, Track, TrackerSpec};
use crate::Packet;
use crate::packet::{FlowId, QueueIndex, TcpFlags, make_room, number, slot};

/// A tracked flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrackedFlow {
    pub(super) track: Track,
    flow: FlowId,
    /// Arrival time of the newest packet, by [`clock`].
    queued: u32,
    /// Arrival time of the packet that departed last. Packets with a later arrival time are waiting.
    departed: u32,
    /// Bytes that arrived in an interval. Each marking defines which interval.
    pub(super) bytes: u32,
    /// Number of an interval. Each marking defines its meaning.
    pub(super) interval: u16,
    /// Free for use by the marking: `heuristic` stores the low byte of another interval, `coverage` a flag.
    pub(super) counted: u8,
    /// A flag. Each marking defines its meaning.
    pub(super) flag: bool,
}

// 4,096 flows, the most that `coverage` tracks, take 384 KiB.
const _: () = assert!(size_of::<TrackedFlow>() <= 96);

/// A packet of a tracked flow that waits in the queue, or did so until recently.
#[derive(Clone, Copy, Debug)]
struct WaitingPacket {
    entry: u32,
    queue_index: QueueIndex,
    arrived: u32,
}

/// The tracked flows, by entry number, and their packets in the queue.
#[derive(Debug)]
pub(super) struct Memory {
    entries: Vec<TrackedFlow>,
    /// Entry number of each flow, or [`NONE`].
    entry_of: Vec<u32>,
    /// Class of each entry's packets. Empty while no classes share the buffer.
    classes: Vec<u16>,
    /// Numbers of unused entries.
    free: Vec<u32>,
    /// Most entries.
    most: usize,
    /// The entry that [`advance`](Self::advance) returned last.
    hand: usize,
    /// Packets of tracked flows, the oldest first. Some of them may have departed already.
    waiting: VecDeque<WaitingPacket>,
    /// Number of packets at the front that [`oldest`](Self::oldest) has examined.
    passed: usize,
    /// Number of examined packets that had departed already.
    stale: usize,
}

const NONE: u32 = u32::MAX;

/// Most packets in [`Memory::waiting`]. If there are more, the oldest is removed from the list.
///
/// Chosen, not measured: four times the packets that a live gateway holds by default. The list takes 768 KiB.
const MOST_WAITING: usize = 1 << 16;

/// Arrival time of a packet in units of 1,024 ns, modulo 2^32. The clock wraps after 73 minutes.
fn clock(packet: &Packet) -> u32 {
    u32::try_from((packet.arrived.nanos() >> 10) & u64::from(u32::MAX)).unwrap_or(0)
}

/// Returns `true` if `one` is later than `other` on a clock that wraps.
const fn is_after(one: u32, other: u32) -> bool {
    let after = one.wrapping_sub(other);
    after != 0 && after < 1 << 31
}

impl Memory {
    /// An empty memory for at most `most` flows.
    pub(super) fn new(most: usize) -> Self {
        let (entries, entry_of, free) = (Vec::new(), Vec::new(), Vec::new());
        let classes = Vec::new();
        Self {
            entries,
            entry_of,
            classes,
            free,
            most,
            hand: 0,
            waiting: VecDeque::new(),
            passed: 0,
            stale: 0,
        }
    }

    /// Entry number of `flow`. `None` if the flow is not tracked.
    pub(super) fn find(&self, flow: FlowId) -> Option<u32> {
        self.entry_of.get(slot(flow.0)).copied().filter(|entry| *entry != NONE)
    }

    pub(super) fn get(&self, entry: u32) -> &TrackedFlow {
        &self.entries[slot(entry)]
    }

    pub(super) fn get_mut(&mut self, entry: u32) -> &mut TrackedFlow {
        &mut self.entries[slot(entry)]
    }

    /// Class of an entry's packets. Zero if no classes share the buffer.
    pub(super) fn class(&self, entry: u32) -> u16 {
        self.classes.get(slot(entry)).copied().unwrap_or(0)
    }

    /// Sets the class of an entry's packets. Returns the previous class.
    pub(super) fn set_class(&mut self, entry: u32, class: u16) -> u16 {
        let old = self.class(entry);
        if class != old {
            make_room(&mut self.classes, slot(entry), 0);
            self.classes[slot(entry)] = class;
        }
        old
    }

    /// Creates an entry for the flow of the arriving packet. Returns its number, or `None` if the memory is full.
    pub(super) fn insert(&mut self, spec: &TrackerSpec, seen: &Sighting<'_>) -> Option<u32> {
        let (flow, before) = (seen.packet.flow, clock(seen.packet).wrapping_sub(1));
        let new = TrackedFlow {
            track: Track::new(spec, seen),
            flow,
            queued: before,
            departed: before,
            bytes: 0,
            interval: 0,
            counted: 0,
            flag: false,
        };
        let entry = match self.free.pop() {
            Some(entry) => {
                // The previous flow of this entry may have a packet with the same arrival time in the list. It
                // would count as a packet of the new flow, so the search begins again.
                if self.waiting.back().is_some_and(|last| last.arrived == clock(seen.packet)) {
                    self.begin_again();
                }
                entry
            }
            None if self.entries.len() < self.most => number(self.entries.len()),
            None => return None,
        };
        make_room(&mut self.entries, slot(entry), new);
        self.entries[slot(entry)] = new;
        make_room(&mut self.entry_of, slot(flow.0), NONE);
        self.entry_of[slot(flow.0)] = entry;
        self.set_class(entry, 0);
        Some(entry)
    }

    pub(super) fn remove(&mut self, entry: u32) {
        let it = &mut self.entries[slot(entry)];
        if it.flow != FlowId::NONE {
            self.entry_of[slot(it.flow.0)] = NONE;
            it.flow = FlowId::NONE;
            self.free.push(entry);
        }
    }

    /// Returns `true` if there is no room for a further flow.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty() && self.entries.len() >= self.most
    }

    /// The next entry number in cyclic order. `None` if this entry is unused.
    pub(super) fn advance(&mut self) -> Option<u32> {
        self.hand = if self.hand + 1 < self.entries.len() { self.hand + 1 } else { 0 };
        let it = self.entries.get(self.hand)?;
        (it.flow != FlowId::NONE).then(|| number(self.hand))
    }

    /// Notes that `packet` will be queued. `was_empty` is `true` if no other packet waits.
    pub(super) fn queued(&mut self, entry: u32, packet: &Packet, was_empty: bool) {
        let arrived = clock(packet);
        self.entries[slot(entry)].queued = arrived;
        if was_empty {
            self.waiting.clear();
            self.begin_again();
        } else if self.waiting.len() == MOST_WAITING {
            self.pop();
        }
        self.waiting.push_back(WaitingPacket { entry, queue_index: packet.queue_index, arrived });
    }

    fn pop(&mut self) {
        self.waiting.pop_front();
        self.passed = self.passed.saturating_sub(1);
    }

    /// Notes that `packet` departs. All earlier packets of its flow have departed or were dropped before.
    pub(super) fn departed(&mut self, packet: &Packet) {
        if let Some(entry) = self.find(packet.flow) {
            let (it, arrived) = (&mut self.entries[slot(entry)], clock(packet));
            // A packet from before the flow had an entry is older than `departed`.
            if is_after(arrived, it.departed) {
                it.departed = arrived;
            }
        }
        while let Some(first) = self.waiting.front()
            && !self.is_waiting(*first)
        {
            self.pop();
        }
    }

    /// Notes that no packet of the entry's flow waits.
    pub(super) fn emptied(&mut self, entry: u32) {
        let it = &mut self.entries[slot(entry)];
        it.departed = it.queued;
    }

    fn is_waiting(&self, packet: WaitingPacket) -> bool {
        let it = &self.entries[slot(packet.entry)];
        it.flow != FlowId::NONE && is_after(packet.arrived, it.departed)
    }

    /// The flow of the oldest waiting packet for which `chosen` returns `true` (given its class and entry).
    ///
    /// The search continues behind the packets that earlier calls have examined.
    pub(super) fn oldest(&mut self, chosen: impl Fn(u16, &TrackedFlow) -> bool) -> Option<Target> {
        while let Some(packet) = self.waiting.get(self.passed).copied() {
            self.passed += 1;
            let it = &self.entries[slot(packet.entry)];
            if !self.is_waiting(packet) {
                self.stale += 1;
            } else if chosen(self.class(packet.entry), it) {
                return Some(Target { flow: it.flow, queue_index: packet.queue_index });
            }
        }
        if 2 * self.stale > self.waiting.len() {
            self.tidy();
        }
        None
    }

    /// Removes all departed packets from the list. At least half of the list has departed, so the cost per packet is
    /// constant on average.
    fn tidy(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|packet| self.is_waiting(*packet));
        (self.passed, self.stale) = (waiting.len(), 0);
        self.waiting = waiting;
    }

    /// Notes that a flow may be marked again. If packets of it wait, the search of [`oldest`](Self::oldest) begins
    /// again.
    pub(super) fn may_be_chosen(&mut self, entry: u32) {
        let it = &self.entries[slot(entry)];
        if it.queued != it.departed {
            self.begin_again();
        }
    }

    /// Returns `true` if an examined packet still waits and `chosen` is `true` for its entry.
    #[cfg(test)]
    pub(super) fn has_missed(&self, chosen: impl Fn(&TrackedFlow) -> bool) -> bool {
        let passed = self.waiting.iter().take(self.passed);
        let mut waiting = passed.filter(|packet| self.is_waiting(**packet));
        waiting.any(|packet| chosen(&self.entries[slot(packet.entry)]))
    }

    /// Makes [`oldest`](Self::oldest) begin at the oldest packet again.
    pub(super) const fn begin_again(&mut self) {
        (self.passed, self.stale) = (0, 0);
    }
}

/// Returns `true` if a tracker can use `packet`: a SYN or TCP data of a flow in the flow table.
pub(super) fn is_trackable(packet: &Packet) -> bool {
    let data = packet.tcp.is_some_and(|tcp| tcp.payload > 0 || tcp.flags.any(TcpFlags::SYN));
    data && packet.flow != FlowId::NONE
}
