//! The metrics of an aggregate gateway, which carries the TCP connections of users over one
//! connection to its peer gateway. The number of label values does not depend on traffic.

use std::collections::BTreeMap;

use super::status::AggregateStatus;
use crate::daemon::{Labels, Page, float, labels};

/// Formats `status` as metrics.
pub(crate) fn page(status: &AggregateStatus) -> String {
    let mut page = Page::default();
    peer(status, &mut page);
    connections(status, &mut page);
    weight(status, &mut page);
    page.into_text()
}

fn one(value: f64) -> [(Labels, f64); 1] {
    [(labels(&[]), value)]
}

fn by(label: &str, counts: &BTreeMap<String, u64>) -> Vec<(Labels, f64)> {
    counts.iter().map(|(name, n)| (labels(&[(label, name)]), float(*n))).collect()
}

fn peer(status: &AggregateStatus, page: &mut Page) {
    let peer = &status.peer;
    let mut metric = |name: &str, kind: &str, help: &str, value: f64| {
        page.metric(name, kind, help, one(value));
    };
    let up = f64::from(u8::from(peer.is_up));
    metric("tidegate_aggregate_peer_up", "gauge", "1 if the aggregate connection is up.", up);
    let links = float(peer.links);
    let help = "Aggregate connections established since the start.";
    metric("tidegate_aggregate_links_total", "counter", help, links);
    let help = "Congestion window of the aggregate connection.";
    metric("tidegate_aggregate_window_bytes", "gauge", help, float(peer.window_bytes));
    if let Some(rtt) = peer.rtt_us {
        let help = "Smoothed round-trip time of the aggregate connection.";
        metric("tidegate_aggregate_rtt_seconds", "gauge", help, float(rtt) / 1e6);
    }
}

fn connections(status: &AggregateStatus, page: &mut Page) {
    let it = &status.connections;
    let help = "Connections of users now.";
    page.metric("tidegate_aggregate_connections", "gauge", help, one(float(it.now)));
    let help = "Connections of clients that were accepted at this site.";
    page.metric("tidegate_aggregate_taken_total", "counter", help, one(float(it.taken)));
    let help = "Connections to servers at this site that were opened for the peer.";
    page.metric("tidegate_aggregate_opened_total", "counter", help, one(float(it.opened)));
    let help = "Connections of clients that were reset at once.";
    page.metric("tidegate_aggregate_refused_total", "counter", help, by("reason", &it.refused));
    let help = "Connections that could not be opened to their server.";
    page.metric("tidegate_aggregate_failed_total", "counter", help, by("reason", &it.failed));
    let help = "Connections that an end has reset, or that broke with the aggregate connection.";
    page.metric("tidegate_aggregate_reset_total", "counter", help, one(float(it.reset)));
    let help = "Connections whose host at this site accepts no bytes.";
    page.metric("tidegate_aggregate_stalled_connections", "gauge", help, one(float(it.stalled)));
    let help = "Connections that were reset because they were stalled and others needed their share of the window.";
    page.metric("tidegate_aggregate_expelled_total", "counter", help, one(float(it.expelled)));
    let help = "Connections that lost acknowledged bytes after their client had closed, because the peer failed.";
    let lost = one(float(it.lost_after_close));
    page.metric("tidegate_aggregate_lost_after_close_total", "counter", help, lost);
    let help = "Payload read from users at this site and passed to the peer.";
    page.metric(
        "tidegate_aggregate_sent_bytes_total",
        "counter",
        help,
        one(float(status.sent_bytes)),
    );
    let help = "Payload received from the peer and written to users at this site.";
    let received = one(float(status.received_bytes));
    page.metric("tidegate_aggregate_received_bytes_total", "counter", help, received);
    let help = "Headers and control messages of the peer that could not be used.";
    let bad = one(float(status.bad_messages));
    page.metric("tidegate_aggregate_bad_messages_total", "counter", help, bad);
    let help = "Payload that waits for the aggregate connection.";
    page.metric("tidegate_aggregate_queue_bytes", "gauge", help, one(float(status.queue_bytes)));
}

fn weight(status: &AggregateStatus, page: &mut Page) {
    let it = &status.weight;
    let help = "Weight of the aggregate connection.";
    let weight = float(it.thousandths) / 1e3;
    page.metric("tidegate_aggregate_weight", "gauge", help, one(weight));
    let help = "Measurements of the rate adjuster, by decision.";
    let decisions = by("decision", &it.decisions);
    page.metric("tidegate_aggregate_decisions_total", "counter", help, decisions);
    let Some(round) = &it.round else { return };
    let help = "Part of the last measurement in which bytes waited for the aggregate connection.";
    let busy = one(float(round.busy_thousandths) / 1e3);
    page.metric("tidegate_aggregate_busy_ratio", "gauge", help, busy);
    let help = "Payload per second that users offered during the last measurement.";
    let offered = one(float(round.offered_bps) / 8.0);
    page.metric("tidegate_aggregate_offered_bytes_per_second", "gauge", help, offered);
    if let Some(service) = round.service_bps {
        let help = "Payload per second of the aggregate connection while bytes waited, during the last measurement.";
        let service = one(float(service) / 8.0);
        page.metric("tidegate_aggregate_service_bytes_per_second", "gauge", help, service);
    }
}

/// A page that contains every metric.
#[cfg(test)]
pub(crate) fn page_of_a_test() -> String {
    let mut status = AggregateStatus::default();
    status.peer.rtt_us = Some(1);
    status.weight.round = Some(super::status::Round { service_bps: Some(8), ..Default::default() });
    let one = |name: &str| BTreeMap::from([(name.to_owned(), 1)]);
    (status.connections.refused, status.connections.failed) = (one("full"), one("refused"));
    status.weight.decisions = one("held");
    page(&status)
}
