//! Allocations: schemes that share the tokens of an aggregate (the flows of one policy in one direction) between its
//! flows.
//!
//! A *member* is a flow of the aggregate, or a host if the policy is fair between hosts.
//!
//! To add a scheme, write `allocation/<name>.rs` with a `Config` and its `build`. Then add its `mod` line,
//! and its line in `registry!` below. Policies select it by its name.

mod bits;
mod common;
mod drr;
mod fcfs;
mod logical_partitions;
mod lru;
mod partitioned;
mod sequential;
mod shares;
#[cfg(test)]
mod testing;

use std::time::Duration;

use crate::meter::Profile;
use crate::packet::FlowIndex;
use crate::registry;
use crate::{Bytes, Time};

/// A way to share the tokens of an aggregate among its flows.
///
/// An allocation owns the aggregate's bucket (mean rate and burst; the conditioner handles the peak
/// rate).
///
/// # Call order
///
/// 1. [`join`](Self::join) a flow before any other call for it.
/// 2. Shaping: report a flow with packets by [`wait`](Self::wait). Call [`grant`](Self::grant) until it
///    returns no grant, and transmit the granted packets.
/// 3. Policing: call [`try_take`](Self::try_take) for each packet.
/// 4. [`leave`](Self::leave) comes last. The index may then be used for another flow.
///
/// # Time
///
/// `now` does not run backwards. [`NextGrant::At`] is the earliest time of the next grant. An earlier call
/// grants nothing. A later call grants the tokens that have arrived since, up to the burst.
///
/// # Example
///
/// Two flows wait for two seconds at 8 Mbit/s. Each gets half of the burst and of the rate.
///
/// ```
/// use tidegate_core::allocation::{AllocationSpec, Grant, Heads, Share, NextGrant};
/// use tidegate_core::packet::FlowIndex;
/// use tidegate_core::meter::Profile;
/// use tidegate_core::{Bytes, Rate, Time};
///
/// /// Both flows always have a packet of 1,500 bytes.
/// struct Backlogged;
/// impl Heads for Backlogged {
///     fn head(&self, _: FlowIndex) -> Option<Bytes> {
///         Some(Bytes(1_500))
///     }
/// }
///
/// let spec: AllocationSpec = toml::from_str("kind = 'drr'").unwrap();
/// let profile = Profile::new(Rate::from_mbps(8), None, Bytes(3_000), Bytes(1_500)).unwrap();
/// let mut allocation = spec.build(&profile, Time::ZERO);
/// for flow in [FlowIndex(0), FlowIndex(1)] {
///     allocation.join(Time::ZERO, flow, Share { weight: 1, rtt: None });
///     allocation.wait(Time::ZERO, flow);
/// }
/// let (mut now, mut granted) = (Time::ZERO, [0, 0]);
/// while now < Time::from_secs(2) {
///     match allocation.grant(now, &Backlogged) {
///         NextGrant::Grant(Grant { flow: member, bytes }) => granted[member.index()] += bytes.0,
///         NextGrant::At(next) => now = next,
///         NextGrant::Idle => unreachable!("both flows wait"),
///     }
/// }
/// assert_eq!(granted[0].abs_diff(granted[1]), 1_500, "less than two packets apart");
/// assert_eq!(granted[0] + granted[1], 3_000 + 2_000_000 - 500, "rounded to whole packets");
/// ```
pub trait Allocation: Send {
    /// Changes the profile. Tokens beyond the burst of the new profile are lost.
    fn set_profile(&mut self, now: Time, profile: &Profile);

    /// Adds a flow.
    fn join(&mut self, now: Time, member: FlowIndex, share: Share);

    /// Updates the share of a member.
    fn update(&mut self, now: Time, member: FlowIndex, share: Share);

    /// Removes a member. Its tokens go to the other members.
    fn leave(&mut self, now: Time, member: FlowIndex);

    /// Takes `len` tokens for a packet of `member` at once, or takes nothing: policing.
    ///
    /// Afterwards, the allocation may have forgotten that `member` waits. Call [`wait`](Self::wait) if it has more packets.
    fn try_take(&mut self, now: Time, member: FlowIndex, len: Bytes) -> bool;

    /// `member` has packets waiting. Repeated calls have no effect.
    fn wait(&mut self, now: Time, member: FlowIndex);

    /// Tokens in the aggregate's bucket at `now`, whoever may use them.
    fn tokens(&self, now: Time) -> Bytes;

    /// Returns `true` if a flow may use tokens that other flows leave unused.
    fn lends(&self) -> bool {
        true
    }

    /// Selects the member whose oldest packet departs next, and takes its tokens.
    ///
    /// Call this until the result is no longer [`NextGrant::Grant`]. A member waits until `heads` has no packet of that member.
    fn grant(&mut self, now: Time, heads: &dyn Heads) -> NextGrant;
}

/// Result of [`Allocation::grant`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NextGrant {
    /// This member may send now. The bytes are those that [`Heads::head`] reports: its oldest packet,
    /// or a part of its debt for packets that departed before they had tokens.
    Grant(Grant),
    /// No member may send before this time, unless the state changes.
    At(Time),
    /// No member waits.
    Idle,
}

/// Permission to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grant {
    /// The flow that may send.
    pub flow: FlowIndex,
    /// Number of charged bytes.
    pub bytes: Bytes,
}

/// An allocation's view of the waiting packets.
pub trait Heads {
    /// Charged bytes of the oldest waiting packet of `member`; `None` if none waits.
    fn head(&self, member: FlowIndex) -> Option<Bytes>;
}

/// The properties of a member that determine its part of the tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Weight relative to the other members; 1 by default, never 0.
    pub weight: u32,
    /// End-to-end round-trip time; `None` until measured.
    pub rtt: Option<Duration>,
}

registry! {
    /// An allocation as a policy names it.
    AllocationSpec, "an allocation", build(profile: &Profile, now: Time) -> Allocation:
    /// Each flow has its own bucket, and shares no tokens.
    Partitioned => partitioned, "partitioned";
    /// One bucket; flows are served in the order of their list.
    Sequential => sequential, "sequential";
    /// One bucket; the flow that has waited longest is served first.
    Fcfs => fcfs, "fcfs";
    /// One bucket; the flow that was served least recently is served first.
    Lru => lru, "lru";
    /// One bucket with a part for each flow, by round-trip time. Flows share unused tokens.
    LogicalPartitions => logical_partitions, "logical-partitions";
    /// One bucket; flows send bytes in proportion to their weights (deficit round robin).
    Drr => drr, "drr";
}
