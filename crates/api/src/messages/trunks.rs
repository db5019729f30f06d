//! Trunks: their rates, their datagrams, and the gateways at their other ends.

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
    /// The address of this gateway for the trunk.
    pub local: String,
    /// The address of the gateway at the other end.
    pub peer: String,
    /// State of the gateway at the other end. None without ports.
    pub other_end: Option<OtherEnd>,
    /// Counters of encapsulated user packets. None if user packets travel without encapsulation.
    pub encapsulation: Option<Encapsulation>,
    /// User traffic sent through the trunk in the last second, in bit/s. User bytes count from the
    /// IP header on.
    pub rate_bps: u64,
    /// Management packets that may be in flight.
    pub window_packets: u64,
    /// Smoothed round-trip time of management packets in microseconds, averaged over the trunk's
    /// connections.
    pub rtt_us: Option<u64>,
    /// User bytes that the trunk may send now. Below zero, the trunk has borrowed. With epochs,
    /// this is the room in the window.
    pub credit_bytes: i64,
    /// Management packets sent.
    pub management_packets: u64,
    /// Management packets sent again after a loss.
    pub lost_packets: u64,
    /// User bytes that did not arrive at the other end, as epochs report them. None without epochs.
    pub missing_bytes: Option<u64>,
    /// User bytes sent by credit, from the IP header on.
    pub elastic_bytes: u64,
    /// User bytes sent under the guarantee, from the IP header on.
    pub guaranteed_bytes: u64,
    /// User bytes that bypassed the trunk while the other end was considered dead, from the IP
    /// header on.
    pub past_bytes: u64,
    /// User packets that wait.
    pub waiting: Count,
    /// Management connections that the trunk may use.
    pub connections: u64,
    /// Management connections in use: all, or the rounded weight.
    pub active: u64,
    /// The weight. None for a trunk without one.
    pub weight: Option<TrunkWeight>,
    /// Management connections without an answer for three retransmission timeouts.
    pub silent: u64,
}

/// The weight of a trunk, with the measurements and decisions of its rate adjuster.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TrunkWeight {
    /// The weight in force.
    pub weight: f64,
    /// How the weight is found: "fixed" or "measured".
    pub kind: String,
    /// Fraction of the last measurement round during which packets waited. None before the first
    /// round has ended.
    pub busy: Option<f64>,
    /// User traffic that arrived in the last round, in bit/s, from the IP header on (`a` in the
    /// formulas).
    pub offered_bps: Option<u64>,
    /// User traffic that the trunk sends while packets wait, in bit/s (`s` in the formulas). None
    /// if the last round could not measure it.
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

/// Counters of user packets that travel encapsulated in the datagrams of a trunk.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Encapsulation {
    /// The longest IP packet in bytes that the path is known to carry.
    pub path_mtu_bytes: u64,
    /// Datagrams sent.
    pub sent_packets: u64,
    /// Datagrams received.
    pub received_packets: u64,
    /// Datagrams sent that carry a fragment, because the user packet did not fit.
    pub fragments: u64,
    /// User packets dropped because they did not fit and must not be fragmented.
    pub too_big_packets: u64,
    /// ICMP messages "packet too big" sent to the senders of such packets.
    pub told_senders: u64,
    /// ICMP messages "packet too big" from routers that the gateway ignored, or that reported a
    /// known size.
    pub ignored_reports: u64,
}

/// State of the gateway at the other end of a trunk.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct OtherEnd {
    /// "up"; "silent"; "unknown" before the first message from it; or "mismatch", if the policy
    /// files of both ends differ in `encapsulation`, `probing` or the presence of a `weight`.
    pub state: String,
    /// With "mismatch": the field in which the policy files differ.
    #[serde(default)]
    pub difference: Option<String>,
    /// Milliseconds since the last datagram from it.
    pub heard_ms: Option<u64>,
    /// Number of sessions so far. Each restart of either gateway begins another session.
    pub sessions: u64,
    /// The hardware address of the next hop towards it, once known.
    pub next_hop: Option<String>,
    /// Hello messages accepted from the other end. Each datagram to this end's address counts once:
    /// here, in `segments`, in `received_packets` of the encapsulation, or in `refused`.
    #[serde(default)]
    pub hellos: u64,
    /// Segments of management connections accepted from the other end.
    #[serde(default)]
    pub segments: u64,
    /// Datagrams refused, by reason; only reasons that occurred.
    pub refused: BTreeMap<String, u64>,
}
