//! Reports of policies: one for each policy and direction.

use super::{MechanismName, Mechanisms};
use crate::ack::Counts;
use crate::marking::Marks;
use crate::packet::Direction;
use crate::qdisc::Backlog;
use crate::reports::Parts;
use crate::{ByReason, Count, Rate, report};

report! {
    /// The state of an aggregate, which is a policy in one direction.
    pub AggregateReport {
        /// Name of the policy.
        policy: String => { column "policy" };
        /// Direction of its packets.
        direction: Direction => { column "direction" };
        /// Mechanisms in force for the aggregate.
        mechanisms: Mechanisms;
        /// Mean rate of the profile, in bit/s. `None` without a profile.
        mean as "mean_bps": Option<Rate> => { column "mean" };
        /// Flows of the policy.
        flows: u32 => { gauge "tidegate_policy_flows", column "flows" };
        /// Packets that arrived.
        offered: Count => {
            counter "tidegate_policy_offered_bytes_total" of bytes
                "Bytes that arrived for the policy.",
            column "in" of bytes,
        };
        /// Packets that departed, in profile if the policy has a profile.
        conforming: Count => {
            counter "tidegate_policy_conforming_bytes_total" of bytes
                "Bytes of the policy that departed, in profile if the policy has a profile.",
        };
        /// Packets that departed out of profile (policed and marked).
        exceeding: Count => {
            counter "tidegate_policy_exceeding_bytes_total" of bytes
                "Bytes of the policy that departed out of profile.",
            counter "tidegate_policy_transmitted_packets_total"
                "Packets of the policy that departed." = |it| it.departed().packets(),
            column "out" = |it| it.departed().bytes(),
        };
        /// Packets that wait.
        backlog as "waiting": Backlog => {
            gauge "tidegate_policy_waiting_bytes" of bytes "Bytes of the policy that wait.",
            column "waiting" of bytes,
        };
        /// Largest backlog so far, in bytes.
        peak_backlog as "peak_waiting_bytes": u64;
        /// Mean waiting time of departed packets, in microseconds.
        mean_wait_us: u64, in Micros => { column "wait" };
        /// Total waiting time of departed packets of the policy.
        waited_ns: u64, in Nanos => { counter "tidegate_policy_wait_seconds_total" };
        /// Packets of the policy that departed more than 2 ms later than their profile allowed.
        late: u64 => { counter "tidegate_policy_late_packets_total" };
        /// Packets of the policy that were dropped.
        drops: ByReason => { counter "tidegate_policy_dropped_packets_total", column "drops" };
        /// Packets of the policy that were marked congestion experienced (ECN).
        marks: ByReason => { counter "tidegate_policy_marked_packets_total" };
        /// Packets that the marking of the policy's queue has marked and dropped. `None` without a
        /// marking.
        marking: Option<Marks>;
        /// Checks for departures, by the event that triggered the check.
        triggers: Triggers;
        /// ACK control of the policy's senders. `None` without ACK control.
        ack_control earlier "signal": Option<AckControlReport>;
    }
    apart {
        /// Counters of the ACKs that return to the policy's senders, also of ACK controls that the
        /// policy no longer has.
        acks: Counts;
    }
}

impl AggregateReport {
    /// Packets that departed.
    #[must_use]
    pub fn departed(&self) -> Count {
        let mut all = self.conforming;
        all += self.exceeding;
        all
    }
}

report! {
    /// ACK control of an aggregate. All counters are of the ACKs that return to the aggregate's
    /// senders.
    pub AckControlReport {
        /// Name of the ACK control.
        kind: MechanismName => { column "ACK control" };
        /// Mean hold of released ACKs, in microseconds.
        mean_hold_us: u64;
        /// Flows whose senders send more data than their ACKs request.
        unresponsive: u32 => { gauge "tidegate_policy_unresponsive_flows" };
    }
    flatten {
        /// Counters of its ACKs.
        counts: Counts;
    }
}

report! {
    /// Checks for departures at an aggregate, by the event that triggered the check.
    ///
    /// Source: `aggregates`, section 6 (packets depart on arrivals, timers and ACKs).
    #[derive(Copy, Eq)]
    pub Triggers {
        /// An ACK opened the window of a flow that has waiting packets.
        ack: u64;
        /// A packet of the aggregate arrived.
        arrival: u64;
        /// A new connection of the same policy began.
        connection: u64;
        /// A duplicate ACK arrived.
        duplicate_ack as "duplicate-ack": u64;
        /// An ACK arrived for a flow without waiting packets.
        idle_ack as "idle-ack": u64;
        /// The shaping timer fired.
        timer: u64;
    }
}
