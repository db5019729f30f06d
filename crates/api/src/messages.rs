//! Messages of the control socket, shared by the daemon, the commands and `--json`.

mod change;
mod classes;
mod explain;
mod trunks;

pub use change::Change;
pub use classes::{Class, ClassChange, ClassDelays, Classes, NewClass, Promise};
pub use explain::{Candidate, Charged, Explanation, Question};
pub use trunks::{Encapsulation, OtherEnd, Trunk, TrunkWeight, Trunks};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::ack::Counts;
pub use tidegate_core::report::Mechanisms;

use tidegate_config::Part;

/// The state of the running gateway.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Status {
    /// The version of the running program.
    pub version: String,
    /// Milliseconds since the gateway started.
    pub uptime_ms: u64,
    /// The policy file in force.
    pub file: String,
    /// The policy file that a restart reads: the file that was named when the gateway was started.
    #[serde(default)]
    pub started_file: String,
    /// State of its ports.
    pub ports: Ports,
    /// Number of policy sets that the gateway has installed.
    pub generation: u64,
    /// Milliseconds until the previous policies return, unless an operator confirms the new ones.
    /// None if nothing waits for confirmation.
    pub unconfirmed_ms: Option<u64>,
    /// Frames bypass the gateway because there is nothing to manage.
    pub passing: bool,
    /// Faults that need attention. Any of them makes the state "degraded".
    pub alarms: Vec<String>,
    /// From the LAN to the WAN.
    pub up: LinkDirection,
    /// From the WAN to the LAN.
    pub down: LinkDirection,
    /// Packets in the gateway: in queues, or held.
    pub held: u32,
    /// Packets dropped, by reason; only reasons that occurred.
    pub drops: BTreeMap<String, u64>,
    /// ACKs dropped because the next ACK of their flow supersedes them (drop reason
    /// "redundant-ack"). They are no losses.
    #[serde(default)]
    pub redundant_acks: u64,
    /// Packets marked "congestion experienced" (RFC 3168), by reason; only reasons that occurred.
    pub marks: BTreeMap<String, u64>,
    /// Flows in the flow table.
    pub flows: u32,
    /// New flows that found the flow table full.
    pub untracked: u64,
    /// Fragments that arrived without the first fragment of their packet.
    #[serde(default)]
    pub fragments_without_first: u64,
    /// Number of times that the loop was so late that packets had become too old to send.
    pub hangs: u64,
    /// The longest processor time in us, since the start, that one command or one slice of a policy
    /// change took from the data plane. A slice includes the packets that the loop handles together
    /// with it.
    pub occupied_us: u64,
    /// The aggregates that have seen a packet, in the order of precedence. An aggregate is a policy
    /// in one direction.
    pub aggregates: Vec<Aggregate>,
    /// Policies that have seen no packet in any direction, in the order of the policy file.
    #[serde(default)]
    pub idle_policies: Vec<String>,
}

/// State of the ports.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Ports {
    /// Interface towards the users.
    pub lan: String,
    /// Interface towards the Internet.
    pub wan: String,
    /// "af-xdp" or "af-packet", with its mode.
    pub backend: String,
    /// Conditions under which the kernel passes frames from port to port without the gateway.
    pub fail_to_wire: FailToWire,
    /// Notes about the choice of the backend.
    pub notes: Vec<String>,
}

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

/// One direction of the link.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct LinkDirection {
    /// Packets that the gateway received. Together with `bypassed` and the losses in `port`, this
    /// is the number of packets that the interface received.
    pub received: Count,
    /// Packets transmitted.
    pub transmitted: Count,
    /// Packets and bytes that wait for the access link.
    pub waiting: Count,
    /// Scheduler of the link, or its queue discipline and marking. Empty without a rate.
    #[serde(default)]
    pub mechanisms: Mechanisms,
    /// Counters of the marking of the link's queue, or of the buffer that all classes share. Absent
    /// without a marking.
    #[serde(default)]
    pub marking: Option<Marking>,
    /// Control traffic, such as ARP and routing protocols. Absent on a link without a rate, and
    /// before the first such packet.
    #[serde(default)]
    pub control: Option<Control>,
    /// Losses of the receiving port. Absent without a port.
    pub port: Option<PortCount>,
    /// Frames that the kernel passed without the gateway, by reason. Absent without fail-to-wire.
    pub bypassed: Option<Bypassed>,
}

/// Packets that a marking has marked or dropped since it was attached to its queue, and the flows
/// that it tracks.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Marking {
    /// Packets marked "congestion experienced" (RFC 3168).
    pub marked_packets: u64,
    /// Packets dropped in place of a mark, because they are not ECN-capable.
    pub not_ect_packets: u64,
    /// Packets dropped because the marking found no flow that it could mark.
    pub unmarkable_packets: u64,
    /// Flows whose next rounds the marking projects now.
    #[serde(default)]
    pub tracked_flows: u64,
    /// Bytes of all arrived packets.
    #[serde(default)]
    pub all_bytes: u64,
    /// Bytes of arrived packets whose flows were tracked.
    #[serde(default)]
    pub tracked_bytes: u64,
    /// Factor by which the marking multiplies the projected bytes of tracked flows, to account for
    /// other traffic. 1 if the marking counts other traffic at its own rate.
    #[serde(default)]
    pub rho: f64,
    /// A flow is tracked if it sent at least this number of bytes in the last interval. 0 without a
    /// filter.
    #[serde(default)]
    pub threshold_bytes: u64,
    /// Flows that were tracked during the whole last interval, but sent less than the threshold in
    /// it.
    #[serde(default)]
    pub false_positives: u64,
}

/// Control traffic in one direction of the link.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Control {
    /// The rate in bit/s that the link reserves for control traffic.
    pub allowance_bps: u64,
    /// Transmitted packets, and the bytes that the link was charged for them.
    pub sent: Count,
    /// Bytes transmitted beyond the allowance.
    pub borrowed_bytes: u64,
    /// Packets and bytes in the queue.
    pub waiting: Count,
    /// Packets dropped.
    pub dropped_packets: u64,
}

/// Frames that the kernel passed from this port without the gateway, since the port first had
/// fail-to-wire.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Bypassed {
    /// Passed because the gateway had nothing to manage.
    pub idle: Count,
    /// Passed at the gateway's request: during its start and end, and while it was switched off.
    pub told: Count,
    /// Passed because the gateway's heartbeat had timed out.
    pub silent: Count,
    /// Passed because the gateway was dead, or has no socket for the receive queue.
    pub no_socket: Count,
}

/// Packets, and their length in bytes as frames. A super-packet counts as one packet with the bytes
/// of all its frames on the wire. While it waits, or if it is [`Bypassed`], its headers count once.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Losses and other events of a port.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct PortCount {
    /// Frames dropped by the kernel because the ring was full.
    pub ring_overflows: u64,
    /// Frames that could not be received, and times at which the interface disappeared.
    pub receive_errors: u64,
    /// Send attempts that the interface refused, for the moment or for good.
    pub send_errors: u64,
    /// Frames dropped because the interface refused them.
    #[serde(default)]
    pub refused: u64,
    /// Super-packets split in software because the kernel could not.
    #[serde(default)]
    pub split: u64,
    /// Received frames with unfinished checksums that the gateway could not finish, because they
    /// are too deep in tunnels.
    #[serde(default)]
    pub unfinished: u64,
}

/// The state of an aggregate, which is a policy in one direction.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Aggregate {
    /// Its policy.
    pub policy: String,
    /// "up" or "down".
    pub direction: String,
    /// Queue discipline, allocation, marking and ACK control in force.
    #[serde(default)]
    pub mechanisms: Mechanisms,
    /// Mean rate of its profile, in bits per second.
    pub mean_bps: Option<u64>,
    /// Flows in the aggregate now.
    pub flows: u32,
    /// Packets that arrived.
    pub offered: Count,
    /// Packets that departed. If the policy has a profile: those in profile.
    pub conforming: Count,
    /// Packets that departed out of profile.
    pub exceeding: Count,
    /// Packets that wait.
    pub waiting: Count,
    /// Largest backlog so far, in bytes.
    pub peak_waiting_bytes: u64,
    /// Mean waiting time of departed packets, in microseconds.
    pub mean_wait_us: u64,
    /// Total waiting time of departed packets, in nanoseconds.
    pub waited_ns: u64,
    /// Packets that departed more than 2 ms after they conformed.
    pub late: u64,
    /// Packets dropped, by reason; only reasons that occurred.
    pub drops: BTreeMap<String, u64>,
    /// Packets marked "congestion experienced" (RFC 3168), by reason; only reasons that occurred.
    pub marks: BTreeMap<String, u64>,
    /// Counters of the marking of the policy's queue. Absent without a marking.
    #[serde(default)]
    pub marking: Option<Marking>,
    /// Number of times that each trigger made the shaper look for packets to send.
    pub triggers: BTreeMap<String, u64>,
    /// ACK control for the senders of this aggregate. Absent if the policy has none.
    #[serde(default)]
    pub ack_control: Option<AckControl>,
    /// Earlier name of `ack_control`. A later version removes it.
    #[serde(default)]
    pub signal: Option<AckControl>,
}

/// ACK control of an aggregate. All counters are of the ACKs that return to the aggregate's
/// senders.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AckControl {
    /// "postack" or "tcr".
    pub kind: String,
    /// Mean hold of released ACKs, in microseconds.
    pub mean_hold_us: u64,
    /// Flows whose senders send more data than their ACKs request.
    #[serde(default)]
    pub unresponsive: u32,
    /// Data packets forwarded without ACK control. Their flow is authenticated by TCP-MD5 or
    /// TCP-AO, is seen in one direction only, or has an unresponsive sender. The field `ungoverned`
    /// has the same value.
    #[serde(default)]
    pub uncontrolled: u64,
    /// Further counters, as fields of the same object.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The state of a flow in one direction.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Flow {
    /// Sender, as address and port.
    pub src: String,
    /// Receiver, as address and port.
    pub dst: String,
    /// VLAN identifiers of its frames, outermost first. At most two are read.
    #[serde(default)]
    pub vlans: Vec<u16>,
    /// Unencrypted tunnels around the flow, outermost first.
    #[serde(default)]
    pub tunnels: Vec<Tunnel>,
    /// IP protocol number.
    pub protocol: u8,
    /// "up" or "down".
    pub direction: String,
    /// The policy of the flow, if any.
    pub policy: Option<String>,
    /// The weight of the flow in this policy.
    pub weight: u32,
    /// Packets that arrived.
    pub offered: Count,
    /// Waiting bytes of frames: at the policy, a trunk, a class, and the link.
    pub waiting_bytes: u64,
    /// Held ACKs for the flow's data.
    #[serde(default)]
    pub held_acks: u32,
    /// Smoothed round-trip time between the gateway and the LAN host, in microseconds.
    pub rtt_lan_us: Option<u64>,
    /// Smoothed round-trip time between the gateway and the WAN host, in microseconds.
    pub rtt_wan_us: Option<u64>,
    /// Segments with data that the gateway had seen before.
    pub retransmissions: u64,
    /// What the gateway knows about the flow: "full", "no-window-scale" or "queue-only".
    pub tracking: String,
    /// Milliseconds since the flow's last packet.
    pub idle_ms: u64,
    /// The flow's window did not fall after the gateway had marked its packets.
    #[serde(default)]
    pub ignores_marks: bool,
    /// The cause that limits the flow's rate now.
    pub limit: String,
}

/// A tunnel around a flow. The ports are those of the first packet in the tunnel.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Tunnel {
    /// Tunnel protocol, such as "vxlan".
    pub kind: String,
    /// The VNI of VXLAN and GENEVE, or the key of GRE.
    pub id: Option<u32>,
    /// Sender of the outer packets.
    pub src: String,
    /// Receiver of the outer packets.
    pub dst: String,
    /// VLAN identifier of the Ethernet frames in the tunnel, if they have a tag.
    #[serde(default)]
    pub vlan: Option<u16>,
}

impl Tunnel {
    /// The tunnel in words.
    pub fn text(&self) -> String {
        let id = self.id.map_or_else(String::new, |id| format!(" {id}"));
        let vlan = self.vlan.map_or_else(String::new, |vlan| format!(", with VLAN {vlan} inside"));
        format!("{}{id} from {} to {}{vlan}", self.kind, self.src, self.dst)
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
    /// Name of the file.
    pub file: String,
    /// Its text.
    pub text: String,
    /// The files that it includes.
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
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// "in force"; "starting" before its first set; "new" while its set is being put in force;
    /// "waits" for `tidegate apply` or `tidegate confirm`; "refused" if its newest set cannot be
    /// put in force. For a source with a fault, this is the kind of the fault, such as
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
