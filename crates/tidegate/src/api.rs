//! What the control socket says and is told: one shape for the daemon, the commands and `--json`.

mod classes;
mod explain;
mod trunks;

pub use classes::{Class, ClassChange, ClassDelays, Classes, NewClass, Promise, Ratio};
pub use explain::{Candidate, Charged, Explanation, Question};
pub use trunks::{Encapsulation, OtherEnd, Trunk, TrunkWeight, Trunks};

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tidegate_core::ack::Counts;
use tidegate_core::units::duration;

use tidegate_config::Part;

use crate::describe::Change;

/// The state of the running gateway.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Status {
    /// The version of the program that runs.
    pub version: String,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// The file its policies came from.
    pub file: String,
    /// The file that a restart reads: the one named when the gateway was started.
    #[serde(default)]
    pub started_file: String,
    /// How its ports are open.
    pub ports: Ports,
    /// Which policy set runs: counts the sets installed.
    pub generation: u64,
    /// Milliseconds until the policies before these come back, unless confirmed.
    pub unconfirmed_ms: Option<u64>,
    /// Whether frames go straight across because there is nothing to manage.
    pub passing: bool,
    /// What needs attention; something here makes the state "degraded".
    pub alarms: Vec<String>,
    /// From the LAN to the WAN.
    pub up: LinkDirection,
    /// From the WAN to the LAN.
    pub down: LinkDirection,
    /// Packets inside.
    pub held: u32,
    /// Packets dropped, by reason; only reasons that occurred.
    pub drops: BTreeMap<String, u64>,
    /// ACKs dropped because the next one of their flow says all of it and more: reason "redundant-ack". Not losses.
    #[serde(default)]
    pub redundant_acks: u64,
    /// Packets marked "congestion experienced" (RFC 3168), by reason; only reasons that occurred.
    pub marks: BTreeMap<String, u64>,
    /// Flows in the table.
    pub flows: u32,
    /// Flows that found the table full.
    pub untracked: u64,
    /// Fragments whose first fragment was not known.
    #[serde(default)]
    pub fragments_without_first: u64,
    /// How often the loop came back so late that what had arrived was too old to send.
    pub hangs: u64,
    /// The longest processor time in us, since the start, for which one command or one slice of a policy change
    /// occupied the data plane. A slice includes the packets of its turn of the loop.
    pub occupied_us: u64,
    /// One for each policy and direction that has seen a packet, in the order of precedence.
    pub aggregates: Vec<Aggregate>,
    /// Policies that have seen no packet in any direction, in the order of the policy file.
    #[serde(default)]
    pub idle_policies: Vec<String>,
}

/// How the ports are open.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Ports {
    /// Interface towards the users.
    pub lan: String,
    /// Interface towards the Internet.
    pub wan: String,
    /// "af-xdp" or "af-packet", and how.
    pub backend: String,
    /// When the kernel passes frames straight across in place of the gateway.
    pub fail_to_wire: FailToWire,
    /// What there is to know about the choice.
    pub notes: Vec<String>,
}

/// When the kernel passes frames straight across in place of the gateway.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailToWire {
    /// When it hangs, and when it has ended in whatever way.
    Always,
    /// Never: without the gateway nothing passes.
    #[default]
    Never,
}

impl FailToWire {
    /// What it means, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Always => "on, whether the gateway hangs or has ended",
            Self::Never => "none: without the gateway nothing passes",
        }
    }
}

/// One direction of the link.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct LinkDirection {
    /// What the gateway took in. Together with `bypassed` and the losses in `port`, it is what the interface received.
    pub received: Count,
    /// What went out.
    pub transmitted: Count,
    /// Packets and bytes that wait for the access link.
    pub waiting: Count,
    /// Counts of the marking of the link's queue, or of the buffer that classes share; absent without a marking.
    #[serde(default)]
    pub marking: Option<Marking>,
    /// Control traffic, such as ARP and routing; absent until there is some on a link with a rate.
    #[serde(default)]
    pub control: Option<Control>,
    /// What the port that takes it in has seen; absent where there is no port.
    pub port: Option<PortCount>,
    /// Frames that went straight across, by reason; absent without fail-to-wire.
    pub bypassed: Option<Bypassed>,
}

/// Packets that a marking marked and dropped since it was joined to its queue, and the flows that it tracks.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Marking {
    /// Packets marked "congestion experienced" (RFC 3168).
    pub marked_packets: u64,
    /// Packets dropped in place of a mark, because they are not ECN-capable.
    pub not_ect_packets: u64,
    /// Packets dropped because no flow was left to mark.
    pub unmarkable_packets: u64,
    /// Flows that are projected by their rounds now.
    #[serde(default)]
    pub tracked_flows: u64,
    /// Bytes of packets that arrived.
    #[serde(default)]
    pub all_bytes: u64,
    /// Bytes of packets whose flows were projected when they arrived.
    #[serde(default)]
    pub tracked_bytes: u64,
    /// Factor by which the rounds of these flows count; 1 if other traffic counts at its rate.
    #[serde(default)]
    pub rho: f64,
    /// Bytes in the last interval from which on a flow was to be tracked; 0 without a filter.
    #[serde(default)]
    pub threshold_bytes: u64,
    /// Flows that were projected throughout the last interval and sent less than the threshold in it.
    #[serde(default)]
    pub false_positives: u64,
}

/// Control traffic in one direction of the link.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Control {
    /// The rate that the link reserves for it.
    pub allowance_bps: u64,
    /// Transmitted packets, and their bytes as charged on the link.
    pub sent: Count,
    /// Transmitted bytes beyond the allowance.
    pub borrowed_bytes: u64,
    /// Packets and bytes in the queue.
    pub waiting: Count,
    /// Packets dropped.
    pub dropped_packets: u64,
}

/// Frames of one port that bypassed the gateway since the port first had fail-to-wire.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Bypassed {
    /// Bypassed because the gateway had nothing to manage.
    pub idle: Count,
    /// Bypassed while the gateway started, ended, or was stopped.
    pub told: Count,
    /// Bypassed because the heartbeat had timed out.
    pub silent: Count,
    /// Bypassed because the gateway was dead, or has no socket for the receive queue.
    pub no_socket: Count,
}

/// Packets and their bytes as frames. A super-packet is one packet with the bytes of all its frames on the wire.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What a port had to leave out.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct PortCount {
    /// Frames the kernel dropped for lack of room in the ring.
    pub ring_overflows: u64,
    /// Frames that could not be received, or times the interface went away.
    pub receive_errors: u64,
    /// Times the interface refused to send for now, or frames it refused for good.
    pub send_errors: u64,
    /// Frames dropped because the interface refused them.
    #[serde(default)]
    pub refused: u64,
    /// Super-packets split in software because the kernel could not.
    #[serde(default)]
    pub split: u64,
    /// Frames received whose checksums were unfinished and too deep in tunnels to be finished.
    #[serde(default)]
    pub unfinished: u64,
}

/// The state of an aggregate: a policy in one direction.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Aggregate {
    /// Its policy.
    pub policy: String,
    /// "up" or "down".
    pub direction: String,
    /// Mean rate of its profile, in bits per second.
    pub mean_bps: Option<u64>,
    /// Flows that are members now.
    pub flows: u32,
    /// What came in.
    pub offered: Count,
    /// What left, in profile where there is a profile.
    pub conforming: Count,
    /// What left out of profile.
    pub exceeding: Count,
    /// What waits.
    pub waiting: Count,
    /// Most bytes that ever waited.
    pub peak_waiting_bytes: u64,
    /// Microseconds a packet that left had waited, on average.
    pub mean_wait_us: u64,
    /// Nanoseconds that packets which have left had waited, in total.
    pub waited_ns: u64,
    /// Packets that left more than 2 ms after they conformed.
    pub late: u64,
    /// Packets dropped, by reason; only reasons that occurred.
    pub drops: BTreeMap<String, u64>,
    /// Packets marked "congestion experienced" (RFC 3168), by reason; only reasons that occurred.
    pub marks: BTreeMap<String, u64>,
    /// Counts of the marking of the policy's queue; absent without a marking.
    #[serde(default)]
    pub marking: Option<Marking>,
    /// How often each trigger looked whether it may send.
    pub triggers: BTreeMap<String, u64>,
    /// What is done with the ACKs that go back to its senders; nothing without a signal.
    pub signal: Option<Signal>,
}

/// ACK control of an aggregate: all counts are of ACKs that go back to its senders.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Signal {
    /// "postack" or "tcr".
    pub kind: String,
    /// Microseconds for which those that went on had been held, on average.
    pub mean_hold_us: u64,
    /// Flows whose senders send more data than their ACKs request.
    #[serde(default)]
    pub unresponsive: u32,
    /// What it holds and has done, its fields beside these.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The state of a flow, as seen in one direction.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Flow {
    /// Sender, as address and port.
    pub src: String,
    /// Receiver, as address and port.
    pub dst: String,
    /// VLAN identifiers of its frames, outermost first. At most two are read.
    #[serde(default)]
    pub vlans: Vec<u16>,
    /// Unencrypted tunnels around it, outermost first.
    #[serde(default)]
    pub tunnels: Vec<Tunnel>,
    /// IP protocol number.
    pub protocol: u8,
    /// "up" or "down".
    pub direction: String,
    /// The policy it belongs to, if any.
    pub policy: Option<String>,
    /// Its weight there.
    pub weight: u32,
    /// What came in.
    pub offered: Count,
    /// Backlog in bytes of frames: at its policy, a trunk, a class, or the link.
    pub waiting_bytes: u64,
    /// Held ACKs of the flow's data.
    #[serde(default)]
    pub held_acks: u32,
    /// Smoothed round-trip time between the gateway and the LAN host, in microseconds.
    pub rtt_lan_us: Option<u64>,
    /// Smoothed round-trip time between the gateway and the WAN host, in microseconds.
    pub rtt_wan_us: Option<u64>,
    /// Segments seen again.
    pub retransmissions: u64,
    /// How well it is known: "full", "no-window-scale", "queue-only".
    pub tracking: String,
    /// Milliseconds since its last packet.
    pub idle_ms: u64,
    /// Its window did not fall after marks of a queue with a marking.
    #[serde(default)]
    pub ignores_marks: bool,
    /// What limits it now.
    pub limit: String,
}

/// A tunnel around a flow. The ports are those of the first packet through the tunnel.
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
    /// VLAN identifier of the Ethernet frames inside it, if they have a tag.
    #[serde(default)]
    pub vlan: Option<u16>,
}

impl Tunnel {
    /// The tunnel in words.
    pub(crate) fn text(&self) -> String {
        let id = self.id.map_or_else(String::new, |id| format!(" {id}"));
        let vlan = self.vlan.map_or_else(String::new, |vlan| format!(", with VLAN {vlan} inside"));
        format!("{}{id} from {} to {}{vlan}", self.kind, self.src, self.dst)
    }
}

/// Flows.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Flows {
    /// Each of them.
    pub flows: Vec<Flow>,
}

/// A length of time.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Period(#[serde(with = "duration")] pub Duration);

/// What a class may have or not.
#[derive(Clone, Copy, Debug)]
pub enum OrNone<T> {
    /// So much.
    Some(T),
    /// Not at all, written `none`: a ceiling or delay bound that is not its own.
    None,
}

/// By hand, because errors of an untagged enumeration do not say what is wrong.
impl<'de, T: DeserializeOwned> Deserialize<'de> for OrNone<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        if value == "none" {
            return Ok(Self::None);
        }
        T::deserialize(value).map(Self::Some).map_err(D::Error::custom)
    }
}

impl<T> OrNone<T> {
    /// How much, if at all.
    #[must_use]
    pub fn some(self) -> Option<T> {
        match self {
            Self::Some(some) => Some(some),
            Self::None => None,
        }
    }
}

/// Something for both directions, or for each its own.
#[derive(Clone, Copy, Debug)]
pub enum EachWay<T> {
    /// For both.
    Both(T),
    /// For those given.
    Each {
        /// From the LAN to the WAN.
        up: Option<T>,
        /// From the WAN to the LAN.
        down: Option<T>,
    },
}

/// By hand, because errors of an untagged enumeration do not say what is wrong.
impl<'de, T: DeserializeOwned> Deserialize<'de> for EachWay<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = |value| T::deserialize(value).map_err(D::Error::custom);
        let mut each = match Value::deserialize(from)? {
            Value::Object(each) => each,
            both => return Ok(Self::Both(read(both)?)),
        };
        let [up, down] = ["up", "down"].map(|way| each.remove(way).map(read).transpose());
        match each.keys().next() {
            Some(other) => {
                Err(D::Error::custom(format!("`{other}` is not a direction: up or down")))
            }
            None => Ok(Self::Each { up: up?, down: down? }),
        }
    }
}

impl<T: Copy> EachWay<T> {
    /// Up and down.
    #[must_use]
    pub fn up_and_down(self) -> [Option<T>; 2] {
        match self {
            Self::Both(both) => [Some(both); 2],
            Self::Each { up, down } => [up, down],
        }
    }
}

/// A policy file on its way to the gateway.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Proposal {
    /// Where it came from.
    pub file: String,
    /// What it says.
    pub text: String,
    /// The files that it includes.
    #[serde(default)]
    pub included: Vec<Part>,
    /// Milliseconds within which it must be confirmed.
    #[serde(default)]
    pub confirm_ms: Option<u64>,
    /// The policy file also becomes the one that a restart reads. `file` does not count then.
    #[serde(default)]
    pub save: bool,
}

/// The difference between a policy file and what runs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Plan {
    /// What would change.
    pub changes: Vec<Change>,
    /// Classes that were added, changed or removed while it ran, and would be as the file says.
    #[serde(default)]
    pub undone: Vec<String>,
}

/// What `apply` did.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Applied {
    /// The policy set that runs now.
    pub generation: u64,
    /// What changed.
    pub changes: Vec<Change>,
    /// Classes that had been added, changed or removed while it ran, and are now as the file says.
    #[serde(default)]
    pub undone: Vec<String>,
    /// Milliseconds within which it must be confirmed.
    pub confirm_ms: Option<u64>,
    /// The file that a restart reads, if it is not the applied one.
    #[serde(default)]
    pub restart_reads: Option<String>,
    /// The file that it was saved as.
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
    /// "in force"; "starting" before its first set; "new" while its set is being put in force; "waits" for
    /// `tidegate apply` or `tidegate confirm`; "refused" if its newest set cannot be in force. A source with a fault
    /// has the kind of the fault, such as "unreachable".
    pub state: String,
    /// The revision in force.
    pub revision: Option<String>,
    /// The newest revision that it delivered.
    pub newest: Option<String>,
    /// Seconds since it delivered that.
    pub delivered_s: Option<u64>,
    /// Seconds for which it has had its fault, or its newest set was refused.
    pub failing_s: Option<u64>,
    /// What is wrong.
    pub error: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

/// How the newest set of a source is put in force.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct OfSource {
    /// Milliseconds within which it must be confirmed.
    #[serde(default)]
    pub confirm_ms: Option<u64>,
}
