//! Trunks: their rates, datagrams and other ends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Count;

/// The trunks that terminate at the gateway.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Trunks {
    /// All trunks, in the order of the policy file.
    pub trunks: Vec<Trunk>,
}

/// The state of a trunk.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Trunk {
    /// Its name.
    pub name: String,
    /// The address of this gateway.
    pub local: String,
    /// The address of the other gateway.
    pub peer: String,
    /// State of the other gateway. None without ports.
    pub other_end: Option<OtherEnd>,
    /// Counters of datagrams. None if user packets depart without a datagram.
    pub encapsulation: Option<Encapsulation>,
    /// User bits per second that departed through the trunk within the last second, from the IP
    /// header on.
    pub rate_bps: u64,
    /// Management packets that may be in flight.
    pub window_packets: u64,
    /// The smoothed round-trip time of management packets, in microseconds, the mean of its connections.
    pub rtt_us: Option<u64>,
    /// User bytes that may be sent now. Negative credit is borrowed. With epochs, the room in the
    /// window.
    pub credit_bytes: i64,
    /// Management packets sent.
    pub management_packets: u64,
    /// Management packets sent again after a loss.
    pub lost_packets: u64,
    /// User bytes that did not arrive, as epochs report them. None without epochs.
    pub missing_bytes: Option<u64>,
    /// User bytes sent for credit, from the IP header on.
    pub elastic_bytes: u64,
    /// User bytes sent for the guarantee, from the IP header on.
    pub guaranteed_bytes: u64,
    /// User bytes that bypassed the trunk while the other end was considered dead, from the IP
    /// header on.
    pub past_bytes: u64,
    /// User packets that wait.
    pub waiting: Count,
    /// Management connections that may be in use.
    pub connections: u64,
    /// Management connections that are in use: all, or the rounded weight.
    pub active: u64,
    /// The weight. None for a trunk without one.
    pub weight: Option<TrunkWeight>,
    /// Management connections without an answer for three RTO.
    pub silent: u64,
}

/// The weight of a trunk, and the measurements and decisions of its adjuster.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TrunkWeight {
    /// The weight in force.
    pub weight: f64,
    /// The law that changes the weight: "fixed" or "measured".
    pub kind: String,
    /// Share of the last round in which packets waited. None before the first round has ended.
    pub busy: Option<f64>,
    /// User bits per second that arrived in the last round, from the IP header on (`a`).
    pub offered_bps: Option<u64>,
    /// User bits per second that the trunk sends while packets wait (`s`). None if the last round measured none.
    pub service_bps: Option<u64>,
    /// Rounds that ended with a greater weight.
    pub increased: u64,
    /// Rounds that ended with a smaller weight.
    pub decreased: u64,
    /// Rounds that did not change the weight.
    pub held: u64,
    /// Rounds without a decision, because samples were missing.
    pub abandoned: u64,
}

/// Counters of user packets in the datagrams of a trunk.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Encapsulation {
    /// The longest IP packet that the path is known to carry.
    pub path_mtu_bytes: u64,
    /// Datagrams sent.
    pub sent_packets: u64,
    /// Datagrams received.
    pub received_packets: u64,
    /// Datagrams sent with a fragment of a packet that did not fit.
    pub fragments: u64,
    /// Packets dropped because they did not fit and may not be fragmented.
    pub too_big_packets: u64,
    /// Messages "too big" sent to the senders of such packets.
    pub told_senders: u64,
    /// Messages "too big" of routers that were ignored, or repeated a known size.
    pub ignored_reports: u64,
}

/// State of the other end of a trunk.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct OtherEnd {
    /// "up", "silent", "unknown" before it was first heard, or "mismatch" where the two files differ in
    /// `encapsulation`, `probing`, or whether there is a `weight`.
    pub state: String,
    /// With "mismatch", the field in which the two files differ.
    #[serde(default)]
    pub difference: Option<String>,
    /// Milliseconds since its last datagram.
    pub heard_ms: Option<u64>,
    /// Number of sessions: one, and one more for each restart of either gateway.
    pub sessions: u64,
    /// The hardware address of the next hop, once it is known.
    pub next_hop: Option<String>,
    /// Accepted hellos of the other end. Each datagram to the address of this end is counted once:
    /// here, in `segments`, in `received_packets` of the encapsulation, or in `refused`.
    #[serde(default)]
    pub hellos: u64,
    /// Accepted segments of management connections.
    #[serde(default)]
    pub segments: u64,
    /// Refused datagrams, by reason. Reasons without any are absent.
    pub refused: BTreeMap<String, u64>,
}
