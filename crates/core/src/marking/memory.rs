//! The tracked flows of a marking that tracks a subset, and their waiting packets by age.

use std::collections::VecDeque;

use super::Target;
use super::tracker::{Sighting, Track, TrackerSpec};
use crate::Packet;
use crate::packet::{FlowId, Member, TcpFlags, make_room, number, slot};

/// A tracked flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrackedFlow {
    pub(super) track: Track,
    flow: FlowId,
    /// Clock at the arrival of the newest packet, and at the arrival of the packet that departed
    /// last.
    queued: u32,
    departed: u32,
    /// Bytes that arrived in an interval of the marking.
    pub(super) bytes: u32,
    /// Number of an interval, for the marking's use.
    pub(super) interval: u16,
    /// The low half of the number of another interval, for the marking's use.
    pub(super) counted: u8,
    /// For the marking's use.
    pub(super) flag: bool,
}

// A marking with 4,096 flows has 384 KiB for them.
const _: () = assert!(size_of::<TrackedFlow>() <= 96);

/// A packet of a tracked flow in the queue.
#[derive(Clone, Copy, Debug)]
struct WaitingPacket {
    entry: u32,
    member: Member,
    arrived: u32,
}

/// The entries, by flow.
#[derive(Debug)]
pub(super) struct Memory {
    entries: Vec<TrackedFlow>,
    /// Index of the entry of each flow; [`NONE`] if it has none.
    entry_of: Vec<u32>,
    /// Class of each entry's packets. Empty as long as no classes share the place.
    classes: Vec<u16>,
    free: Vec<u32>,
    most: usize,
    /// The entry that [`advance`](Self::advance) returns next.
    hand: usize,
    /// Packets, oldest first. Some may have departed.
    waiting: VecDeque<WaitingPacket>,
    /// Number of packets, from the oldest on, that [`oldest`](Self::oldest) has passed.
    passed: usize,
    /// Number of passed packets that had already departed.
    gone: usize,
}

const NONE: u32 = u32::MAX;

/// Most packets of tracked flows whose order is kept. Beyond that the oldest are forgotten.
///
/// Chosen, not measured: four times the packets that a live gateway holds by default. They take 768 KiB.
const MOST_WAITING: usize = 1 << 16;

/// Arrival time of a packet in units of 1,024 ns; the clock wraps after 73 minutes.
fn clock(packet: &Packet) -> u32 {
    u32::try_from((packet.arrived.nanos() >> 10) & u64::from(u32::MAX)).unwrap_or(0)
}

/// True if `one` is later than `other`, on a clock that wraps.
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
            gone: 0,
        }
    }

    /// The entry of `flow`.
    pub(super) fn find(&self, flow: FlowId) -> Option<u32> {
        self.entry_of.get(slot(flow.0)).copied().filter(|entry| *entry != NONE)
    }

    pub(super) fn get(&self, entry: u32) -> &TrackedFlow {
        &self.entries[slot(entry)]
    }

    pub(super) fn get_mut(&mut self, entry: u32) -> &mut TrackedFlow {
        &mut self.entries[slot(entry)]
    }

    /// Class of an entry's packets; zero if no classes share the place.
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

    /// Creates an entry for the flow of the arriving packet; `None` if the memory is full.
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
                // Packets of the entry's previous flow with the same arrival time would count as
                // its own.
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

    /// True if a new flow would find no room.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty() && self.entries.len() >= self.most
    }

    /// The next entry in turn; `None` if it is free.
    pub(super) fn advance(&mut self) -> Option<u32> {
        self.hand = if self.hand + 1 < self.entries.len() { self.hand + 1 } else { 0 };
        let it = self.entries.get(self.hand)?;
        (it.flow != FlowId::NONE).then(|| number(self.hand))
    }

    /// Notes that `packet` is going to be queued. `was_empty`: no other packet waits.
    pub(super) fn queued(&mut self, entry: u32, packet: &Packet, was_empty: bool) {
        let arrived = clock(packet);
        self.entries[slot(entry)].queued = arrived;
        if was_empty {
            self.waiting.clear();
            self.begin_again();
        } else if self.waiting.len() == MOST_WAITING {
            self.pop();
        }
        self.waiting.push_back(WaitingPacket { entry, member: packet.member, arrived });
    }

    fn pop(&mut self) {
        self.waiting.pop_front();
        self.passed = self.passed.saturating_sub(1);
    }

    /// Notes that `packet` departs: the packets of its flow that arrived before have departed or were dropped.
    pub(super) fn departed(&mut self, packet: &Packet) {
        if let Some(entry) = self.find(packet.flow) {
            let (it, arrived) = (&mut self.entries[slot(entry)], clock(packet));
            // The packet may have arrived before the flow had an entry.
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

    /// Notes that no packet of the flow waits.
    pub(super) fn emptied(&mut self, entry: u32) {
        let it = &mut self.entries[slot(entry)];
        it.departed = it.queued;
    }

    fn is_waiting(&self, packet: WaitingPacket) -> bool {
        let it = &self.entries[slot(packet.entry)];
        it.flow != FlowId::NONE && is_after(packet.arrived, it.departed)
    }

    /// The flow of the oldest waiting packet for which `chosen` (by class and entry) holds. The
    /// search begins after the packets passed by earlier calls.
    pub(super) fn oldest(&mut self, chosen: impl Fn(u16, &TrackedFlow) -> bool) -> Option<Target> {
        while let Some(packet) = self.waiting.get(self.passed).copied() {
            self.passed += 1;
            let it = &self.entries[slot(packet.entry)];
            if !self.is_waiting(packet) {
                self.gone += 1;
            } else if chosen(self.class(packet.entry), it) {
                return Some(Target { flow: it.flow, member: packet.member });
            }
        }
        if 2 * self.gone > self.waiting.len() {
            self.tidy();
        }
        None
    }

    /// Forgets all packets that have departed. These are at least half, so the amortised cost is
    /// constant.
    fn tidy(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|packet| self.is_waiting(*packet));
        (self.passed, self.gone) = (waiting.len(), 0);
        self.waiting = waiting;
    }

    /// Notes that a flow may be chosen now. If its packets wait, [`oldest`](Self::oldest) begins
    /// again.
    pub(super) fn may_be_chosen(&mut self, entry: u32) {
        let it = &self.entries[slot(entry)];
        if it.queued != it.departed {
            self.begin_again();
        }
    }

    /// True if a passed packet still waits and `chosen` holds for its entry.
    #[cfg(test)]
    pub(super) fn has_missed(&self, chosen: impl Fn(&TrackedFlow) -> bool) -> bool {
        let passed = self.waiting.iter().take(self.passed);
        let mut waiting = passed.filter(|packet| self.is_waiting(**packet));
        waiting.any(|packet| chosen(&self.entries[slot(packet.entry)]))
    }

    /// Restarts the search at the oldest packet.
    pub(super) const fn begin_again(&mut self) {
        (self.passed, self.gone) = (0, 0);
    }
}

/// True if a tracker can follow the flow of `packet`, and the packet carries information on it.
pub(super) fn is_trackable(packet: &Packet) -> bool {
    let data = packet.tcp.is_some_and(|tcp| tcp.payload > 0 || tcp.flags.any(TcpFlags::SYN));
    data && packet.flow != FlowId::NONE
}
