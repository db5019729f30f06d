//! The state of an aggregate gateway for `tidegate aggregate status` and the control socket. The
//! gateway carries the TCP connections of users over one aggregate connection to its peer gateway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::{Deserialize, Serialize};
use tidegate_core::itcp;
use tidegate_wire::aggregate::Answer;
use tokio::time::Instant;

use super::adjust::Adjuster;
use super::control::Shared;
use super::metrics;
use super::site::Site;
use crate::daemon::{PAGE, answer, unknown};

/// The state of an aggregate gateway. Counters begin at its start. Byte counts include only user
/// payload.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct AggregateStatus {
    /// The version of the program.
    pub(crate) version: String,
    /// Time since the start.
    pub(crate) uptime_ms: u64,
    /// The peer gateway.
    pub(crate) peer: Peer,
    /// Connections of users.
    pub(crate) connections: Connections,
    /// Bytes read from users at this site and passed to the peer.
    pub(crate) sent_bytes: u64,
    /// Bytes received from the peer and written to users at this site.
    pub(crate) received_bytes: u64,
    /// User bytes that have not arrived at the peer.
    pub(crate) queue_bytes: u64,
    /// The queue is full, so no bytes are read from users.
    pub(crate) is_full: bool,
    /// Number of streams that wait for room to write.
    pub(crate) stopped_streams: u64,
    /// Number of invalid headers and control messages.
    pub(crate) bad_messages: u64,
    /// The weight of the aggregate connection.
    pub(crate) weight: Weight,
}

/// The peer gateway, and the connection to it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Peer {
    /// UDP address of the peer.
    pub(crate) address: String,
    /// The aggregate connection is up.
    pub(crate) is_up: bool,
    /// Number of aggregate connections established so far.
    pub(crate) links: u64,
    /// Congestion window.
    pub(crate) window_bytes: u64,
    /// Smoothed round-trip time. `None` while the peer is down.
    pub(crate) rtt_us: Option<u64>,
    /// Minimum round-trip time. `None` while the peer is down.
    pub(crate) least_rtt_us: Option<u64>,
    /// Packets sent on this aggregate connection.
    pub(crate) sent_packets: u64,
    /// Packets lost on this aggregate connection.
    pub(crate) lost_packets: u64,
}

/// Connections of users.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Connections {
    /// Current number of connections.
    pub(crate) now: u64,
    /// Maximum number of connections.
    pub(crate) most: u64,
    /// Connections of clients accepted at this site.
    pub(crate) taken: u64,
    /// Connections to servers at this site, opened for clients of the peer's site.
    pub(crate) opened: u64,
    /// Connections of clients that were reset at once, by reason: `full` or `peer-down`.
    pub(crate) refused: BTreeMap<String, u64>,
    /// Connections that the peer could not open, by reason.
    pub(crate) failed: BTreeMap<String, u64>,
    /// Connections that one end has reset, or that broke with the aggregate connection.
    pub(crate) reset: u64,
    /// Connections whose host at this site has accepted no bytes for a second.
    #[serde(default)]
    pub(crate) stalled: u64,
    /// Connections that the gateway has reset because they were stalled and other connections
    /// needed the window that their bytes occupied. `reset` includes them.
    #[serde(default)]
    pub(crate) expelled: u64,
    /// Connections whose acknowledged bytes never reached the server, because the aggregate
    /// connection broke after the client had closed.
    pub(crate) lost_after_close: u64,
}

/// The weight of the aggregate connection, and the last measurement for it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Weight {
    /// `fixed`, `literal` or `measured`.
    pub(crate) kind: String,
    /// The weight in force, in thousandths.
    pub(crate) thousandths: u64,
    /// The last measurement. `None` before the first.
    pub(crate) round: Option<Round>,
    /// Number of measurements by outcome.
    pub(crate) decisions: BTreeMap<String, u64>,
}

/// A measurement over a period of time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Round {
    /// Share of the time in which bytes waited for the aggregate connection, in thousandths.
    pub(crate) busy_thousandths: u64,
    /// Rate at which bytes arrived from users, `a` in the formula of the weight.
    pub(crate) offered_bps: u64,
    /// Rate at which bytes were sent.
    pub(crate) sent_bps: u64,
    /// Rate of the aggregate connection while bytes waited, `s` in the formula of the weight.
    /// `None` if no bytes waited long enough.
    pub(crate) service_bps: Option<u64>,
    /// Growth of the queue in bytes per second.
    pub(crate) slope: i64,
    /// Mean length of the queue.
    pub(crate) queue_bytes: u64,
}

/// The parts of the gateway from which the status is collected.
#[derive(Clone)]
pub(super) struct StatusSources {
    pub(super) site: Arc<Site>,
    pub(super) shared: Arc<Shared>,
    pub(super) adjuster: Arc<Adjuster>,
    pub(super) started: Instant,
}

impl StatusSources {
    /// The routes of the control socket, and the routes of the metrics.
    pub(super) fn routes(self) -> [Router; 2] {
        let routes = Router::new()
            .route("/v1/aggregate", get(answer_status))
            .fallback(unknown)
            .method_not_allowed_fallback(unknown)
            .with_state(self.clone());
        let pages = Router::new().route("/metrics", get(scrape)).with_state(self);
        [routes, pages]
    }

    /// The current status.
    pub(super) fn status(&self) -> AggregateStatus {
        let (site, counters) = (&self.site, &self.site.counters);
        let observed = self.shared.observed();
        AggregateStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: millis(self.started.elapsed()),
            peer: self.peer(observed.window),
            connections: connections(site),
            sent_bytes: counters.sent.get(),
            received_bytes: counters.received.get(),
            queue_bytes: site.queue.held().saturating_sub(observed.in_flight),
            is_full: site.queue.is_full(),
            stopped_streams: site.stopped(),
            bad_messages: counters.bad_messages.get(),
            weight: self.weight(),
        }
    }

    fn peer(&self, window_bytes: u64) -> Peer {
        let link = self.site.link();
        let stats = link.as_ref().map(|it| it.connection.stats().path).unwrap_or_default();
        Peer {
            address: self.site.config.peer.to_string(),
            is_up: link.is_some(),
            links: self.site.counters.links.get(),
            window_bytes,
            rtt_us: link.as_ref().map(|it| micros(it.connection.rtt())),
            least_rtt_us: link.as_ref().map(|it| micros(it.connection.min_rtt())),
            sent_packets: stats.sent_packets,
            lost_packets: stats.lost_packets,
        }
    }

    fn weight(&self) -> Weight {
        let report = self.adjuster.report();
        let itcp::Decisions { increased, forced, decreased, held, abandoned } = report.decisions;
        let decisions = [
            ("increased", increased),
            ("forced", forced),
            ("decreased", decreased),
            ("held", held),
            ("abandoned", abandoned),
        ];
        Weight {
            kind: self.site.config.weight.kind.name().to_owned(),
            thousandths: self.shared.weight().millionths() / 1_000,
            round: report.last.map(|it| Round {
                busy_thousandths: it.busy.millionths() / 1_000,
                offered_bps: it.offered.bps(),
                sent_bps: it.sent.bps(),
                service_bps: it.service.map(|rate| rate.bps()),
                slope: it.slope,
                queue_bytes: it.queue.0,
            }),
            decisions: named(decisions),
        }
    }
}

fn connections(site: &Site) -> Connections {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let counters = &site.counters;
    let failed = Answer::FAILURES.map(Answer::name).into_iter();
    Connections {
        now: count(site.connections()),
        most: count(site.most),
        taken: counters.taken.get(),
        opened: counters.opened.get(),
        refused: named([("full", counters.full.get()), ("peer-down", counters.peer_down.get())]),
        failed: named(failed.zip(counters.failed.iter().map(super::counters::Counter::get))),
        reset: counters.reset.get(),
        stalled: site.link().map_or(0, |it| count(it.stalls.count())),
        expelled: counters.expelled.get(),
        lost_after_close: counters.lost_after_close.get(),
    }
}

/// The counters that are not zero, by name.
fn named<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    let some = counts.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(name, count)| (name.to_owned(), count)).collect()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

async fn answer_status(State(sources): State<StatusSources>) -> Response {
    answer(Ok(sources.status()))
}

async fn scrape(State(sources): State<StatusSources>) -> Response {
    (PAGE, metrics::page(&sources.status())).into_response()
}
