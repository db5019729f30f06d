//! Allocations: schemes that share the tokens of an aggregate between its flows.
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
use crate::packet::Member;
use crate::registry::registry;
use crate::{Bytes, Time};

/// A way to share the tokens of an aggregate among its flows.
///
/// It owns the aggregate's bucket (mean rate and burst; the peak rate is the conditioner's). A flow
/// [`join`](Self::join)s before anything else is said of it, and [`leave`](Self::leave)s last.
pub trait Allocation: Send {
    /// Changes the profile; the tokens there are stay, as far as there is room.
    fn set_profile(&mut self, now: Time, profile: &Profile);

    /// A flow that will ask for tokens.
    fn join(&mut self, now: Time, member: Member, share: Share);

    /// What is known of a member has changed.
    fn update(&mut self, now: Time, member: Member, share: Share);

    /// A member that will not ask again; what it held goes to the others.
    fn leave(&mut self, now: Time, member: Member);

    /// Takes `len` tokens for a packet of `member` at once, or takes nothing: policing.
    ///
    /// A member that was waiting may no longer be. Call [`wait`](Self::wait) if it has more packets.
    fn try_take(&mut self, now: Time, member: Member, len: Bytes) -> bool;

    /// `member` has packets waiting. Saying so again changes nothing.
    fn wait(&mut self, now: Time, member: Member);

    /// Tokens of the aggregate at `now`, whoever may take them.
    fn tokens(&self, now: Time) -> Bytes;

    /// Returns `true` if a flow may use tokens that other flows leave unused.
    fn lends(&self) -> bool {
        true
    }

    /// Whose oldest packet leaves next; its tokens are taken.
    ///
    /// Call until it is no longer [`Turn::Grant`]. A member stays waiting until `heads` has nothing
    /// of it.
    fn grant(&mut self, now: Time, heads: &dyn Heads) -> Turn;
}

/// The answer to "who goes next?".
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turn {
    /// This flow may send this much now. The bytes may be a packet, an ACK's worth of data, or
    /// window.
    Grant(Grant),
    /// Nobody before this time, if nothing changes until then.
    At(Time),
    /// Nobody waits.
    Idle,
}

/// Leave to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grant {
    /// Who may send.
    pub member: Member,
    /// How much, in charged bytes.
    pub bytes: Bytes,
}

/// What an allocation may know of the packets that wait.
pub trait Heads {
    /// Charged bytes of the oldest waiting packet of `member`; `None` if none waits.
    fn head(&self, member: Member) -> Option<Bytes>;
}

/// What decides a member's part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Its part relative to the other members; 1 unless the policy says otherwise, never 0.
    pub weight: u32,
    /// Its round-trip time end to end; `None` until measured.
    pub rtt: Option<Duration>,
}

registry! {
    /// An allocation as a policy names it.
    AllocationSpec, "an allocation", build(profile: &Profile, now: Time) -> Allocation:
    /// Every flow its own bucket, nothing shared.
    Partitioned => partitioned, "partitioned";
    /// One bucket; flows in the order they joined.
    Sequential => sequential, "sequential";
    /// One bucket; who has waited longest goes first.
    Fcfs => fcfs, "fcfs";
    /// One bucket; whom a token was given least recently goes first.
    Lru => lru, "lru";
    /// One bucket with a part for each flow, by round-trip time; what is unused is shared.
    LogicalPartitions => logical_partitions, "logical-partitions";
    /// One bucket; byte for byte in turn.
    Drr => drr, "drr";
}
