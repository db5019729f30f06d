//! The aggregates: which policy each belongs to, and when each checks its queue again.
//!
//! An aggregate is the traffic of one policy in one direction. Its number is called its *slot*. A slot is used again
//! after its aggregate was removed. A flow keeps a [`Handle`] to its aggregate: the slot, and the number of
//! the policy set
//! in force at that time, its *generation*. A handle older than the aggregate in its slot is void.

mod timers;

use std::time::Duration;

use timers::Timers;

use tidegate_core::Time;
use tidegate_core::flow::{Flow, Handle};
use tidegate_core::packet::{Direction, QueueIndex, make_room};

use super::egress::EgressRoute;
use crate::aggregate::Aggregate;
use crate::policy::{PolicyIndex, Succession};

/// The aggregates, each in a numbered slot.
pub(super) struct Aggregates {
    slots: Vec<Slot>,
    free: Vec<u32>,
    of_policy: Slots,
    /// The previous policy set, during a swap.
    before: Option<Before>,
    /// Number of swaps.
    swap: u32,
    timers: Timers,
}

/// The slot of each policy and direction that has seen packets.
type Slots = Vec<[Option<u32>; 2]>;

/// The aggregates of the previous policy set, and for each policy in force the previous policy that it continues.
struct Before {
    of_policy: Slots,
    succession: Succession,
}

/// A slot, with an aggregate or free.
struct Slot {
    /// The generation in which the aggregate was added. Handles of earlier generations refer to an earlier aggregate.
    since: u32,
    aggregate: Option<Aggregate>,
    route: EgressRoute,
    /// The policy of the aggregate, in the set that swap number `swap` installed.
    policy: PolicyIndex,
    swap: u32,
}

/// State of an aggregate during a swap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// The aggregate belongs to a policy in force.
    Settled,
    /// The aggregate belongs to the previous set, and this policy takes it over.
    TakenOver(PolicyIndex),
    /// The policy of the aggregate has vanished.
    Vanished,
}

impl Aggregates {
    /// A list without aggregates, whose shaping timer expires at multiples of `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            of_policy: Vec::new(),
            before: None,
            swap: 0,
            timers: Timers::new(interval),
        }
    }

    /// Changes the interval of the shaping timer.
    pub(super) const fn set_interval(&mut self, interval: Duration) {
        self.timers.set_interval(interval);
    }

    /// Lets the aggregate in `slot` check its packets at `ready_at`, or earlier.
    pub(super) fn arm(&mut self, slot: u32, ready_at: Option<Time>) {
        self.timers.arm(slot, ready_at);
    }

    /// Returns `true` if the timer of an aggregate may have expired.
    #[inline]
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.timers.is_due(now)
    }

    /// The slot of the next aggregate whose timer has expired. Call this until it returns `None`.
    pub(super) fn next_due(&mut self, now: Time) -> Option<u32> {
        self.timers.due(now)
    }

    /// Time of the next check of an aggregate.
    pub(super) fn next(&self) -> Option<Time> {
        self.timers.next()
    }

    /// The slot of a policy's aggregate in `direction`, if it has seen a packet.
    pub(super) fn slot(&self, policy: PolicyIndex, direction: Direction) -> Option<u32> {
        self.of_policy.get(policy.index())?[direction.index()]
    }

    /// Adds the aggregate of `policy`, as of `generation`. Returns its slot.
    pub(super) fn add(
        &mut self,
        policy: PolicyIndex,
        aggregate: Aggregate,
        route: EgressRoute,
        generation: u32,
    ) -> u32 {
        let direction = aggregate.direction();
        let swap = self.swap;
        let new = Slot { since: generation, aggregate: Some(aggregate), route, policy, swap };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[index(slot)] = new;
                slot
            }
            None => {
                self.slots.push(new);
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.assign(slot, policy, direction);
        slot
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Aggregate> {
        self.slots.get_mut(index(slot))?.aggregate.as_mut()
    }

    /// The trunk and the class of the link for the packets of the aggregate in `slot`.
    pub(super) fn route(&self, slot: u32) -> EgressRoute {
        self.slots.get(index(slot)).map(|slot| slot.route).unwrap_or_default()
    }

    /// Changes the route of the aggregate in `slot`.
    pub(super) fn set_route(&mut self, slot: u32, route: EgressRoute) {
        if let Some(slot) = self.slots.get_mut(index(slot)) {
            slot.route = route;
        }
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Aggregate> {
        self.slots.get(index(slot))?.aggregate.as_ref()
    }

    /// The aggregate that `handle` refers to, if it still exists.
    pub(super) fn meant(&mut self, handle: Handle) -> Option<&mut Aggregate> {
        let slot = self.slots.get_mut(index(handle.aggregate))?;
        if slot.since <= handle.generation { slot.aggregate.as_mut() } else { None }
    }

    /// The aggregate that `handle` refers to, if it still exists, for reading.
    pub(super) fn now(&self, handle: Handle) -> Option<&Aggregate> {
        let slot = self.slots.get(index(handle.aggregate))?;
        if slot.since <= handle.generation { slot.aggregate.as_ref() } else { None }
    }

    /// Ends the memberships of `flow`, which has expired and has no backlog.
    pub(super) fn part(&mut self, now: Time, flow: &Flow) {
        for handle in Direction::BOTH.map(|way| flow.handle(way)) {
            if let Some(aggregate) = self.meant(handle) {
                aggregate.leave(now, handle.flow_index);
            }
        }
    }

    /// Puts a new set in force, with an empty entry in `slots` for each policy. All aggregates belong to the
    /// previous set until they are taken over.
    pub(super) fn begin_swap(&mut self, succession: Succession, slots: Slots) {
        let of_policy = std::mem::replace(&mut self.of_policy, slots);
        self.before = Some(Before { of_policy, succession });
        // The swap may remove any of the aggregates.
        self.free.reserve(self.slots.len());
        self.swap += 1;
    }

    /// Ends the swap: no aggregate belongs to the previous set any more.
    pub(super) fn end_swap(&mut self) {
        self.before = None;
    }

    /// Returns `true` while the previous set still has aggregates.
    pub(super) const fn is_swapping(&self) -> bool {
        self.before.is_some()
    }

    /// During a swap: for each policy in force, the previous policy that it continues.
    pub(super) fn succession(&self) -> Option<&Succession> {
        self.before.as_ref().map(|before| &before.succession)
    }

    /// The slot of the aggregate that `policy` will take over from the previous policy set.
    pub(super) fn inherited(&self, policy: PolicyIndex, direction: Direction) -> Option<u32> {
        let before = self.before.as_ref()?;
        let origin = before.succession.origin(policy)?;
        before.of_policy.get(origin.index())?[direction.index()]
    }

    /// State of the aggregate in `slot` during a swap. `None` if the slot is free.
    pub(super) fn fate(&self, slot: u32) -> Option<Fate> {
        let slot = self.slots.get(index(slot)).filter(|slot| slot.aggregate.is_some())?;
        if slot.swap == self.swap {
            return Some(Fate::Settled);
        }
        let heir = self.before.as_ref().and_then(|it| it.succession.heir(slot.policy));
        Some(heir.map_or(Fate::Vanished, Fate::TakenOver))
    }

    /// The policy in force that the aggregate in `slot` belongs to.
    pub(super) fn policy(&self, slot: u32) -> Option<PolicyIndex> {
        let slot = self.slots.get(index(slot)).filter(|slot| slot.swap == self.swap)?;
        Some(slot.policy)
    }

    /// Assigns the aggregate in `slot` to `policy`, which is in force.
    pub(super) fn assign(&mut self, slot: u32, policy: PolicyIndex, direction: Direction) {
        make_room(&mut self.of_policy, policy.index(), [None; 2]);
        self.of_policy[policy.index()][direction.index()] = Some(slot);
        let (place, swap) = (&mut self.slots[index(slot)], self.swap);
        (place.policy, place.swap) = (policy, swap);
    }

    /// Removes the aggregate in `slot`. The slot becomes free.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Aggregate> {
        let aggregate = self.slots.get_mut(index(slot))?.aggregate.take()?;
        self.free.push(slot);
        Some(aggregate)
    }

    /// Number of slots, free ones included.
    pub(super) fn slots(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// The aggregates that have seen a packet, in the order of their policies.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Aggregate> {
        self.of_policy.iter().flatten().filter_map(|slot| self.get((*slot)?))
    }
}

const fn index(slot: u32) -> usize {
    QueueIndex(slot).index()
}
