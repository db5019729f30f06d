//! Messages about trunks: their rates, their datagrams, and the gateways at their other ends.
//!
//! A trunk carries the user packets between two gateways. TCP connections between the two gateways
//! (*management connections*) find its rate.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::qdisc::Backlog;
use tidegate_core::report;
use tidegate_core::reports::{Quantify, ReportValue};
use tidegate_core::trunk::TrunkCounters;

/// The trunks that terminate at the gateway.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Trunks {
    /// All trunks, in the order of the policy file.
    pub trunks: Vec<Trunk>,
}

report! {
    /// The state of a trunk.
    pub Trunk {
        /// The name of the trunk.
        name: String => { column "trunk" };
        /// The address of this gateway for the trunk.
        local: String;
        /// The address of the gateway at the other end.
        peer: String => { column "peer" };
        /// State of the gateway at the other end. None without ports.
        other_end: Option<OtherEnd> => { column "state" = |it| ReportValue::Text(it.state()) };
        /// Counters of encapsulated user packets. None if user packets travel without encapsulation.
        encapsulation: Option<Encapsulation>;
        /// User bytes that departed within the last second, from the IP header on.
        rate_bps: u64, in Bps => {
            gauge "tidegate_trunk_rate_bytes_per_second",
            column "rate" = |it| ReportValue::Text(mbps(it.rate_bps)),
        };
        /// Management packets that may be in flight; with epochs, 1500 user bytes each.
        window_packets: u64 => { gauge "tidegate_trunk_window_packets", column "window" };
        /// The weight. None for a trunk without one.
        weight: Option<TrunkWeight> => {
            column "weight" = |it| it.weight.as_ref().map(|it| it.weight).quantity(),
        };
        /// Smoothed round-trip time of management packets, or of boundaries of epochs.
        rtt_us: Option<u64>, in Micros => {
            gauge "tidegate_trunk_rtt_seconds",
            column "rtt" = |it| it.rtt_us.map(|rtt| format!("{} ms", thousandths(rtt))).quantity(),
        };
        /// User bytes that did not arrive, according to the epochs' reports.
        missing_bytes: Option<u64>, in Bytes => {
            counter "tidegate_trunk_missing_bytes_total",
            column "management" = |it| it.counts.management.quantity(),
            column "lost" = |it| {
                it.missing_bytes.map_or(ReportValue::Whole(it.counts.again), ReportValue::Bytes)
            },
        };
        /// Credit: user bytes that may be sent now. Negative credit is borrowed.
        credit_bytes: i64 => {
            gauge "tidegate_trunk_credit_bytes",
            column "credit" = |it| ReportValue::Text(format!("{} B", it.credit_bytes)),
        };
        /// User packets that wait.
        waiting: Backlog => {
            gauge "tidegate_trunk_waiting_bytes" of bytes "User bytes that wait at the trunk.",
            column "waiting" of bytes,
            column "sent" = |it| ReportValue::Bytes(it.counts.sent_bytes()),
            column "refused" = |it| ReportValue::Whole(it.refused()),
        };
        /// Management connections that the trunk may use.
        connections: u64;
        /// Management connections in use.
        active: u64 => { gauge "tidegate_trunk_active_connections" };
        /// Management connections without an answer for three RTO.
        silent: u64 => { gauge "tidegate_trunk_silent_connections" };
    }
    flatten {
        /// Counters of packets and bytes.
        counts: TrunkCounters;
    }
}

impl Trunk {
    /// The state of the other gateway. If some management connections (TCP connections of the two
    /// gateways, which find the trunk's rate) get no answer, their number follows in brackets.
    fn state(&self) -> String {
        let state = self.other_end.as_ref().map_or("no port", |end| end.state.as_str());
        match self.silent {
            0 => state.to_owned(),
            silent => format!("{state} ({silent} of {} without an answer)", self.connections),
        }
    }

    fn refused(&self) -> u64 {
        self.other_end.as_ref().map_or(0, |end| end.refused.values().sum())
    }
}

report! {
    /// The weight of a trunk, with the measurements and decisions of its rate adjuster.
    pub TrunkWeight {
        /// The name of the rule that finds the weight, such as "fixed" or "measured".
        kind: String => { column "law" };
        /// Weight of the trunk.
        weight: f64 => { gauge "tidegate_trunk_weight_ratio", column "weight" };
        /// Share of the weight's last measurement in which packets waited.
        busy: Option<f64> => {
            gauge "tidegate_trunk_busy_ratio",
            column "busy" = |it| it.busy.map(|busy| format!("{:.0} %", 100.0 * busy)).quantity(),
        };
        /// User bytes per second that arrived during the weight's last measurement.
        offered_bps: Option<u64>, in Bps => {
            gauge "tidegate_trunk_offered_bytes_per_second",
            column "offered" = |it| it.offered_bps.map(mbps).quantity(),
        };
        /// User bytes per second that the trunk sent while packets waited, during the weight's last
        /// measurement.
        service_bps: Option<u64>, in Bps => {
            gauge "tidegate_trunk_service_bytes_per_second",
            column "service" = |it| it.service_bps.map(mbps).quantity(),
        };
        /// Measurements that increased the weight.
        increased: u64 => {
            counter "tidegate_trunk_weight_decisions_total"
                "Measurements of the weight's adjuster, by decision." = |it| it.decisions(),
            column "increased",
        };
        /// Measurements that decreased the weight.
        decreased: u64 => { column "decreased" };
        /// Measurements that did not change the weight.
        held: u64 => { column "held" };
        /// Measurements without a decision, because samples were missing.
        abandoned: u64;
    }
}

impl TrunkWeight {
    fn decisions(&self) -> ReportValue {
        let Self { increased, decreased, held, abandoned, .. } = *self;
        let all = [
            ("increased", increased),
            ("decreased", decreased),
            ("held", held),
            ("abandoned", abandoned),
        ];
        each("decision", all)
    }
}

report! {
    /// Counters of user packets that travel encapsulated in the datagrams of a trunk.
    pub Encapsulation {
        /// Path MTU of the trunk, in bytes of IP packet.
        path_mtu_bytes: u64 => { gauge "tidegate_trunk_path_mtu_bytes" };
        /// Datagrams with user packets sent.
        sent_packets: u64 => { counter "tidegate_trunk_encapsulated_packets_total" };
        /// Datagrams with user packets received.
        received_packets: u64 => { counter "tidegate_trunk_decapsulated_packets_total" };
        /// Fragments sent of user packets that did not fit a datagram.
        fragments: u64 => { counter "tidegate_trunk_fragments_total" };
        /// User packets dropped because they did not fit a datagram and may not be fragmented.
        too_big_packets: u64 => { counter "tidegate_trunk_too_big_packets_total" };
        /// ICMP messages "packet too big" sent to the senders of such packets.
        told_senders: u64;
        /// ICMP errors about too big datagrams that were ignored: not credible, or not new.
        ignored_reports: u64 => { counter "tidegate_trunk_ignored_reports_total" };
    }
}

/// The states of the gateway at the other end.
const STATES: [&str; 4] = ["up", "silent", "unknown", "mismatch"];

report! {
    /// State of the gateway at the other end of a trunk.
    pub OtherEnd {
        /// The state: "up"; "silent"; "unknown" before the first message from that gateway; or
        /// "mismatch", if the policy files of both ends differ in `encapsulation`, `probing` or the
        /// presence of a `weight`.
        state: String => {
            gauge "tidegate_trunk_up" "1 if the other gateway of the trunk answers."
                = |it| (it.state == "up").quantity(),
            gauge "tidegate_trunk_peer_state"
                "State of the other gateway: 1 for the present state, 0 for each other state."
                = |it| each("state", STATES.map(|state| (state, u64::from(it.state == state)))),
        };
        /// With "mismatch": the field in which the policy files differ.
        difference: Option<String>;
        /// Milliseconds since the last datagram from it.
        heard_ms: Option<u64>;
        /// Sessions agreed on with the other gateway.
        sessions: u64 => { counter "tidegate_trunk_sessions_total" };
        /// The hardware address of the next hop towards it, once known.
        next_hop: Option<String>;
        /// Hello messages accepted from the other end. Each datagram to this end's address counts
        /// once: here, in `segments`, in `received_packets` of the encapsulation, or in `refused`.
        hellos: u64 => {
            counter "tidegate_trunk_taken_packets_total"
                "Accepted datagrams of the other gateway, except those with user packets."
                = |it| each("kind", [("hello", it.hellos), ("segment", it.segments)]),
        };
        /// Segments of management connections accepted from the other end.
        segments: u64;
        /// Refused datagrams to the trunk.
        refused: BTreeMap<String, u64> => { counter "tidegate_trunk_refused_packets_total" };
    }
}

/// The report value with one count for each value of `label`.
fn each<const N: usize>(label: &'static str, counts: [(&str, u64); N]) -> ReportValue {
    ReportValue::Each(label, counts.map(|(name, count)| (name.to_owned(), count)).into())
}

/// A rate in Mbit/s, rounded down to one decimal.
fn mbps(bps: u64) -> String {
    format!("{} Mbit/s", thousandths(bps / 1_000))
}

/// Formats a number given in thousandths, rounded down to one decimal.
fn thousandths(n: u64) -> String {
    format!("{}.{}", n / 1_000, n % 1_000 / 100)
}
