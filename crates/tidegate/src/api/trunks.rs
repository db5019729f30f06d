//! Trunks: what they find, and what they carry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Count;

/// The trunks that end at the gateway.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Trunks {
    /// Each of them, in the order of the policy file.
    pub trunks: Vec<Trunk>,
}

/// The state of a trunk.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Trunk {
    /// Its name.
    pub name: String,
    /// The address of this gateway.
    pub local: String,
    /// The address of the other.
    pub peer: String,
    /// What is known of the other gateway; none where there are no ports.
    pub other_end: Option<OtherEnd>,
    /// What became of user packets in datagrams; none where they leave as they came.
    pub encapsulation: Option<Encapsulation>,
    /// User bits per second that left through it within the last second, from the IP header on.
    pub rate_bps: u64,
    /// Management packets that may be in flight.
    pub window_packets: u64,
    /// The smoothed round-trip time of management packets, in microseconds, the mean of its connections.
    pub rtt_us: Option<u64>,
    /// User bytes that may be sent now; less than zero is what was borrowed. With epochs, what the window has room for.
    pub credit_bytes: i64,
    /// Management packets sent.
    pub management_packets: u64,
    /// Of these, those that were sent again because one was lost.
    pub lost_packets: u64,
    /// User bytes that did not arrive, as far as epochs tell; none where management packets are what is lost.
    pub missing_bytes: Option<u64>,
    /// User bytes sent for credit, from the IP header on.
    pub elastic_bytes: u64,
    /// The same of what was sent for the guarantee.
    pub guaranteed_bytes: u64,
    /// The same of what went past the trunk while nothing was heard of the other end.
    pub past_bytes: u64,
    /// User packets that wait.
    pub waiting: Count,
    /// Management connections that may be in use.
    pub connections: u64,
    /// Management connections that are in use: all, or the rounded weight.
    pub active: u64,
    /// The weight; none for a trunk without one.
    pub weight: Option<TrunkWeight>,
    /// Management connections that have heard nothing for three RTO.
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

/// What became of user packets in the datagrams of a trunk.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Encapsulation {
    /// The longest IP packet that the path carries, as far as is known.
    pub path_mtu_bytes: u64,
    /// Datagrams sent.
    pub sent_packets: u64,
    /// Datagrams taken in.
    pub received_packets: u64,
    /// Of those sent, fragments of packets that did not fit.
    pub fragments: u64,
    /// Packets dropped because they did not fit and may not be fragmented.
    pub too_big_packets: u64,
    /// Senders of these that were told what fits.
    pub told_senders: u64,
    /// What routers are said to have said of too big datagrams, and was not believed or no news.
    pub ignored_reports: u64,
}

/// What is known of the other end of a trunk.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct OtherEnd {
    /// "up", "silent", "unknown" before it was first heard, or "mismatch" where the two files differ in
    /// `encapsulation`, `probing`, or whether there is a `weight`.
    pub state: String,
    /// With "mismatch", the field in which the two files differ.
    #[serde(default)]
    pub difference: Option<String>,
    /// Milliseconds since it last showed that it is there.
    pub heard_ms: Option<u64>,
    /// Sessions agreed on: one, and one more for each new beginning of either gateway.
    pub sessions: u64,
    /// The hardware address of the next hop, once it is known.
    pub next_hop: Option<String>,
    /// Hellos of the other end that were taken. Each datagram to the address of this end is counted once: here, in
    /// `segments`, in `received_packets` of the encapsulation, or in `refused`.
    #[serde(default)]
    pub hellos: u64,
    /// Segments of management connections that were taken.
    #[serde(default)]
    pub segments: u64,
    /// Datagrams that were not taken, by reason; those with none are left out.
    pub refused: BTreeMap<String, u64>,
}
