//! Shaping: packets wait until they conform.

use std::time::Duration;

use super::peak::Peak;
use super::progress::Progress;
use crate::allocation::{Allocation, AllocationSpec, Heads, Turn};
use crate::packet::{Fifo, Member};
use crate::policy::{Conditioning, Profile};
use crate::qdisc::{Backlog, Qdisc, QdiscSpec};
use crate::random::Random;
use crate::{Bytes, Cx, PacketId, PacketPool, Time};

/// A queue, and an allocation that says whose packet leaves it when.
pub(super) struct Shaper {
    profile: Profile,
    allocation: Box<dyn Allocation>,
    peak: Peak,
    /// How often the shaping timer looks.
    interval: Duration,
    queue: Box<dyn Qdisc>,
    ready_at: Option<Time>,
    allocation_spec: AllocationSpec,
    queue_spec: QdiscSpec,
}

/// The waiting packets, as an allocation sees them.
struct Waiting<'a> {
    queue: &'a dyn Qdisc,
    pool: &'a PacketPool,
}

impl Heads for Waiting<'_> {
    fn head(&self, member: Member) -> Option<Bytes> {
        self.queue.head(self.pool, member)
    }
}

impl Shaper {
    pub(super) fn new(
        conditioning: &Conditioning,
        queue: &QdiscSpec,
        interval: Duration,
        random: Random,
        now: Time,
    ) -> Self {
        let Conditioning { profile, allocation, .. } = conditioning;
        Self {
            profile: *profile,
            allocation: allocation.build(profile, now),
            peak: Peak::new(profile.peak(), interval),
            interval,
            queue: queue.build(Some(profile.mean()), random),
            ready_at: None,
            allocation_spec: allocation.clone(),
            queue_spec: queue.clone(),
        }
    }

    pub(super) fn adopt(
        &mut self,
        conditioning: &Conditioning,
        queue: &QdiscSpec,
        now: Time,
    ) -> bool {
        let same = self.allocation_spec == conditioning.allocation && self.queue_spec == *queue;
        if same && self.profile != conditioning.profile {
            self.profile = conditioning.profile;
            self.allocation.set_profile(now, &self.profile);
            self.peak.set(self.profile.peak(), self.interval);
            self.queue.set_rate(self.profile.mean());
        }
        same
    }

    pub(super) fn offer(&mut self, cx: &mut Cx<'_>, packet: PacketId, out: &mut Fifo) -> Progress {
        let member = cx.pool[&packet].member;
        self.queue.enqueue(cx, packet);
        self.allocation.wait(cx.now, member);
        self.serve(cx, out)
    }

    pub(super) fn serve(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) -> Progress {
        let mut progress = Progress::default();
        self.ready_at = loop {
            let spaced = self.peak.ready_at();
            if spaced > cx.now && self.queue.backlog().packets > 0 {
                break Some(spaced);
            }
            let waiting = Waiting { queue: &*self.queue, pool: cx.pool };
            match self.allocation.grant(cx.now, &waiting) {
                Turn::Idle => break None,
                Turn::At(time) => break Some(time.max(spaced)),
                Turn::Grant(grant) => {
                    let Some(packet) = self.queue.dequeue_flow(cx, grant.member) else { continue };
                    self.peak.take(cx.now, grant.bytes);
                    progress.conforms(&cx.pool[&packet], cx.now);
                    out.push(cx.pool, packet);
                }
            }
        };
        progress
    }

    pub(super) fn flush(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) -> Progress {
        let mut progress = Progress::default();
        while let Some(packet) = self.queue.dequeue(cx) {
            progress.conforms(&cx.pool[&packet], cx.now);
            out.push(cx.pool, packet);
        }
        self.ready_at = None;
        progress
    }

    pub(super) fn withdraw(&mut self, cx: &mut Cx<'_>, member: Member) -> Option<PacketId> {
        self.queue.dequeue_flow(cx, member)
    }

    pub(super) const fn ready_at(&self) -> Option<Time> {
        self.ready_at
    }

    pub(super) fn waiting(&self, member: Member) -> Bytes {
        self.queue.bytes_of(member)
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    pub(super) fn allocation(&mut self) -> &mut dyn Allocation {
        &mut *self.allocation
    }

    pub(super) const fn profile(&self) -> &Profile {
        &self.profile
    }
}
