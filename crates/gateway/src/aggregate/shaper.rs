//! Shaping: packets wait until they conform.

use std::time::Duration;

use tidegate_core::allocation::{Allocation, AllocationSpec, Grant, Heads, NextGrant};
use tidegate_core::packet::{
    Controlled, FRAME, Fifo, FlowId, FlowIndex, Handover, Packet, QueueIndex, Which, make_room,
    number,
};
use tidegate_core::qdisc::{Backlog, Marked, Qdisc, QdiscSpec};
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Cx, PacketId, PacketPool, Rate, Time};

use super::peak::Peak;
use super::progress::Progress;
use super::{ShapingTimer, Tokens, TriggerSet, conditioner};
use crate::policy::{Conditioning, Profile};
use crate::report::Mechanisms;

/// A queue, and an allocation that selects the next packet and its time.
pub(super) struct Shaper {
    profile: Profile,
    allocation: Box<dyn Allocation>,
    peak: Peak,
    timer: ShapingTimer,
    queue: Box<dyn Qdisc>,
    ready_at: Option<Time>,
    /// Debts by member index.
    debts: Vec<Debt>,
    /// Sum of all debts.
    owed: u64,
    /// The sum of the unresponsive parts of all debts.
    unresponsive: u64,
    allocation_spec: AllocationSpec,
    queue_spec: QdiscSpec,
}

/// If the shaper is called later than this after its [`ready_at`](Shaper::ready_at), the packets that
/// it sends count as late.
///
/// Source: `aggregates`, section 6 (the delay error of a shaper is below 2 ms).
const LATE: Duration = Duration::from_millis(2);

/// Packets that departed before they had tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Debt {
    /// Charged bytes that are not yet paid.
    bytes: u64,
    /// The part of these bytes that passed before the sender last stopped responding to ACKs, up to 4 GiB. Tokens pay
    /// for this part first.
    unresponsive: u32,
    /// Flow of the last of these packets.
    pub(crate) flow: FlowId,
}

impl Debt {
    const NONE: Self = Self { bytes: 0, unresponsive: 0, flow: FlowId::NONE };
}

/// The waiting packets, as an allocation sees them.
struct WaitingPackets<'a> {
    queue: &'a dyn Qdisc,
    pool: &'a PacketPool,
    debts: &'a [Debt],
}

/// Packets pass while the debt is at most the bytes of this time at the mean rate.
///
/// If only a part of a flow's first window passes, the rest waits until the debt of that part is
/// paid. No ACK returns meanwhile, so the sender's retransmission timer may expire. Therefore whole
/// first windows of ten segments (RFC 6928) have to pass. At 10 Mbit/s, the first windows of 165
/// flows pass, and with 1 s those of 82 flows would (`postack/together`).
const MOST_OWED: Duration = Duration::from_secs(2);

/// Packets always pass while the debt is at most this number of bytes.
const FEW_OWED: Bytes = Bytes(64 << 10);

impl Heads for WaitingPackets<'_> {
    fn head(&self, member: FlowIndex) -> Option<Bytes> {
        match self.debts.get(member.index()) {
            Some(debt) if debt.bytes > 0 => Some(Bytes(debt.bytes.min(FRAME.into()))),
            _ => self.queue.head(self.pool, QueueIndex::in_aggregate(member)),
        }
    }
}

impl Shaper {
    pub(super) fn new(
        conditioning: &Conditioning,
        queue: &QdiscSpec,
        timer: ShapingTimer,
        random: Random,
        tokens: Tokens,
        now: Time,
    ) -> Self {
        let Conditioning { profile, allocation, .. } = conditioning;
        Self {
            profile: *profile,
            allocation: conditioner::allocation(conditioning, tokens, now),
            peak: Peak::new(profile.peak(), timer.interval),
            timer,
            queue: queue.build(Some(profile.mean()), random),
            ready_at: None,
            debts: Vec::new(),
            owed: 0,
            unresponsive: 0,
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
            self.peak.set(self.profile.peak(), self.timer.interval);
            self.queue.set_rate(self.profile.mean());
        }
        same
    }

    /// Allocation, queue discipline and marking.
    pub(super) fn mechanisms(&self) -> Mechanisms {
        let allocation = Some(self.allocation_spec.name().into());
        Mechanisms { allocation, ..Mechanisms::of_queue(&self.queue_spec) }
    }

    /// Returns `true` if `packet` would wait forever, because packets of its length never conform.
    pub(super) fn refuses(&self, packet: &Packet) -> bool {
        self.profile.is_too_long(packet)
    }

    pub(super) fn offer(&mut self, cx: &mut Cx<'_>, packet: PacketId, out: &mut Fifo) -> Progress {
        let member = cx.pool[&packet].flow_index();
        if let Some(marked) = self.queue.marked_mut() {
            let tokens = self.allocation.tokens(cx.now);
            marked.set_tokens(tokens.saturating_sub(Bytes(self.owed)));
        }
        self.queue.enqueue(cx, packet);
        self.arrived(cx, member, out)
    }

    /// Queues a packet that [`withdraw_newest`](Self::withdraw_newest) returned.
    pub(super) fn take_back(
        &mut self,
        cx: &mut Cx<'_>,
        packet: PacketId,
        out: &mut Fifo,
    ) -> Progress {
        let member = cx.pool[&packet].flow_index();
        self.queue.put_back(cx, packet);
        self.arrived(cx, member, out)
    }

    #[inline]
    fn arrived(&mut self, cx: &mut Cx<'_>, member: FlowIndex, out: &mut Fifo) -> Progress {
        self.allocation.wait(cx.now, member);
        match self.timer.triggers {
            TriggerSet::All => self.serve(cx, out),
            TriggerSet::Timer => self.demand(cx, member, out),
        }
    }

    /// Charges `packet`, which passes at once. Its tokens are taken later, when the allocation serves its
    /// flow. Returns `None` if the packet must wait behind others of its flow, or if the debt is too large.
    pub(super) fn pass(&mut self, cx: &mut Cx<'_>, packet: &PacketId) -> Option<Progress> {
        let Packet { queue_index, cost, flow, .. } = cx.pool[packet];
        let member = cx.pool[packet].flow_index();
        let most = self.profile.mean().bytes_in(MOST_OWED).max(FEW_OWED);
        if self.queue.bytes_of(queue_index) > Bytes::ZERO || self.owed >= most.0 {
            return None;
        }
        let mut progress = Progress::default();
        progress.conforms(&cx.pool[packet], cx.now);
        progress.controlled = Controlled::default();
        self.owe(cx.now, member, Debt { bytes: cost.into(), flow, ..Debt::NONE });
        Some(progress)
    }

    /// Adds `debt` to the debt of `member`.
    pub(super) fn owe(&mut self, now: Time, member: FlowIndex, debt: Debt) {
        if debt.bytes == 0 {
            return;
        }
        make_room(&mut self.debts, member.index(), Debt::NONE);
        let own = &mut self.debts[member.index()];
        let before = own.unresponsive;
        own.bytes += debt.bytes;
        own.unresponsive = before.saturating_add(debt.unresponsive);
        own.flow = debt.flow;
        self.owed += debt.bytes;
        self.unresponsive += u64::from(own.unresponsive - before);
        self.allocation.wait(now, member);
        self.ready_at.get_or_insert(now);
    }

    /// Bytes that passed and are not yet paid, of senders that respond to ACKs.
    pub(super) const fn owed(&self) -> Bytes {
        Bytes(self.owed - self.unresponsive)
    }

    /// The sender of `member` no longer responds to ACKs. Its debt and its waiting packets delay no ACK of other
    /// flows. Returns the packets, which were ACK-controlled until now.
    pub(super) fn end_ack_control(
        &mut self,
        pool: &mut PacketPool,
        member: FlowIndex,
    ) -> Controlled {
        if let Some(debt) = self.debts.get_mut(member.index()) {
            let unresponsive = u32::try_from(debt.bytes).unwrap_or(u32::MAX);
            self.unresponsive += u64::from(unresponsive - debt.unresponsive);
            debt.unresponsive = unresponsive;
        }
        self.queue.end_ack_control(pool, QueueIndex::in_aggregate(member))
    }

    /// Tokens of the bucket less all debts, and the peak rate at which they may be spent, if there is one.
    pub(super) fn burst(&self, now: Time) -> Option<(Bytes, Rate)> {
        let peak = self.profile.peak()?;
        Some((self.allocation.tokens(now).saturating_sub(Bytes(self.owed)), peak))
    }

    /// Debt of `member` in bytes.
    pub(super) fn owed_by(&self, member: FlowIndex) -> Bytes {
        Bytes(self.debts.get(member.index()).map_or(0, |debt| debt.bytes))
    }

    /// Removes and returns the debt of `member`.
    pub(super) fn take_debt(&mut self, member: FlowIndex) -> Option<Debt> {
        let debt = self.debts.get_mut(member.index()).filter(|debt| debt.bytes > 0)?;
        let debt = std::mem::replace(debt, Debt::NONE);
        self.owed -= debt.bytes;
        self.unresponsive -= u64::from(debt.unresponsive);
        Some(debt)
    }

    /// Removes and returns the debt of some member.
    pub(super) fn take_any_debt(&mut self) -> Option<(FlowIndex, Debt)> {
        while self.owed > 0
            && let Some(debt) = self.debts.pop()
        {
            self.owed -= debt.bytes;
            self.unresponsive -= u64::from(debt.unresponsive);
            if debt.bytes > 0 {
                return Some((FlowIndex(number(self.debts.len())), debt));
            }
        }
        None
    }

    /// Lets the oldest packet of `member` depart, if it has tokens. It precedes packets that have
    /// waited longer, which only the timer serves.
    fn demand(&mut self, cx: &mut Cx<'_>, member: FlowIndex, out: &mut Fifo) -> Progress {
        let mut progress = Progress::default();
        let at = QueueIndex::in_aggregate(member);
        if let Some(bytes) = self.queue.head(cx.pool, at)
            && self.peak.ready_at() <= cx.now
            && self.allocation.try_take(cx.now, member, bytes)
            && let Some(packet) = self.queue.dequeue_flow(cx, at)
        {
            self.peak.take(cx.now, bytes);
            progress.conforms(&cx.pool[&packet], cx.now);
            out.push(cx.pool, packet);
            let waiting = WaitingPackets { queue: &*self.queue, pool: cx.pool, debts: &self.debts };
            if waiting.head(member).is_some() {
                self.allocation.wait(cx.now, member);
            }
        }
        if self.queue.backlog().packets > 0 {
            self.ready_at.get_or_insert(cx.now + Duration::from_nanos(1));
        }
        progress
    }

    pub(super) fn serve(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) -> Progress {
        let mut progress = Progress::default();
        let late = self.ready_at.is_some_and(|ready_at| cx.now.since(ready_at) > LATE);
        self.ready_at = loop {
            let spaced = self.peak.ready_at();
            if spaced > cx.now && (self.queue.backlog().packets > 0 || self.owed > 0) {
                break Some(spaced);
            }
            let waiting = WaitingPackets { queue: &*self.queue, pool: cx.pool, debts: &self.debts };
            match self.allocation.grant(cx.now, &waiting) {
                NextGrant::Idle => break None,
                NextGrant::At(time) => break Some(time.max(spaced)),
                NextGrant::Grant(grant) => {
                    if self.pay(grant) {
                        self.peak.take(cx.now, grant.bytes);
                        continue;
                    }
                    let at = QueueIndex::in_aggregate(grant.flow);
                    let Some(packet) = self.queue.dequeue_flow(cx, at) else { continue };
                    self.peak.take(cx.now, grant.bytes);
                    progress.conforms(&cx.pool[&packet], cx.now);
                    progress.late += u64::from(late);
                    out.push(cx.pool, packet);
                }
            }
        };
        progress
    }

    /// Pays a part of the member's debt, if there is any. Returns false without a debt.
    fn pay(&mut self, grant: Grant) -> bool {
        let debt = self.debts.get_mut(grant.flow.index()).filter(|debt| debt.bytes > 0);
        let Some(debt) = debt else { return false };
        let paid = grant.bytes.0.min(debt.bytes);
        let before = debt.unresponsive;
        debt.bytes -= paid;
        debt.unresponsive = u32::try_from(paid).map_or(0, |paid| before.saturating_sub(paid));
        self.owed -= paid;
        self.unresponsive -= u64::from(before - debt.unresponsive);
        true
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

    /// Removes the next packet of the queue, conforming or not.
    pub(super) fn take_any(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.queue.dequeue(cx)
    }

    pub(super) fn withdraw(&mut self, cx: &mut Cx<'_>, member: FlowIndex) -> Option<PacketId> {
        self.queue.dequeue_flow(cx, QueueIndex::in_aggregate(member))
    }

    /// Removes the newest packet of `flow`, conforming or not.
    pub(super) fn withdraw_newest(&mut self, cx: &mut Cx<'_>, flow: FlowIndex) -> Option<PacketId> {
        self.queue.dequeue_newest(cx, QueueIndex::in_aggregate(flow))
    }

    pub(super) fn hand_over(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        (from, to): (FlowIndex, FlowIndex),
        which: Which<'_>,
    ) {
        let [old, new] = [from, to].map(QueueIndex::in_aggregate);
        if self.queue.hand_over(pool, &mut Handover { from: old, to: new, which }) {
            self.allocation.wait(now, to);
        }
    }

    pub(super) const fn ready_at(&self) -> Option<Time> {
        self.ready_at
    }

    pub(super) fn waiting(&self, member: FlowIndex) -> Bytes {
        self.queue.bytes_of(QueueIndex::in_aggregate(member))
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    pub(super) fn marked(&self) -> Option<&Marked> {
        self.queue.marked()
    }

    pub(super) fn marked_mut(&mut self) -> Option<&mut Marked> {
        self.queue.marked_mut()
    }

    pub(super) fn allocation(&mut self) -> &mut dyn Allocation {
        &mut *self.allocation
    }

    pub(super) fn lends(&self) -> bool {
        self.allocation.lends()
    }

    pub(super) const fn profile(&self) -> &Profile {
        &self.profile
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::allocation::Share;
    use tidegate_core::meter::Profile;
    use tidegate_core::{Packet, Rate, Tally};

    use super::*;

    const TICK: Duration = Duration::from_millis(15);

    /// A shaper of 1 Mbit/s with room for two packets of 1,000 bytes, and two members.
    struct Bench {
        pool: PacketPool,
        tally: Tally,
        shaper: Shaper,
    }

    impl Bench {
        fn new(triggers: TriggerSet) -> Self {
            let profile = Profile::new(Rate::from_mbps(1), None, Bytes(2_000), Bytes(1_500));
            let conditioning = Conditioning {
                profile: profile.unwrap(),
                allocation: AllocationSpec::Fcfs(Default::default()),
                weights: Vec::new(),
                fair_between: Default::default(),
            };
            let queue = QdiscSpec::PerFlow(Default::default());
            let timer = ShapingTimer { interval: TICK, triggers };
            let random = Random::new(1, 1);
            let mut shaper =
                Shaper::new(&conditioning, &queue, timer, random, Tokens::Burst, Time::ZERO);
            let share = Share { weight: 1, rtt: None };
            (0..2).for_each(|it| shaper.allocation.join(Time::ZERO, FlowIndex(it), share));
            Self { pool: PacketPool::with_capacity(16), tally: Tally::default(), shaper }
        }

        /// Members whose packets depart when a packet of `member` arrives at `ms`.
        fn offer(&mut self, ms: u64, member: u32) -> Vec<u32> {
            let packet = Packet {
                len: 1_000,
                cost: 1_000,
                queue_index: QueueIndex(member),
                ..Packet::default()
            };
            let id = self.pool.insert(packet).unwrap();
            self.call(ms, |shaper, cx, out| shaper.offer(cx, id, out))
        }

        fn tick(&mut self, ms: u64) -> Vec<u32> {
            self.call(ms, Shaper::serve)
        }

        fn call(
            &mut self,
            ms: u64,
            what: impl FnOnce(&mut Shaper, &mut Cx<'_>, &mut Fifo) -> Progress,
        ) -> Vec<u32> {
            let mut out = Fifo::new();
            let now = Time::from_millis(ms);
            let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.tally };
            what(&mut self.shaper, &mut cx, &mut out);
            let mut left = Vec::new();
            while let Some(id) = out.pop(&self.pool) {
                left.push(self.pool[&id].queue_index.0);
                self.pool.release(id);
            }
            left
        }
    }

    #[test]
    fn an_arrival_lets_the_flow_that_has_waited_longest_send() {
        let mut bench = Bench::new(TriggerSet::All);
        assert_eq!(
            (bench.offer(0, 0), bench.offer(0, 0), bench.offer(0, 0)),
            (vec![0], vec![0], vec![])
        );
        assert_eq!(bench.offer(8, 1), [0]); // a packet's worth, 8 ms later
        assert_eq!(bench.shaper.ready_at(), Some(Time::from_millis(16)));
    }

    #[test]
    fn with_the_timer_alone_an_arriving_packet_precedes_waiting_packets() {
        let mut bench = Bench::new(TriggerSet::Timer);
        assert_eq!(
            (bench.offer(0, 0), bench.offer(0, 0), bench.offer(0, 0)),
            (vec![0], vec![0], vec![])
        );
        assert!(bench.shaper.ready_at() > Some(Time::ZERO)); // the timer's next look
        assert_eq!(bench.offer(8, 1), [1]);
        assert_eq!(bench.offer(9, 1), Vec::<u32>::new());
        assert_eq!(bench.tick(15), Vec::<u32>::new()); // 875 tokens
        assert_eq!(bench.tick(30), [0, 1]);
    }

    #[test]
    fn a_packet_that_departs_more_than_two_milliseconds_after_it_conformed_is_late() {
        let late = |looks: &[u64]| {
            let mut bench = Bench::new(TriggerSet::All);
            (0..4).for_each(|_| drop(bench.offer(0, 0)));
            let mut late = 0;
            for ms in looks {
                let mut out = Fifo::new();
                let now = Time::from_millis(*ms);
                let mut cx = Cx { now, pool: &mut bench.pool, tally: &mut bench.tally };
                late += bench.shaper.serve(&mut cx, &mut out).late;
                while let Some(id) = out.pop(&bench.pool) {
                    bench.pool.release(id);
                }
            }
            late
        };
        assert_eq!(late(&[8, 17]), 0); // tokens for one packet are there at 8 and at 16 ms
        assert_eq!(late(&[11, 17]), 1);
        assert_eq!(late(&[30]), 2);
    }
}
