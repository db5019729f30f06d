//! Reports of a gateway about itself: the running state, never the intended one.

use std::ops::AddAssign;

use serde::Serialize;

use crate::class::{Sent, Terms};
use crate::marking::Marks;
use crate::packet::Direction;
use crate::qdisc::Backlog;
use crate::scheduler::{Delays, Term};
use crate::{ByReason, Rate};

/// The state of a gateway at one instant.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of policy sets installed.
    pub generation: u64,
    /// Packets and bytes received, by direction.
    pub received: [Count; 2],
    /// Packets and bytes transmitted, by direction.
    pub transmitted: [Count; 2],
    /// Packets inside.
    pub held: u32,
    /// Packets that wait for the access link, by direction.
    pub link: [Backlog; 2],
    /// Packets marked and dropped by the marking of the link's queue or of its shared buffer, by direction. `None`
    /// without a marking there.
    pub link_marking: [Option<Marks>; 2],
    /// Control traffic of the access link, by direction. `None` before its first packet.
    pub control: [Option<ControlReport>; 2],
    /// Packets dropped, by reason.
    pub drops: ByReason,
    /// Packets marked "congestion experienced", by reason.
    pub marks: ByReason,
    /// Packets consumed: ACKs stored as records, ACKs superseded by a newer one, and packets
    /// terminated at a trunk.
    pub absorbed: u64,
    /// Packets made: ACKs rebuilt from records, parts of ACKs, and packets of trunks.
    pub made: u64,
    /// Fragments whose first fragment is unknown, by direction.
    pub fragments_without_first: [u64; 2],
    /// Flows in the table.
    pub flows: u32,
    /// Flows that found the table full.
    pub untracked: u64,
    /// The first few flows that do not respond to their ACKs now.
    pub unresponsive: Vec<UnresponsiveFlow>,
    /// One for each policy and direction that has seen a packet, in the order of precedence.
    pub aggregates: Vec<AggregateReport>,
}

/// Packets and their bytes as frames. A super-packet is one packet with the bytes of all its frames on the wire.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    /// Counts one packet of `bytes`.
    pub fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// A flow whose sender transmits more than its ACKs request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnresponsiveFlow {
    /// Address and port of the sender.
    pub src: String,
    /// Address and port of the receiver.
    pub dst: String,
    /// Direction of its data.
    pub direction: Direction,
    /// Policy of the flow.
    pub policy: String,
}

/// The state of an aggregate.
#[derive(Clone, Debug)]
pub struct AggregateReport {
    /// The policy it belongs to.
    pub policy: String,
    /// Direction of its packets.
    pub direction: Direction,
    /// Flows that are members now.
    pub flows: u32,
    /// Packets that arrived.
    pub offered: Count,
    /// Packets that departed, in profile if the policy has a profile.
    pub conforming: Count,
    /// Packets that departed out of profile (policed and marked).
    pub exceeding: Count,
    /// Packets dropped.
    pub drops: ByReason,
    /// Packets marked "congestion experienced".
    pub marks: ByReason,
    /// Packets that the marking of the policy's queue marked and dropped. `None` without a marking.
    pub marking: Option<Marks>,
    /// Backlog now.
    pub backlog: Backlog,
    /// Largest backlog so far, in bytes.
    pub peak_backlog: u64,
    /// Total waiting time of departed packets in nanoseconds.
    pub waited_ns: u64,
    /// Packets that departed more than 2 ms after they, or packets sent together with them,
    /// conformed.
    pub late: u64,
    /// Number of checks for departures by each trigger.
    pub triggers: Triggers,
    /// ACK control of its senders. `None` for none.
    pub ack_control: Option<&'static str>,
    /// Counters of the ACKs that return to its senders, and the number of held ones.
    pub acks: crate::ack::Counts,
    /// Number of flows whose senders do not respond to their ACKs now.
    pub unresponsive: u32,
    /// Mean rate of its profile, if it has one.
    pub mean: Option<Rate>,
}

/// State of the control traffic of a link in one direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ControlReport {
    /// Direction of its packets.
    pub direction: Direction,
    /// The rate that the link reserves for it.
    pub allowance: Rate,
    /// Number of packets that arrived.
    pub arrived: u64,
    /// Packets and charged bytes that departed, and their bytes beyond the allowance.
    pub sent: Sent,
    /// Waiting packets and bytes.
    pub backlog: Backlog,
    /// Number of packets dropped.
    pub drops: u64,
}

impl ControlReport {
    /// No control traffic yet.
    pub(crate) fn new(direction: Direction, allowance: Rate) -> Self {
        Self {
            direction,
            allowance,
            arrived: 0,
            sent: Sent::default(),
            backlog: Backlog::default(),
            drops: 0,
        }
    }
}

/// The state of a class in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// Its parent. `None` for the link.
    pub parent: Option<String>,
    /// Direction of its packets.
    pub direction: Direction,
    /// Its rights now.
    pub terms: Terms,
    /// Packets and bytes that it has sent.
    pub sent: Sent,
    /// Backlog of the class and its parts.
    pub backlog: Backlog,
    /// Packets dropped at the class and its parts.
    pub drops: u64,
    /// Packets that the marking of the class's queue marked and dropped. `None` without a marking.
    pub marking: Option<Marks>,
    /// Queueing delays of the packets it has sent, if its scheduler records them.
    pub delays: Option<Delays>,
    /// Its promises and how they were kept, if its scheduler records that.
    pub promises: Vec<Promise>,
}

/// A promise to a class, with its measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// The term that promises it.
    pub term: Term,
    /// The class that a ratio refers to.
    pub of: Option<String>,
    /// The promised value in the [unit](Term::unit) of its term.
    pub promised: f64,
    /// The measured value. `None` before the first measurement.
    pub kept: Option<f64>,
    /// Number of violations of the promise.
    pub violations: u64,
    /// Number of times that it was relaxed because other promises have precedence.
    pub relaxed: u64,
}

/// Number of checks for departures by trigger (`aggregates`, section 6).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Triggers {
    /// A packet of its own arrived.
    pub arrival: u64,
    /// The shaping timer.
    pub timer: u64,
    /// An ACK that opens the window of a flow with a backlog.
    pub ack: u64,
    /// An ACK of a flow without a backlog.
    pub idle_ack: u64,
    /// A duplicate ACK.
    pub duplicate_ack: u64,
    /// A new connection of the same policy.
    pub connection: u64,
}

/// The state of a flow, as seen in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    /// Sender, as address and port.
    pub src: String,
    /// Receiver, as address and port.
    pub dst: String,
    /// VLAN identifiers of its frames, outermost first. At most two are read.
    pub vlans: Vec<u16>,
    /// Unencrypted tunnels around it, outermost first.
    pub tunnels: Vec<TunnelReport>,
    /// IP protocol number.
    pub protocol: u8,
    /// `up` or `down`.
    pub direction: &'static str,
    /// The policy it belongs to, if any.
    pub policy: Option<String>,
    /// Its weight there.
    pub weight: u32,
    /// Packets that arrived.
    pub offered: Count,
    /// Frame bytes of the flow that wait now: at its policy, a trunk, or the link.
    pub waiting_bytes: u64,
    /// Held ACKs of the flow's data.
    pub held_acks: u32,
    /// The reason why the flow does not send more.
    pub limit: Limit,
    /// Smoothed round-trip time between the gateway and the LAN host, in microseconds.
    pub rtt_lan_us: Option<u64>,
    /// Smoothed round-trip time between the gateway and the WAN host, in microseconds.
    pub rtt_wan_us: Option<u64>,
    /// Segments with data that was seen before.
    pub retransmissions: u64,
    /// Extent of the tracker's knowledge: `full`, `no-window-scale`, `queue-only`.
    pub tracking: &'static str,
    /// Milliseconds since its last packet.
    pub idle_ms: u64,
    /// Its window did not fall after marks of a queue with a marking.
    pub ignores_marks: bool,
}

/// A tunnel around a flow. The ports are those of the first packet of any flow through the tunnel.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct TunnelReport {
    /// Tunnel protocol, such as "vxlan".
    pub kind: &'static str,
    /// The VNI of VXLAN and GENEVE, or the key of GRE.
    pub id: Option<u32>,
    /// Sender of the outer packets.
    pub src: String,
    /// Receiver of the outer packets.
    pub dst: String,
    /// VLAN identifier of the Ethernet frames inside the tunnel, if they have a tag.
    pub vlan: Option<u16>,
}

/// The limit of a flow in one direction, in the order of the checks.
///
/// The first four mean that packets of the flow wait, and that this queue holds most of its bytes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub enum Limit {
    /// Queue of its policy.
    Policy {
        /// Frame bytes of the flow in this queue, or of all flows that are `shared`.
        bytes: u64,
        /// The queue has one line for the flow and further flows, such as flows of its host.
        shared: bool,
    },
    /// The queue of a trunk, for credit.
    Trunk {
        /// The trunk's name.
        name: String,
        /// Frame bytes of the flow in this queue.
        bytes: u64,
    },
    /// The queue of a class of the link.
    Class {
        /// The class's name.
        name: String,
        /// Frame bytes of the flow in this queue.
        bytes: u64,
    },
    /// Queue of a link without classes.
    Link {
        /// Frame bytes of the flow in this queue.
        bytes: u64,
    },
    /// The policy holds ACKs of the flow's data, and no packet waits.
    HeldAcks {
        /// Number of held ACKs.
        acks: u32,
    },
    /// The flow carries ACKs, and the policy of the other direction holds some. No packet waits.
    IsHeld {
        /// The policy of the other direction.
        policy: String,
        /// Number of held ACKs.
        acks: u32,
    },
    /// The receiver's window has less room than a segment.
    Receiver,
    /// The policy has reduced the window, and the reduced window has less room than a segment.
    Window,
    /// The sender has sent no packet for a second.
    Silent,
    /// The sender, or a queue elsewhere: the gateway and the receiver have room for more.
    Sender,
}
