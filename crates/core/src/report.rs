//! The state of a gateway as reports show it: counters, backlogs, and the limit of each flow.
//!
//! The mechanisms themselves supply all values. No value is copied from the configuration. Reports
//! that `report!` declares are also the JSON of the control socket, the metrics and the tables.

mod classes;
mod control;
mod policies;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::marking::Marks;
use crate::packet::Direction;
use crate::qdisc::{Backlog, QdiscSpec};
use crate::{ByReason, Count, told};

pub use classes::{ClassReport, PromiseReport};
pub use control::ControlReport;
pub use policies::{AckControlReport, AggregateReport, Triggers};

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

told!(Mechanisms);

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

/// The state of a flow, as seen in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    /// Address and port of the sender.
    pub src: String,
    /// Address and port of the receiver.
    pub dst: String,
    /// VLAN identifiers of the flow's frames, outermost first. At most two are read.
    pub vlans: Vec<u16>,
    /// Unencrypted tunnels that carry the flow, outermost first.
    pub tunnels: Vec<TunnelReport>,
    /// IP protocol number.
    pub protocol: u8,
    /// `up` or `down`.
    pub direction: &'static str,
    /// The policy of the flow, if any.
    pub policy: Option<String>,
    /// Weight of the flow in its policy.
    pub weight: u32,
    /// Packets that arrived.
    pub offered: Count,
    /// Frame bytes of the flow that wait now at its policy, at a trunk or at the link.
    pub waiting_bytes: u64,
    /// Number of held ACKs that acknowledge the flow's data.
    pub held_acks: u32,
    /// The reason why the flow does not send more.
    pub limit: Limit,
    /// Smoothed round-trip time between the gateway and the LAN host, in microseconds.
    pub rtt_lan_us: Option<u64>,
    /// Smoothed round-trip time between the gateway and the WAN host, in microseconds.
    pub rtt_wan_us: Option<u64>,
    /// Segments with bytes that the gateway had seen before.
    pub retransmissions: u64,
    /// TCP state known to the gateway: `full`, `no-window-scale` (no SYN was seen), or `queue-only`
    /// (not TCP, or only one direction was seen).
    pub tracking: &'static str,
    /// Milliseconds since the flow's last packet.
    pub idle_ms: u64,
    /// The flow's window did not fall after the gateway marked its packets.
    pub ignores_marks: bool,
}

/// A tunnel that carries a flow. The ports in `src` and `dst` are those of the first packet of any
/// flow in the tunnel.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct TunnelReport {
    /// Tunnel protocol, such as "vxlan".
    pub kind: &'static str,
    /// The VNI of VXLAN and GENEVE, or the key of GRE.
    pub id: Option<u32>,
    /// Address and port of the sender of the outer packets.
    pub src: String,
    /// Address and port of the receiver of the outer packets.
    pub dst: String,
    /// VLAN identifier of the Ethernet frames inside the tunnel, if they have a tag.
    pub vlan: Option<u16>,
}

/// The reason why a flow does not send faster in one direction. The variants are checked in this
/// order.
///
/// The first four variants name the queue with most of the flow's waiting bytes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub enum Limit {
    /// Packets wait in the queue of the policy.
    Policy {
        /// Frame bytes of the flow in this queue. If `shared`, the bytes of all flows in its
        /// subqueue.
        bytes: u64,
        /// The subqueue holds further flows, such as other flows of the same host.
        shared: bool,
    },
    /// Packets wait in the queue of a trunk for credit.
    Trunk {
        /// The trunk's name.
        name: String,
        /// Frame bytes of the flow in this queue.
        bytes: u64,
    },
    /// Packets wait in the queue of a class of the link.
    Class {
        /// The class's name.
        name: String,
        /// Frame bytes of the flow in this queue.
        bytes: u64,
    },
    /// Packets wait in the queue of a link without classes.
    Link {
        /// Frame bytes of the flow in this queue.
        bytes: u64,
    },
    /// No packet waits, and the policy holds ACKs that acknowledge the flow's data.
    HeldAcks {
        /// Number of held ACKs.
        acks: u32,
    },
    /// No packet waits. The flow carries ACKs, and the policy of the other direction holds some of
    /// them.
    IsHeld {
        /// Policy that holds the ACKs.
        policy: String,
        /// Number of held ACKs.
        acks: u32,
    },
    /// The remaining window of the receiver is less than one segment.
    Receiver,
    /// The policy has reduced the window, and the remainder is less than one segment.
    Window,
    /// The sender has sent no packet for more than a second.
    Silent,
    /// The sender itself, or a queue elsewhere on the path. The gateway and the receiver would
    /// permit more.
    Sender,
}
