//! Counts the packets that pass a gateway, for each traffic entry of the scenario and each
//! direction.
//!
//! A *passage* covers one direction of a gateway. It counts each packet when it enters, when it
//! departs, and when the gateway drops it. The delay of a packet is the time from its entry to its
//! departure, without its transmission time.
//!
//! A gateway does not report *which* packet it drops. But the simulator knows how many packets must
//! be inside after a call. If fewer are inside, the gateway has dropped the difference, and the
//! slots of these packets are the first ones of the pool's free list.
//!
//! Differs: ACK control may store an ACK as a record and release its slot. Such an ACK counts as
//! dropped here.

use std::time::Duration;

use tidegate_core::packet::{Direction, Ecn};
use tidegate_core::{Count, Packet, PacketPool, Time, report};

use super::Tag;
use super::rounds::Rounds;
use super::tracking::Tracking;
use crate::histogram::Histogram;
use crate::routes::index;

/// The passages of one gateway.
pub(crate) struct Passages {
    /// The passage of upward packets, and the passage of downward packets. `None` for a direction
    /// without a probe.
    ways: [Option<Passage>; 2],
    /// The group of each flow.
    groups: Vec<u32>,
    /// The packet in each slot of the gateway's pool.
    inside: Vec<Option<Inside>>,
    /// Number of packets that must be inside if the gateway dropped none.
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
    /// The packet was already marked "congestion experienced" when it entered.
    marked: bool,
}

/// Counts for one direction of a gateway.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    /// Packets with a longer delay are late.
    bound: Duration,
    /// The counts of each group.
    pub(crate) groups: Vec<GroupPassage>,
    /// Rounds of flows, if they are recorded.
    rounds: Option<Box<Rounds>>,
    /// The flows that the marking tracks, if they are recorded.
    tracking: Option<Box<Tracking>>,
}

/// Passing packets of a group in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupPassage {
    pub(crate) counts: PassageCounts,
    /// The counts at the end of the warm-up.
    before: PassageCounts,
    /// The group's arrived bytes and its dropped bytes, at the start of the gateway's current busy
    /// period.
    busy: [u64; 2],
    /// Delays since the end of the warm-up.
    pub(crate) delay: Histogram,
    /// Delays since the last sample of the series: number, sum in nanoseconds, maximum.
    pub(crate) recent: (u64, u64, Duration),
}

report! {
    /// Counts of one group in one direction.
    #[derive(Copy)]
    pub(crate) PassageCounts, counted {
        /// Packets that entered the gateway.
        arrived: Count => {
            column "arrived_packets" of packets,
            column "arrived_bytes" of bytes,
        };
        /// Packets that departed.
        departed: Count => {
            column "departed_packets" of packets,
            column "departed_bytes" of bytes,
        };
        /// Packets that the gateway dropped.
        dropped: Count => {
            column "dropped_packets" of packets,
            column "dropped_bytes" of bytes,
        };
        /// Packets that the gateway marked "congestion experienced".
        marked: u64 => { column "marked_packets" };
        /// Packets whose delay exceeded the bound.
        late: u64 => { column "late_packets" };
    }
    apart {
        /// Sum over departed packets: length in bytes times delay in nanoseconds.
        area: u128;
    }
}

impl Passages {
    /// No direction is watched yet. `groups` holds the group of each flow.
    pub(crate) const fn new(groups: Vec<u32>) -> Self {
        Self { ways: [const { None }; 2], groups, inside: Vec::new(), held: 0 }
    }

    /// Starts counting packets of `groups` groups in this direction. Without a bound, no packet is
    /// late. If `rounds` is set, also records the rounds of flows. If `tracked` is set, also
    /// records the flows that the marking tracks.
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

    /// Removes and returns the recorded rounds of this direction, if any.
    pub(crate) fn take_rounds(&mut self, direction: Direction) -> Option<Rounds> {
        self.ways[direction.index()].as_mut()?.rounds.take().map(|it| *it)
    }

    /// The record of tracked flows in this direction, if there is one.
    pub(super) fn tracking(&mut self, direction: Direction) -> Option<&mut Tracking> {
        self.ways[direction.index()].as_mut()?.tracking.as_deref_mut()
    }

    /// Removes and returns the record of tracked flows of this direction, if any.
    pub(crate) fn take_tracking(&mut self, direction: Direction) -> Option<Tracking> {
        self.ways[direction.index()].as_mut()?.tracking.take().map(|it| *it)
    }

    /// The delays of each group since the last sample of the series. Clears them for the next
    /// sample.
    pub(crate) fn take_recent(&mut self, direction: Direction) -> Vec<(u64, u64, Duration)> {
        let groups = self.ways[direction.index()].iter_mut().flat_map(|way| &mut way.groups);
        groups.map(|group| std::mem::take(&mut group.recent)).collect()
    }

    /// A packet enters the gateway. `slot` is its slot in the pool; `None` if the pool is full.
    /// `empty` says that no other packet is inside.
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

    /// Call after each call of the gateway: counts the packets that the gateway has dropped.
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

    /// The packet in `slot` departs.
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

    /// Bytes that arrived, and bytes that were dropped, in the current busy period.
    pub(crate) const fn in_busy_period(&self) -> [u64; 2] {
        let Count { bytes: arrived, .. } = self.counts.arrived;
        let Count { bytes: dropped, .. } = self.counts.dropped;
        [arrived - self.busy[0], dropped - self.busy[1]]
    }

    /// The counts since the end of the warm-up.
    pub(crate) fn counted(&self) -> PassageCounts {
        self.counts - self.before
    }
}

impl PassageCounts {
    /// Packets and bytes inside the gateway.
    pub(crate) fn waiting(&self) -> Count {
        self.arrived - self.departed - self.dropped
    }
}
