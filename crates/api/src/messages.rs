//! Messages of the control socket, shared by the daemon, the commands and `--json`.
//!
//! Some messages are reports of the core crate, sent without conversion. The declaration of a report
//! also names the metrics and the table columns that show its fields.

mod change;
mod classes;
mod explain;
mod trunks;

pub use change::Change;
pub use classes::{Class, ClassChange, ClassDelays, Classes, NewClass, Promise};
pub use explain::{Candidate, Charged, Explanation, Question};
pub use trunks::{Encapsulation, OtherEnd, Trunk, TrunkWeight, Trunks};

pub use tidegate_core::Count;
pub use tidegate_core::marking::Marks as Marking;
pub use tidegate_gateway::report::{
    AckControlReport as AckControl, AggregateReport as Aggregate, Bypassed,
    ControlReport as Control, FlowReport as Flow, Mechanisms, PortCount,
};

use serde::{Deserialize, Serialize};
use tidegate_config::Part;
use tidegate_core::reports::{Quantify, ReportValue};
use tidegate_core::{ByReason, Reason, json_values, report};

report! {
    /// The state of the running gateway.
    pub Status {
        /// The version of the running program.
        version: String;
        /// Time since the start.
        uptime_ms: u64, in Millis => { gauge "tidegate_uptime_seconds" };
        /// The policy file in force.
        file: String;
        /// The policy file that a restart reads: the file that was named when the gateway was started.
        started_file: String;
        /// State of the gateway's ports.
        ports: Ports => {
            gauge "tidegate_fail_to_wire_enabled"
                "1 if the kernel lets frames bypass a gateway that has ended."
                = |it| (it.ports.fail_to_wire == FailToWire::Always).quantity(),
        };
        /// Policy sets installed since the start.
        generation: u64 => { gauge "tidegate_policy_generation" };
        /// Milliseconds until the previous policies return, unless an operator confirms the new ones.
        /// None if nothing waits for confirmation.
        unconfirmed_ms: Option<u64>;
        /// Frames bypass the gateway because there is nothing to manage.
        passing: bool;
        /// Faults that need attention. Any of them makes the state "degraded".
        alarms: Vec<String> => {
            gauge "tidegate_alarm_active" "1 if something needs attention."
                = |it| (!it.alarms.is_empty()).quantity(),
        };
        /// From the LAN to the WAN.
        up: LinkDirection;
        /// From the WAN to the LAN.
        down: LinkDirection;
        /// Packets in the gateway.
        held: u32 => { gauge "tidegate_held_packets" };
        /// Packets dropped.
        drops: ByReason => { counter "tidegate_dropped_packets_total" };
        /// ACKs superseded by the next ACK of their flow. They are no losses.
        redundant_acks: u64 => {
            counter "tidegate_thinned_packets_total" = |it| {
                let reason = Reason::RedundantAck.name().to_owned();
                ReportValue::Each("reason", vec![(reason, it.redundant_acks)])
            },
        };
        /// Packets marked congestion experienced (ECN).
        marks: ByReason => { counter "tidegate_marked_packets_total" };
        /// Entries in the flow table.
        flows: u32 => { gauge "tidegate_flows" };
        /// Flows without an entry, because the flow table was full.
        untracked: u64 => { counter "tidegate_untracked_flows_total" };
        /// Fragments whose first fragment was not known.
        fragments_without_first: u64 => { counter "tidegate_fragments_without_first_total" };
        /// Times that the loop was so late that arrived frames were too old to send.
        hangs: u64 => { counter "tidegate_hangs_total" };
        /// Longest processor time of the data plane for one command, or for one slice of a policy
        /// change with the packets of the same iteration, since the start.
        occupied_us: u64, in Micros => { gauge "tidegate_longest_occupation_seconds" };
        /// The aggregates that have seen a packet, in the order of precedence. An aggregate is a policy
        /// in one direction.
        aggregates: Vec<Aggregate>;
        /// Policies that have seen no packet in any direction, in the order of the policy file.
        idle_policies: Vec<String>;
    }
}

/// State of the ports.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Ports {
    /// Interface towards the users.
    pub lan: String,
    /// Interface towards the Internet.
    pub wan: String,
    /// The kind of sockets at the ports, "af-xdp" or "af-packet", with its mode.
    pub backend: String,
    /// Conditions under which the kernel passes frames from port to port without the gateway.
    pub fail_to_wire: FailToWire,
    /// Notes about the choice of the backend.
    pub notes: Vec<String>,
}

json_values!(Ports);

/// Conditions under which the kernel passes frames from port to port without the gateway.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailToWire {
    /// While the gateway hangs, and after it has ended for any reason.
    Always,
    /// Never: no frame passes without the gateway.
    #[default]
    Never,
}

impl FailToWire {
    /// A description in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Always => "on, whether the gateway hangs or has ended",
            Self::Never => "none: without the gateway nothing passes",
        }
    }
}

report! {
    /// One direction of the link.
    pub LinkDirection {
        /// Packets that the gateway received. Together with `bypassed` and the losses in `port`, this
        /// is the number of packets that the interface received.
        received: Count => {
            counter "tidegate_received_bytes_total" of bytes "Bytes received.",
            counter "tidegate_received_packets_total" of packets "Packets received.",
        };
        /// Packets transmitted.
        transmitted: Count => {
            counter "tidegate_transmitted_bytes_total" of bytes "Bytes sent.",
            counter "tidegate_transmitted_packets_total" of packets "Packets sent.",
        };
        /// Packets and bytes that wait for the access link.
        waiting: Count => {
            gauge "tidegate_link_waiting_bytes" of bytes "Bytes that wait for the access link.",
        };
        /// Scheduler of the link, or its queue discipline and marking. Empty without a rate.
        mechanisms: Mechanisms;
        /// Counters of the marking of the link's queue, or of the buffer that all classes share.
        /// Absent without a marking.
        marking: Option<Marking>;
        /// Control traffic, such as ARP and routing protocols. Absent on a link without a rate, and
        /// before the first such packet.
        control: Option<Control>;
        /// Losses of the receiving port. Absent without a port.
        port: Option<PortCount>;
        /// Frames that the kernel passed without the gateway, by reason. Absent without fail-to-wire.
        bypassed: Option<Bypassed>;
    }
}

/// A list of flows.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Flows {
    /// All reported flows.
    pub flows: Vec<Flow>,
}

/// A policy file that is sent to the gateway.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Proposal {
    /// Name of the policy file.
    pub file: String,
    /// Text of the policy file.
    pub text: String,
    /// The files that the policy file includes.
    #[serde(default)]
    pub included: Vec<Part>,
    /// Milliseconds within which an operator must confirm the file. None to skip the confirmation.
    #[serde(default)]
    pub confirm_ms: Option<u64>,
    /// Also saves the file as the policy file that a restart reads. `file` is then ignored.
    #[serde(default)]
    pub save: bool,
}

/// The difference between a policy file and the running configuration.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Plan {
    /// The changes.
    pub changes: Vec<Change>,
    /// Classes that were changed while the gateway ran, and would return to their terms in the
    /// file.
    #[serde(default)]
    pub undone: Vec<String>,
}

/// Result of `apply`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Applied {
    /// Number of the installed policy set.
    pub generation: u64,
    /// The changes.
    pub changes: Vec<Change>,
    /// Classes that were changed while the gateway ran, and have returned to their terms in the
    /// file.
    #[serde(default)]
    pub undone: Vec<String>,
    /// Milliseconds within which an operator must confirm the change. None if no confirmation is
    /// needed.
    pub confirm_ms: Option<u64>,
    /// The file that a restart reads, if this is not the applied file.
    #[serde(default)]
    pub restart_reads: Option<String>,
    /// The policy file to which the applied text was saved.
    #[serde(default)]
    pub saved: Option<String>,
}

/// The sources of policies.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Sources {
    /// The sources, sorted by name.
    pub sources: Vec<Source>,
}

/// The state of a source.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Source {
    /// The name of the source.
    pub name: String,
    /// The kind of repository, such as "etcd".
    pub kind: String,
    /// The state: "in force"; "starting" before its first set; "new" while its set is being put in
    /// force; "waits" for `tidegate apply` or `tidegate confirm`; "refused" if its newest set
    /// cannot be put in force. For a source with a fault, this is the kind of the fault, such as
    /// "unreachable".
    pub state: String,
    /// The revision in force.
    pub revision: Option<String>,
    /// The newest revision that the source has delivered.
    pub newest: Option<String>,
    /// Seconds since the source delivered the newest revision.
    pub delivered_s: Option<u64>,
    /// Seconds since the fault began, or since the newest set was refused.
    pub failing_s: Option<u64>,
    /// The fault, if any.
    pub error: Option<String>,
    /// What the operator can do about the fault.
    pub help: Option<String>,
}

/// How to put the newest set of a source in force.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct OfSource {
    /// Milliseconds within which an operator must confirm the set. None to skip the confirmation.
    #[serde(default)]
    pub confirm_ms: Option<u64>,
}
