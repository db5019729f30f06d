//! Metrics in the Prometheus text format: in base units. The number of label values does not depend
//! on traffic.

mod datagrams;
mod weights;

mod classes;
mod info;
mod marking;
mod sources;
mod text;

pub(crate) use text::{Labels, Page, float, labels};

use crate::api::{Aggregate, Class, OtherEnd, Source, Status, Trunk};

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
    let ports = &status.ports;
    let info = labels(&[
        ("version", &status.version),
        ("backend", &ports.backend),
        ("lan", &ports.lan),
        ("wan", &ports.wan),
    ]);
    let help = "Version of the program, and its ports.";
    page.metric("tidegate_build_info", "gauge", help, [(info, 1.0)]);
    page.reports(&[(Vec::new(), status)]);
}

fn link(status: &Status, page: &mut Page) {
    let directions = [("up", &status.up), ("down", &status.down)];
    let pairs = |name| vec![("direction", name)];
    page.reports(&directions.map(|(name, it)| (pairs(name), it)));
    let control = directions.map(|(name, it)| (pairs(name), it.control.unwrap_or_default()));
    page.reports(&control.each_ref().map(|(pairs, it)| (pairs.clone(), it)));
    let ports = [(&status.ports.lan, &status.up), (&status.ports.wan, &status.down)]
        .map(|(name, it)| (vec![("port", name.as_str())], it));
    let counts = ports.iter().filter_map(|(name, it)| Some((name.clone(), it.port.as_ref()?)));
    page.reports(&counts.collect::<Vec<_>>());
    let bypassed =
        ports.iter().filter_map(|(name, it)| Some((name.clone(), it.bypassed.as_ref()?)));
    page.reports(&bypassed.collect::<Vec<_>>());
}

fn aggregates(all: &[Aggregate], page: &mut Page) {
    let each = all
        .iter()
        .map(|it| (vec![("policy", it.policy.as_str()), ("direction", it.direction.name())], it));
    page.reports(&each.collect::<Vec<_>>());
}

/// Counters of ACK control. The label `signal` has the same value as `ack_control`; earlier
/// versions had only `signal`.
fn ack_controls(all: &[Aggregate], page: &mut Page) {
    let each = all.iter().filter_map(|it| {
        let control = it.ack_control.as_ref()?;
        let pairs = vec![
            ("policy", it.policy.as_str()),
            ("direction", it.direction.name()),
            ("ack_control", &control.kind),
            ("signal", &control.kind),
        ];
        Some((pairs, control))
    });
    let each: Vec<_> = each.collect();
    page.reports(&each);
    let counts = each.into_iter().map(|(pairs, it)| (pairs, &it.counts));
    page.reports(&counts.collect::<Vec<_>>());
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
    metric("tidegate_trunk_credit_bytes", "gauge", help, |it| Some(text::signed(it.credit_bytes)));
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

#[cfg(test)]
mod tests;
