//! The state of a gateway as reports show it: counters, backlogs, and the limit of each flow.
//!
//! The mechanisms themselves supply all values. No value is copied from the configuration. Reports
//! that `report!` declares are also the JSON of the control socket, the metrics and the tables.

mod classes;
mod control;
mod flows;
mod policies;
mod ports;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use tidegate_core::marking::Marks;
use tidegate_core::packet::Direction;
use tidegate_core::qdisc::{Backlog, QdiscSpec};
use tidegate_core::{ByReason, Count, json_values};

pub use classes::{ClassReport, PromiseReport};
pub use control::ControlReport;
pub use flows::{FlowReport, Limit, TunnelReport};
pub use policies::{AckControlReport, AggregateReport, Triggers};
pub use ports::{Bypassed, PortCount};

/// The state of a gateway at one instant.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of policy sets installed.
    pub generation: u64,
    /// Packets and bytes received, by direction.
    pub received: [Count; 2],
    /// Packets and bytes transmitted, by direction.
    pub transmitted: [Count; 2],
    /// Packets inside the gateway now.
    pub held: u32,
    /// Packets that wait for the access link, by direction.
    pub link: [Backlog; 2],
    /// Mechanisms of the link, by direction.
    pub link_mechanisms: [Mechanisms; 2],
    /// Packets that the marking predictor of the link's queue, or of its shared buffer, has marked
    /// and dropped, by direction. `None` for a queue without marking.
    pub link_marking: [Option<Marks>; 2],
    /// Control traffic (ARP, DHCP, routing) on the access link, by direction. `None` before its
    /// first packet.
    pub control: [Option<ControlReport>; 2],
    /// Packets dropped, by reason.
    pub drops: ByReason,
    /// Packets marked "congestion experienced" (CE), by reason.
    pub marks: ByReason,
    /// Packets that ended inside the gateway without being dropped: ACKs stored as records, ACKs
    /// superseded by a newer one, and packets terminated at a trunk.
    pub absorbed: u64,
    /// Packets created by the gateway: ACKs rebuilt from records, ACKs that acknowledge a part of a
    /// held ACK, and packets of trunks.
    pub made: u64,
    /// Fragments that arrived without their first fragment, by direction. Their ports are unknown.
    pub fragments_without_first: [u64; 2],
    /// Flows in the table.
    pub flows: u32,
    /// Flows without a table entry because the table was full.
    pub untracked: u64,
    /// The first few flows whose senders now transmit more than their ACKs request.
    pub unresponsive: Vec<UnresponsiveFlow>,
    /// Aggregates that have seen a packet, one for each policy and direction, in the policies'
    /// order of precedence.
    pub aggregates: Vec<AggregateReport>,
}

/// Name of a mechanism, as a policy file writes it.
pub type MechanismName = Cow<'static, str>;

/// Mechanisms of a policy, of a class or of the link. `None` for a mechanism that it does not have.
///
/// The names come from the registries, so that a registered mechanism needs no further line here.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Mechanisms {
    /// Scheduler of the classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<MechanismName>,
    /// Queue discipline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<MechanismName>,
    /// Allocation, which shares a profile between flows or hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<MechanismName>,
    /// Marking of the queue, or of the buffer that all classes share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marking: Option<MechanismName>,
    /// ACK control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_control: Option<MechanismName>,
}

json_values!(Mechanisms);

impl Mechanisms {
    /// Each kind of mechanism with the name of the mechanism. The name is empty for `None`.
    #[must_use]
    pub fn by_kind(&self) -> [(&'static str, &str); 5] {
        let Self { scheduler, queue, allocation, marking, ack_control } = self;
        [
            ("scheduler", scheduler),
            ("queue", queue),
            ("allocation", allocation),
            ("marking", marking),
            ("ack_control", ack_control),
        ]
        .map(|(kind, name)| (kind, name.as_deref().unwrap_or_default()))
    }

    /// The queue discipline `queue`, with its marking.
    pub(crate) fn of_queue(queue: &QdiscSpec) -> Self {
        Self {
            queue: Some(queue.name().into()),
            marking: queue.marking().map(|it| it.name().into()),
            ..Self::default()
        }
    }
}

/// A flow whose sender transmits more than its ACKs request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnresponsiveFlow {
    /// Address and port of the sender.
    pub src: String,
    /// Address and port of the receiver.
    pub dst: String,
    /// Direction of the flow's data.
    pub direction: Direction,
    /// Policy of the flow.
    pub policy: String,
}
