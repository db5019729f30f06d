//! Metrics in the Prometheus text format: in base units. The number of label values does not depend
//! on traffic.

mod datagrams;
mod weights;

mod classes;
mod info;
mod marking;
mod sources;
mod text;

use std::collections::BTreeMap;

use tidegate_core::ack::Counts;

pub(crate) use text::{Labels, Page, float, labels};

use crate::api::{
    AckControl, Aggregate, Class, Control, Count, FailToWire, LinkDirection, OtherEnd, Source,
    Status, Trunk,
};

/// Formats `status`, `all_classes`, `all_trunks` and `all_sources` as metrics.
pub(super) fn page(
    status: &Status,
    all_classes: &[Class],
    all_trunks: &[Trunk],
    all_sources: &[Source],
) -> String {
    let mut page = Page::default();
    gateway(status, &mut page);
    info::write(status, all_classes, &mut page);
    link(status, &mut page);
    aggregates(&status.aggregates, &mut page);
    ack_controls(&status.aggregates, &mut page);
    classes::write(all_classes, &mut page);
    marking::write(status, all_classes, &mut page);
    trunks(all_trunks, &mut page);
    sources::write(all_sources, &mut page);
    page.into_text()
}

fn gateway(status: &Status, page: &mut Page) {
    let one = |value| [(labels(&[]), value)];
    let ports = &status.ports;
    let info = labels(&[
        ("version", &status.version),
        ("backend", &ports.backend),
        ("lan", &ports.lan),
        ("wan", &ports.wan),
    ]);
    page.metric(
        "tidegate_build_info",
        "gauge",
        "Version of the program, and its ports.",
        [(info, 1.0)],
    );
    let uptime = float(status.uptime_ms) / 1e3;
    page.metric("tidegate_uptime_seconds", "gauge", "Time since the start.", one(uptime));
    let help = "Policy sets installed since the start.";
    page.metric("tidegate_policy_generation", "gauge", help, one(float(status.generation)));
    let help = "1 if the kernel lets frames bypass a gateway that has ended.";
    let wire = f64::from(u8::from(ports.fail_to_wire == FailToWire::Always));
    page.metric("tidegate_fail_to_wire_enabled", "gauge", help, one(wire));
    let alarms = f64::from(u8::from(!status.alarms.is_empty()));
    page.metric("tidegate_alarm_active", "gauge", "1 if something needs attention.", one(alarms));
    page.metric(
        "tidegate_flows",
        "gauge",
        "Entries in the flow table.",
        one(f64::from(status.flows)),
    );
    let help = "Flows without an entry, because the flow table was full.";
    page.metric("tidegate_untracked_flows_total", "counter", help, one(float(status.untracked)));
    let help = "Fragments whose first fragment was not known.";
    let fragments = one(float(status.fragments_without_first));
    page.metric("tidegate_fragments_without_first_total", "counter", help, fragments);
    page.metric(
        "tidegate_held_packets",
        "gauge",
        "Packets in the gateway.",
        one(f64::from(status.held)),
    );
    let help = "Times that the loop was so late that arrived frames were too old to send.";
    page.metric("tidegate_hangs_total", "counter", help, one(float(status.hangs)));
    let help = "Longest processor time of the data plane for one command, or for one slice of a policy change with \
                the packets of its turn, since the start.";
    let seconds = float(status.occupied_us) / 1e6;
    page.metric("tidegate_longest_occupation_seconds", "gauge", help, one(seconds));
    let drops = status.drops.iter().map(|(reason, n)| (labels(&[("reason", reason)]), float(*n)));
    page.metric("tidegate_dropped_packets_total", "counter", "Packets dropped.", drops);
    let thinned = (labels(&[("reason", "redundant-ack")]), float(status.redundant_acks));
    let help = "ACKs superseded by the next ACK of their flow. They are no losses.";
    page.metric("tidegate_thinned_packets_total", "counter", help, [thinned]);
    let marks = status.marks.iter().map(|(reason, n)| (labels(&[("reason", reason)]), float(*n)));
    let help = "Packets marked congestion experienced (ECN).";
    page.metric("tidegate_marked_packets_total", "counter", help, marks);
}

fn link(status: &Status, page: &mut Page) {
    let directions = [("up", &status.up), ("down", &status.down)];
    let mut metric = |name: &str, kind: &str, help: &str, value: fn(&LinkDirection) -> u64| {
        let sample = |(name, direction)| (labels(&[("direction", name)]), float(value(direction)));
        page.metric(name, kind, help, directions.map(sample));
    };
    metric("tidegate_received_bytes_total", "counter", "Bytes received.", |it| it.received.bytes);
    metric("tidegate_received_packets_total", "counter", "Packets received.", |it| {
        it.received.packets
    });
    metric("tidegate_transmitted_bytes_total", "counter", "Bytes sent.", |it| it.transmitted.bytes);
    metric("tidegate_transmitted_packets_total", "counter", "Packets sent.", |it| {
        it.transmitted.packets
    });
    metric("tidegate_link_waiting_bytes", "gauge", "Bytes that wait for the access link.", |it| {
        it.waiting.bytes
    });
    let help = "Bytes of control traffic sent, as charged on the link.";
    metric("tidegate_control_sent_bytes_total", "counter", help, |it| control(it).sent.bytes);
    let help = "Bytes of control traffic sent beyond its allowance.";
    metric("tidegate_control_borrowed_bytes_total", "counter", help, |it| {
        control(it).borrowed_bytes
    });
    let help = "Packets of control traffic dropped.";
    metric("tidegate_control_dropped_packets_total", "counter", help, |it| {
        control(it).dropped_packets
    });
    let help = "Bytes of control traffic that wait.";
    metric("tidegate_control_waiting_bytes", "gauge", help, |it| control(it).waiting.bytes);
    let ports = [(&status.ports.lan, status.up.port), (&status.ports.wan, status.down.port)];
    let ports =
        || ports.iter().filter_map(|(name, port)| Some((labels(&[("port", name)]), (*port)?)));
    let overflows = ports().map(|(port, count)| (port, float(count.ring_overflows)));
    let help = "Frames the kernel dropped for lack of room in the ring.";
    page.metric("tidegate_port_overflowed_frames_total", "counter", help, overflows);
    let errors = ports().map(|(port, count)| (port, float(count.receive_errors)));
    let help = "Failed receive calls: a frame could not be received, or the interface went down.";
    page.metric("tidegate_port_receive_errors_total", "counter", help, errors);
    let errors = ports().map(|(port, count)| (port, float(count.send_errors)));
    let help = "Times the interface refused to send.";
    page.metric("tidegate_port_send_errors_total", "counter", help, errors);
    let refused = ports().map(|(port, count)| (port, float(count.refused)));
    let help = "Frames dropped because the interface refused them.";
    page.metric("tidegate_port_refused_frames_total", "counter", help, refused);
    let split = ports().map(|(port, count)| (port, float(count.split)));
    let help = "Super-packets split in software because the kernel could not.";
    page.metric("tidegate_port_split_frames_total", "counter", help, split);
    let unfinished = ports().map(|(port, count)| (port, float(count.unfinished)));
    let help =
        "Frames received with an unfinished checksum inside more tunnels than the gateway reads.";
    page.metric("tidegate_port_unfinished_frames_total", "counter", help, unfinished);
    bypassed(status, page);
}

fn bypassed(status: &Status, page: &mut Page) {
    let ports =
        [(&status.ports.lan, status.up.bypassed), (&status.ports.wan, status.down.bypassed)];
    let ports = ports.into_iter().filter_map(|(port, frames)| Some((port, frames?)));
    let counts = ports.flat_map(|(port, it)| {
        [("idle", it.idle), ("told", it.told), ("silent", it.silent), ("no-socket", it.no_socket)]
            .map(|(reason, count)| (port, reason, count))
    });
    let counts: Vec<_> = counts.collect();
    let mut metric = |name: &str, help: &str, value: fn(Count) -> u64| {
        let sample = |&(port, reason, count): &(&String, _, _)| {
            (labels(&[("port", port), ("reason", reason)]), float(value(count)))
        };
        page.metric(name, "counter", help, counts.iter().map(sample));
    };
    let help = "Frames that bypassed the gateway: `idle` while it had nothing to manage, `told` while it \
                started, ended, or was stopped, `silent` after its heartbeat timed out, `no-socket` after \
                it died.";
    metric("tidegate_port_bypassed_frames_total", help, |it| it.packets);
    let help = "Bytes of the frames that bypassed the gateway.";
    metric("tidegate_port_bypassed_bytes_total", help, |it| it.bytes);
}

fn control(it: &LinkDirection) -> Control {
    it.control.unwrap_or_default()
}

fn aggregates(all: &[Aggregate], page: &mut Page) {
    let pair = |it: &Aggregate| labels(&[("policy", &it.policy), ("direction", &it.direction)]);
    let mut metric = |name: &str, kind: &str, help: &str, value: fn(&Aggregate) -> f64| {
        page.metric(name, kind, help, all.iter().map(|it| (pair(it), value(it))));
    };
    let help = "Bytes that arrived for the policy.";
    metric("tidegate_policy_offered_bytes_total", "counter", help, |it| float(it.offered.bytes));
    let help = "Bytes of the policy that departed, in profile if the policy has a profile.";
    metric("tidegate_policy_conforming_bytes_total", "counter", help, |it| {
        float(it.conforming.bytes)
    });
    let help = "Bytes of the policy that departed out of profile.";
    metric("tidegate_policy_exceeding_bytes_total", "counter", help, |it| {
        float(it.exceeding.bytes)
    });
    let help = "Packets of the policy that departed.";
    metric("tidegate_policy_transmitted_packets_total", "counter", help, |it| {
        float(it.conforming.packets + it.exceeding.packets)
    });
    let help = "Total waiting time of departed packets of the policy.";
    metric("tidegate_policy_wait_seconds_total", "counter", help, |it| float(it.waited_ns) / 1e9);
    let help =
        "Packets of the policy that departed more than 2 ms later than their profile allowed.";
    metric("tidegate_policy_late_packets_total", "counter", help, |it| float(it.late));
    let help = "Bytes of the policy that wait.";
    metric("tidegate_policy_waiting_bytes", "gauge", help, |it| float(it.waiting.bytes));
    metric("tidegate_policy_flows", "gauge", "Flows of the policy.", |it| f64::from(it.flows));
    let mut by_reason = |name: &str,
                         help: &str,
                         value: fn(&Aggregate) -> &BTreeMap<String, u64>| {
        let samples = all.iter().flat_map(|it| {
            let labels = |reason| {
                labels(&[("policy", &it.policy), ("direction", &it.direction), ("reason", reason)])
            };
            value(it).iter().map(move |(reason, n)| (labels(reason), float(*n)))
        });
        page.metric(name, "counter", help, samples);
    };
    let help = "Packets of the policy that were dropped.";
    by_reason("tidegate_policy_dropped_packets_total", help, |it| &it.drops);
    let help = "Packets of the policy that were marked congestion experienced (ECN).";
    by_reason("tidegate_policy_marked_packets_total", help, |it| &it.marks);
}

/// Counters of ACK control. The label `signal` has the same value as `ack_control`; earlier
/// versions had only `signal`.
fn ack_controls(all: &[Aggregate], page: &mut Page) {
    let mut metric = |name: &str, kind: &str, help: &str, value: &dyn Fn(&AckControl) -> f64| {
        let sample = |it: &Aggregate| {
            let control = it.ack_control.as_ref()?;
            let pairs = [
                ("policy", &it.policy),
                ("direction", &it.direction),
                ("ack_control", &control.kind),
                ("signal", &control.kind),
            ];
            Some((labels(&pairs.map(|(name, value)| (name, &**value))), value(control)))
        };
        page.metric(name, kind, help, all.iter().filter_map(sample));
    };
    let help = "Flows whose senders send more data than their ACKs request.";
    let unresponsive = |it: &AckControl| f64::from(it.unresponsive);
    metric("tidegate_policy_unresponsive_flows", "gauge", help, &unresponsive);
    let mut metric = |name: &str, kind: &str, help: &str, value: fn(&Counts) -> f64| {
        metric(name, kind, help, &|it: &AckControl| value(&it.counts));
    };
    let help = "ACKs to senders of the policy that are held now.";
    metric("tidegate_policy_held_acks", "gauge", help, |it| f64::from(it.held));
    let help = "ACKs that were held.";
    metric("tidegate_policy_delayed_acks_total", "counter", help, |it| float(it.delayed));
    let help = "Total hold of released ACKs.";
    metric("tidegate_policy_ack_hold_seconds_total", "counter", help, |it| float(it.held_ns) / 1e9);
    let help = "ACKs that were rebuilt from a record and another packet of their flow.";
    metric("tidegate_policy_made_acks_total", "counter", help, |it| float(it.made));
    let help = "Extra ACKs, because an ACK of much data was released in steps.";
    metric("tidegate_policy_ack_steps_total", "counter", help, |it| float(it.split));
    let help = "ACKs released early: after the longest permitted hold, or for lack of room.";
    metric("tidegate_policy_overdue_acks_total", "counter", help, |it| float(it.overdue));
    let help = "ACKs whose window was reduced.";
    metric("tidegate_policy_reduced_windows_total", "counter", help, |it| float(it.windows));
    let help =
        "ACKs of data that was never sent, and ACKs below an earlier acknowledgement number.";
    metric("tidegate_policy_odd_acks_total", "counter", help, |it| float(it.unsent + it.stale));
    let help = "Data packets queued without ACK control: with a TCP digest (MD5 or TCP-AO), of a flow seen in one direction only, or of an unresponsive sender.";
    let value = |it: &Counts| float(it.ungoverned);
    metric("tidegate_policy_uncontrolled_segments_total", "counter", help, value);
    let help = "Earlier name of `tidegate_policy_uncontrolled_segments_total`.";
    metric("tidegate_policy_ungoverned_segments_total", "counter", help, value);
}

fn trunks(all: &[Trunk], page: &mut Page) {
    let name = |it: &Trunk| labels(&[("trunk", &it.name)]);
    let mut metric = |name_of: &str, kind: &str, help: &str, value: fn(&Trunk) -> Option<f64>| {
        let samples = all.iter().filter_map(|it| Some((name(it), value(it)?)));
        page.metric(name_of, kind, help, samples);
    };
    let help = "1 if the other gateway of the trunk answers.";
    metric("tidegate_trunk_up", "gauge", help, |it| {
        Some(f64::from(u8::from(it.other_end.as_ref()?.state == "up")))
    });
    let help = "User bytes that departed within the last second, from the IP header on.";
    metric("tidegate_trunk_rate_bytes_per_second", "gauge", help, |it| {
        Some(float(it.rate_bps) / 8.0)
    });
    let help = "Management connections without an answer for three RTO.";
    metric("tidegate_trunk_silent_connections", "gauge", help, |it| Some(float(it.silent)));
    let help = "Management packets that may be in flight; with epochs, 1500 user bytes each.";
    metric("tidegate_trunk_window_packets", "gauge", help, |it| Some(float(it.window_packets)));
    let help = "Smoothed round-trip time of management packets, or of boundaries of epochs.";
    metric("tidegate_trunk_rtt_seconds", "gauge", help, |it| Some(float(it.rtt_us?) / 1e6));
    let help = "Credit: user bytes that may be sent now. Negative credit is borrowed.";
    metric("tidegate_trunk_credit_bytes", "gauge", help, |it| Some(signed(it.credit_bytes)));
    let help = "User bytes that wait at the trunk.";
    metric("tidegate_trunk_waiting_bytes", "gauge", help, |it| Some(float(it.waiting.bytes)));
    let help = "Management packets sent.";
    metric("tidegate_trunk_management_packets_total", "counter", help, |it| {
        Some(float(it.management_packets))
    });
    let help = "Management packets sent again, because one was lost.";
    metric("tidegate_trunk_lost_packets_total", "counter", help, |it| Some(float(it.lost_packets)));
    let help = "User bytes that did not arrive, according to the epochs' reports.";
    metric("tidegate_trunk_missing_bytes_total", "counter", help, |it| {
        Some(float(it.missing_bytes?))
    });
    let help = "Sessions agreed on with the other gateway.";
    metric("tidegate_trunk_sessions_total", "counter", help, |it| {
        Some(float(it.other_end.as_ref()?.sessions))
    });
    let sent = all.iter().flat_map(|it| {
        let kinds = [
            ("credit", it.elastic_bytes),
            ("guarantee", it.guaranteed_bytes),
            ("past", it.past_bytes),
        ];
        kinds.map(|(by, bytes)| (labels(&[("trunk", &it.name), ("by", by)]), float(bytes)))
    });
    let help = "User bytes sent, from the IP header on: paid by credit, by the guarantee, or sent without the trunk.";
    page.metric("tidegate_trunk_sent_bytes_total", "counter", help, sent);
    weights::write(all, page);
    let states = all.iter().flat_map(|it| {
        let now = it.other_end.as_ref().map(|end| end.state.as_str());
        let of = move |state| {
            let is = f64::from(u8::from(now? == state));
            Some((labels(&[("trunk", &it.name), ("state", state)]), is))
        };
        ["up", "silent", "unknown", "mismatch"].into_iter().filter_map(of)
    });
    let help = "State of the other gateway: 1 for the present state, 0 for each other state.";
    page.metric("tidegate_trunk_peer_state", "gauge", help, states);
    let refused = all.iter().flat_map(|it| {
        let by_reason = it.other_end.iter().flat_map(|end| &end.refused);
        by_reason.map(|(reason, count)| {
            (labels(&[("trunk", &it.name), ("reason", reason)]), float(*count))
        })
    });
    let taken = all.iter().flat_map(|it| {
        let kinds = |end: &OtherEnd| [("hello", end.hellos), ("segment", end.segments)];
        it.other_end
            .iter()
            .flat_map(kinds)
            .map(|(kind, count)| (labels(&[("trunk", &it.name), ("kind", kind)]), float(count)))
    });
    let help = "Accepted datagrams of the other gateway, except those with user packets.";
    page.metric("tidegate_trunk_taken_packets_total", "counter", help, taken);
    let help = "Refused datagrams to the trunk.";
    page.metric("tidegate_trunk_refused_packets_total", "counter", help, refused);
    datagrams::write(all, page);
}

#[expect(clippy::as_conversions, reason = "a metric is a real: exact up to 2^53")]
const fn signed(count: i64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
