//! The first stage: finds the flow of a packet, and the policy that matches the packet.
//!
//! The sorter owns the flow table, the hosts of the LAN, the ports of fragmented packets, and the policies in force. While
//! the policies are replaced, it also owns the state of this swap.

mod began;
mod hosts;
mod unresponsive;
mod untracked;

use std::sync::Arc;
use std::time::Duration;

use began::Began;
use hosts::LanHosts;
use unresponsive::Unresponsive;
use untracked::HeldUntracked;
pub(super) use untracked::{NOT_OFFERED, PER_STEP};

use tidegate_core::flow::{Flow, FlowTable, FragmentTable, Handle, Inserted};
use tidegate_core::packet::{Direction, FlowChange, FlowId, Outer};
use tidegate_core::{Packet, PacketId, PacketPool, Time};

use super::GatewayConfig;
use super::egress::Retired;
use super::install::Swap;
use crate::policy::{ClassSet, PolicyIndex, PolicySet, Succession};

/// Classifies packets: to a flow, and to the policy of the flow.
pub(super) struct Sorter {
    config: GatewayConfig,
    policies: Arc<PolicySet>,
    /// Number of policy sets installed. A [`Handle`] records the number at its creation.
    generation: u32,
    /// An aggregate may control senders by their ACKs.
    controls_acks: bool,
    /// A queue may have a marking.
    marks: bool,
    flows: FlowTable,
    lan_hosts: LanHosts,
    fragments: FragmentTable,
    unresponsive: Unresponsive,
    /// Time of the next sweep of the flow table.
    sweep_at: Time,
    change: SwapState,
}

/// State that only changes of the policies need.
#[derive(Default)]
struct SwapState {
    /// The swap in progress.
    swap: Option<Box<Swap>>,
    began: Began,
    untracked: HeldUntracked,
    /// State that swaps have replaced.
    retired: Retired,
    /// Number of changes of the policies, classes and links, without the steps of a swap.
    arrangement: u32,
}

/// Interval of sweeps of the flow table. A sweep examines a part of it.
const SWEEP_EVERY: Duration = Duration::from_millis(1);

/// All sweeps of about ten seconds together examine the whole table.
const SWEEPS_PER_ROUND: usize = 10_000;

/// Least number of flows examined by a sweep.
const FEWEST: usize = 4;

impl Sorter {
    /// A sorter without flows.
    pub(super) fn new(config: &GatewayConfig, policies: PolicySet, now: Time) -> Self {
        let mut sorter = Self {
            config: GatewayConfig { trunks: Vec::new(), ..config.clone() },
            generation: 1,
            controls_acks: policies.has_ack_control(),
            marks: false,
            flows: FlowTable::new(config.flows, config.seed),
            lan_hosts: LanHosts::default(),
            fragments: FragmentTable::new(config.seed),
            unresponsive: Unresponsive::default(),
            sweep_at: now + SWEEP_EVERY,
            change: SwapState::default(),
            policies: Arc::new(policies),
        };
        sorter.marks = sorter.names_markings();
        sorter
    }

    /// The settings other than the policies.
    pub(super) const fn config(&self) -> &GatewayConfig {
        &self.config
    }

    /// Changes the settings other than the policies.
    pub(super) fn set_config(&mut self, config: GatewayConfig) {
        self.config = config;
        self.marks |= self.names_markings();
    }

    /// Changes the trunks in the settings.
    pub(super) fn set_trunks(&mut self, trunks: &[tidegate_core::trunk::Config]) {
        self.config.trunks = trunks.to_vec();
    }

    /// The policies that are in force.
    pub(super) const fn policies(&self) -> &Arc<PolicySet> {
        &self.policies
    }

    /// Changes the classes of the policies in force.
    pub(super) fn set_classes(&mut self, classes: ClassSet) {
        Arc::make_mut(&mut self.policies).share(classes);
    }

    /// Number of policy sets installed so far.
    pub(super) const fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns `true` if `handle` was derived from the policies in force.
    #[inline]
    pub(super) const fn is_current(&self, handle: Handle) -> bool {
        handle.generation == self.generation
    }

    /// Returns `true` if an aggregate may control senders by their ACKs.
    #[inline]
    pub(super) const fn has_ack_control(&self) -> bool {
        self.controls_acks
    }

    /// Returns `true` if a queue may have a marking.
    #[inline]
    pub(super) const fn has_markings(&self) -> bool {
        self.marks
    }

    /// Returns `true` if the policies or the settings name a marking.
    fn names_markings(&self) -> bool {
        self.policies.has_markings() || self.config.queue.marking().is_some()
    }

    /// The policy in force that matches `id`.
    pub(super) fn lookup(
        &self,
        pool: &PacketPool,
        id: &PacketId,
        direction: Direction,
    ) -> Option<PolicyIndex> {
        self.policies.lookup_inside(&pool[id], pool.outer(id), direction)
    }

    /// Writes the ports of the first fragment into a later fragment. Returns `false` if the first fragment is unknown.
    #[cold]
    pub(super) fn take_fragment(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        id: &PacketId,
    ) -> bool {
        let rule = self.config.fragments_without_first;
        let outer = pool.outer(id).copied();
        self.fragments.take(now, &mut pool[id], outer.as_ref(), rule)
    }

    /// The flow table.
    pub(super) const fn flows(&self) -> &FlowTable {
        &self.flows
    }

    /// The flow `id`, which exists.
    #[inline]
    pub(super) fn flow(&self, id: FlowId) -> &Flow {
        &self.flows[id]
    }

    /// The flow `id`, which exists, for changes.
    #[inline]
    pub(super) fn flow_mut(&mut self, id: FlowId) -> &mut Flow {
        &mut self.flows[id]
    }

    /// The flow of `packet`. `None` if the flow table does not have it. A flow with packets in the
    /// gateway stays in the table, so the index in a packet is never that of another flow.
    #[inline]
    pub(super) fn flow_of(&mut self, packet: &Packet) -> Option<&mut Flow> {
        self.flows.get_mut(packet.flow)
    }

    /// Counts the packets that were made or released, for each flow.
    #[inline]
    pub(super) fn count_changes(&mut self, pool: &mut PacketPool) {
        while let Some(change) = pool.flow_change() {
            self.count_change(change);
        }
    }

    fn count_change(&mut self, change: FlowChange) {
        let (FlowChange::Made(id) | FlowChange::Released(id)) = change;
        match (self.flows.get_mut(id), change) {
            (Some(flow), FlowChange::Made(_)) => flow.enter(1),
            (Some(flow), FlowChange::Released(_)) => flow.leave(),
            (None, FlowChange::Released(FlowId::NONE)) => self.count_untracked_released(1),
            (None, _) => {}
        }
    }

    /// Finds the flow of an arriving packet. `None` if the flow table does not have it.
    #[inline]
    pub(super) fn find(
        &mut self,
        packet: &Packet,
        outer: Option<&Outer>,
        direction: Direction,
    ) -> Option<FlowId> {
        let known = self.flows.find_inside(packet, outer, direction);
        let flow = known.or_else(|| self.flows.join_inside(packet, outer, direction))?;
        if let Some(outer) = outer.filter(|outer| !outer.may_edit()) {
            self.flows.restrict(flow, outer);
        }
        Some(flow)
    }

    /// Adds a flow for a packet that [`find`](Self::find) did not find. `None` if the table is full
    /// of flows that have packets in the gateway.
    pub(super) fn insert(
        &mut self,
        now: Time,
        (packet, outer): (&Packet, Option<&Outer>),
        direction: Direction,
    ) -> Option<Inserted> {
        self.flows.insert_inside(now, (packet, outer), direction)
    }

    /// Returns `true` if a sweep of the flow table is due.
    #[inline]
    pub(super) const fn is_due(&self, now: Time) -> bool {
        self.sweep_at.nanos() <= now.nanos()
    }

    /// Removes idle flows, and returns them. Each call examines a part of the table.
    pub(super) fn sweep(&mut self, now: Time) -> Vec<(FlowId, Flow)> {
        self.sweep_at = now + SWEEP_EVERY;
        let budget = self.flows.len().div_ceil(SWEEPS_PER_ROUND).max(FEWEST);
        let mut expired = Vec::new();
        self.flows.sweep(now, budget, |id, flow| expired.push((id, flow)));
        expired
    }

    /// Forgets the host of the flow that had the index `id`, and whether the flow was unresponsive.
    pub(super) fn forget(&mut self, pool: &mut PacketPool, id: FlowId) {
        self.lan_hosts.leave(pool.hosts_mut(), id);
        self.unresponsive.forget(id);
    }

    /// Notes that the sender of `flow` does not respond to its ACKs.
    pub(super) fn note_unresponsive(&mut self, flow: FlowId, direction: Direction) {
        self.unresponsive.note(flow, direction);
    }

    /// The flows whose senders did not respond to their ACKs.
    pub(super) fn unresponsive(&self) -> impl Iterator<Item = (FlowId, Direction)> {
        self.unresponsive.iter()
    }
}

/// Changes of the policies.
impl Sorter {
    /// Begins a swap.
    pub(super) fn begin_swap(&mut self, swap: Box<Swap>) {
        self.change.swap = Some(swap);
    }

    /// Returns `true` while a swap is in progress.
    #[inline]
    pub(super) const fn is_installing(&self) -> bool {
        self.change.swap.is_some()
    }

    /// Takes the swap in progress, for its next steps. The caller must
    /// [put it back](Self::begin_swap) unless it has ended.
    pub(super) fn take_swap(&mut self) -> Option<Box<Swap>> {
        self.change.swap.take()
    }

    /// Puts `policies` in force. The tokens of the new policies count from `now` on; `list` is
    /// empty, with room for each policy.
    pub(super) fn enforce(&mut self, now: Time, policies: Arc<PolicySet>, list: Vec<Option<Time>>) {
        self.generation += 1;
        self.controls_acks |= policies.has_ack_control();
        self.marks |= policies.has_markings();
        let before = std::mem::replace(&mut self.policies, policies);
        self.change.retired.keep_policies(before);
        self.change.began.begin(now, list);
    }

    /// Ends a swap: no aggregate belongs to the previous policies any more.
    pub(super) fn end_swap(&mut self) {
        self.controls_acks = self.policies.has_ack_control();
        self.marks = self.names_markings();
    }

    /// Records, for further policies, the time since which they are in force. Returns `true` if more policies
    /// are missing.
    pub(super) fn fill_began(&mut self, succession: Option<&Succession>) -> bool {
        self.change.began.fill(self.policies.policies().len(), succession)
    }

    /// Time since when `policy` is in force. `None` for a policy of the first set.
    pub(super) fn began(
        &self,
        policy: PolicyIndex,
        succession: Option<&Succession>,
    ) -> Option<Time> {
        self.change.began.of(policy, succession)
    }

    /// State that swaps have replaced.
    pub(super) const fn retired(&mut self) -> &mut Retired {
        &mut self.change.retired
    }

    /// Number of changes of the policies, classes and links.
    pub(super) const fn arrangement(&self) -> u32 {
        self.change.arrangement
    }

    /// Counts a change of the policies, classes or links.
    pub(super) const fn rearrange(&mut self) {
        self.change.arrangement = self.change.arrangement.wrapping_add(1);
    }
}
