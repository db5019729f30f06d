//! Packets that pass a gateway, counted by the traffic that they belong to.
//!
//! A passage covers one direction of a gateway. It counts each packet on entry, on departure, and
//! when the gateway drops it. The delay of a packet is the time from its entry to its departure,
//! without the time that its transmission takes.
//!
//! A machine does not report which packet it drops. The driver knows how many packets should be
//! inside after a call. If fewer are inside, the machine has released the difference, and their
//! slots are the first ones of the free list.
//!
//! Differs: an ACK that becomes a record of the ACK control releases its slot, and counts as dropped.

use std::time::Duration;

use tidegate_core::packet::{Direction, Ecn};
use tidegate_core::report::Count;
use tidegate_core::{Packet, PacketPool, Time};

use super::rounds::Rounds;
use super::tracking::Tracking;
use super::{Tag, since};
use crate::histogram::Histogram;
use crate::routes::index;

/// The passages of one gateway.
pub(crate) struct Passages {
    /// By direction.
    ways: [Option<Passage>; 2],
    /// By flow, the group it belongs to.
    groups: Vec<u32>,
    /// By slot of the gateway's pool.
    inside: Vec<Option<Inside>>,
    /// Packets that should be inside.
    held: u32,
}

/// A packet inside a gateway.
#[derive(Clone, Copy, Debug)]
struct Inside {
    direction: Direction,
    flow: u32,
    group: u32,
    len: u32,
    entered: Time,
    /// The packet was marked "congestion experienced" when it entered.
    marked: bool,
}

/// One direction of a gateway.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    /// Departed packets whose delay exceeds this bound are late.
    bound: Duration,
    /// By group.
    pub(crate) groups: Vec<GroupPassage>,
    /// Rounds of flows, if they are recorded.
    rounds: Option<Box<Rounds>>,
    /// The flows that a marking tracks, if they are recorded.
    tracking: Option<Box<Tracking>>,
}

/// Passed packets of a group in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupPassage {
    pub(crate) counts: PassageCounts,
    /// The counts at the end of the warm-up.
    before: PassageCounts,
    /// Bytes that had arrived and that had been dropped when the current busy period of the gateway
    /// began.
    busy: [u64; 2],
    /// Delays since the end of the warm-up.
    pub(crate) delay: Histogram,
    /// Delays since the last sample: number, sum in nanoseconds, maximum.
    pub(crate) recent: (u64, u64, Duration),
}

/// Counts of one group in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PassageCounts {
    pub(crate) arrived: Count,
    pub(crate) departed: Count,
    pub(crate) dropped: Count,
    /// Packets marked "congestion experienced" inside.
    pub(crate) marked: u64,
    /// Packets whose delay exceeded the bound.
    pub(crate) late: u64,
    /// Bytes of departed packets, times the nanoseconds for which each was inside.
    pub(crate) area: u128,
}

impl Passages {
    /// No passage yet; `groups` is by flow.
    pub(crate) const fn new(groups: Vec<u32>) -> Self {
        Self { ways: [const { None }; 2], groups, inside: Vec::new(), held: 0 }
    }

    /// Starts counting packets in this direction, for each group. Without a bound, no packet is
    /// late. The rounds of flows and the flows that a marking tracks are recorded on request.
    pub(crate) fn watch(
        &mut self,
        direction: Direction,
        bound: Option<Duration>,
        [rounds, tracked]: [bool; 2],
        groups: usize,
    ) {
        let bound = bound.unwrap_or(Duration::MAX);
        let groups = vec![GroupPassage::default(); groups];
        let (rounds, tracking) = (rounds.then(Box::default), tracked.then(Box::default));
        self.ways[direction.index()] = Some(Passage { bound, groups, rounds, tracking });
    }

    /// The passage in this direction.
    pub(crate) fn way(&self, direction: Direction) -> Option<&Passage> {
        self.ways[direction.index()].as_ref()
    }

    /// Takes the rounds of flows in this direction, if they were recorded.
    pub(crate) fn take_rounds(&mut self, direction: Direction) -> Option<Rounds> {
        self.ways[direction.index()].as_mut()?.rounds.take().map(|it| *it)
    }

    /// The record of tracked flows in this direction, if there is one.
    pub(super) fn tracking(&mut self, direction: Direction) -> Option<&mut Tracking> {
        self.ways[direction.index()].as_mut()?.tracking.as_deref_mut()
    }

    /// Takes the record of tracked flows in this direction.
    pub(crate) fn take_tracking(&mut self, direction: Direction) -> Option<Tracking> {
        self.ways[direction.index()].as_mut()?.tracking.take().map(|it| *it)
    }

    /// The delays since the last sample, by group; starts a new sample.
    pub(crate) fn take_recent(&mut self, direction: Direction) -> Vec<(u64, u64, Duration)> {
        let groups = self.ways[direction.index()].iter_mut().flat_map(|way| &mut way.groups);
        groups.map(|group| std::mem::take(&mut group.recent)).collect()
    }

    /// A packet enters by a port, and gets a slot if there is room. `empty` means that no packet
    /// was inside.
    pub(super) fn enter(
        &mut self,
        now: Time,
        direction: Direction,
        tag: Tag,
        packet: &Packet,
        (slot, empty): (Option<usize>, bool),
    ) {
        self.held += u32::from(slot.is_some());
        let place = slot.map(|slot| self.place(slot));
        place.into_iter().for_each(|place| *place = None);
        let Some(way) = &mut self.ways[direction.index()] else { return };
        let Some(&group) = self.groups.get(index(tag.flow)).filter(|_| tag.end != u32::MAX) else {
            return;
        };
        if empty {
            way.groups.iter_mut().for_each(GroupPassage::begin_busy_period);
        }
        if let Some(rounds) = &mut way.rounds {
            rounds.on_arrival(now, tag.flow, direction, packet);
        }
        let passed = &mut way.groups[index(group)];
        passed.counts.arrived.add(packet.len);
        let Some(slot) = slot else { return passed.counts.dropped.add(packet.len) };
        let (len, entered, marked) = (packet.len, now, packet.ecn == Ecn::Ce);
        *self.place(slot) = Some(Inside { direction, flow: tag.flow, group, len, entered, marked });
    }

    fn place(&mut self, slot: usize) -> &mut Option<Inside> {
        if slot >= self.inside.len() {
            self.inside.resize(slot + 1, None);
        }
        &mut self.inside[slot]
    }

    /// After a call of the machine: counts the packets it dropped.
    pub(super) fn settle(&mut self, now: Time, pool: &PacketPool) {
        let released = self.held.saturating_sub(pool.in_use());
        for slot in pool.free_slots().take(index(released)) {
            let Some(lost) = self.place(slot).take() else { continue };
            if let Some(way) = &mut self.ways[lost.direction.index()] {
                way.groups[index(lost.group)].counts.dropped.add(lost.len);
                way.rounds.iter_mut().for_each(|it| it.on_congestion(now, lost.flow));
            }
        }
        self.held = pool.in_use();
    }

    /// The packet in a slot departs.
    pub(super) fn depart(&mut self, now: Time, slot: usize, packet: &Packet) {
        self.held = self.held.saturating_sub(1);
        let Some(inside) = self.place(slot).take() else { return };
        let Some(way) = &mut self.ways[inside.direction.index()] else { return };
        let delay = now.since(inside.entered);
        let is_late = delay > way.bound;
        let passed = &mut way.groups[index(inside.group)];
        passed.counts.departed.add(inside.len);
        passed.counts.late += u64::from(is_late);
        if !inside.marked && packet.ecn == Ecn::Ce {
            passed.counts.marked += 1;
            way.rounds.iter_mut().for_each(|it| it.on_congestion(now, inside.flow));
        }
        passed.counts.area += u128::from(inside.len) * delay.as_nanos();
        passed.delay.add(delay);
        let (count, sum, most) = passed.recent;
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        passed.recent = (count + 1, sum.saturating_add(nanos), most.max(delay));
    }

    /// Ends the warm-up.
    pub(super) fn restart(&mut self) {
        for passed in self.ways.iter_mut().flatten().flat_map(|way| &mut way.groups) {
            passed.before = passed.counts;
            passed.delay = Histogram::default();
        }
    }
}

impl GroupPassage {
    const fn begin_busy_period(&mut self) {
        self.busy = [self.counts.arrived.bytes, self.counts.dropped.bytes];
    }

    /// Bytes that arrived and that were dropped in the current busy period.
    pub(crate) const fn in_busy_period(&self) -> [u64; 2] {
        let Count { bytes: arrived, .. } = self.counts.arrived;
        let Count { bytes: dropped, .. } = self.counts.dropped;
        [arrived - self.busy[0], dropped - self.busy[1]]
    }

    /// The counts since the end of the warm-up.
    pub(crate) const fn counted(&self) -> PassageCounts {
        let Self { counts: now, before, .. } = self;
        PassageCounts {
            arrived: since(now.arrived, before.arrived),
            departed: since(now.departed, before.departed),
            dropped: since(now.dropped, before.dropped),
            marked: now.marked - before.marked,
            late: now.late - before.late,
            area: now.area - before.area,
        }
    }
}

impl PassageCounts {
    /// Bytes inside.
    pub(crate) const fn waiting(&self) -> Count {
        since(since(self.arrived, self.departed), self.dropped)
    }
}
