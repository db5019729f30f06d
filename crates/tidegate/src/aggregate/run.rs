//! Starts an aggregate gateway and runs it until it is stopped. The gateway carries the TCP
//! connections of users over one aggregate connection to its peer gateway.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use quinn::VarInt;
use tidegate_config::aggregate::{AggregateConfig, PeerDown};
use tokio::time::{Instant, timeout};

use super::adjust::Adjuster;
use super::control::{Factory, Shared};
use super::keys::Keys;
use super::site::Site;
use super::status::StatusSources;
use super::transparent::Transparent;
use super::{listener, peer, transport};
use crate::code::Code;
use crate::output::Failure;

/// A running gateway. Dropping the value closes its sockets and removes its firewall rules.
pub(crate) struct Gateway {
    sources: StatusSources,
    endpoint: quinn::Endpoint,
    opens: bool,
    listeners: Vec<tokio::net::TcpListener>,
    transparent: Transparent,
}

impl Gateway {
    /// Opens the sockets and installs the firewall rules. Must be called within the async runtime.
    pub(crate) fn start(config: AggregateConfig) -> Result<Self, Failure> {
        let keys = Keys::read(Path::new(&config.key_file), config.peer_key)?;
        let most = listener::most_connections(config.max_connections)?;
        let (sources, endpoint) = prepare(config, &keys, most)?;
        let listeners = listener::listeners()?;
        let addresses = listeners.iter().filter_map(|it| it.local_addr().ok()).collect();
        let destinations = sources.site.config.destinations.clone();
        let transparent = Transparent::install(destinations, addresses)?;
        Ok(Self { opens: keys.opens(), sources, endpoint, listeners, transparent })
    }

    /// The routes of the control socket, and the routes of the metrics.
    pub(crate) fn routes(&self) -> [Router; 2] {
        self.sources.clone().routes()
    }

    /// A handle that notifies the peer when the gateway ends.
    pub(crate) fn farewell(&self) -> Farewell {
        Farewell(self.endpoint.clone())
    }

    /// Serves connections until dropped. Returns only after a fatal fault.
    pub(crate) async fn run(self) {
        let Self { sources, endpoint, opens, listeners, transparent } = self;
        let StatusSources { site, shared, adjuster, .. } = sources;
        for listener in listeners {
            tokio::spawn(listener::serve(site.clone(), listener));
        }
        tokio::select! {
            () = peer::keep(site.clone(), endpoint, opens) => {}
            () = follow(&site, &transparent) => {}
            () = adjuster.run(&site, &shared) => {}
        }
    }
}

/// Notifies the peer that this gateway ends.
pub(crate) struct Farewell(quinn::Endpoint);

/// Time limit for this notification: a few round trips.
const FAREWELL: Duration = Duration::from_millis(200);

impl Farewell {
    /// Closes the aggregate connection. The peer then need not wait for its keepalive timeout.
    pub(crate) async fn say(self) {
        self.0.close(VarInt::from_u32(0), b"stopped");
        // The result is ignored: a peer that is down does not answer.
        let _ = timeout(FAREWELL, self.0.wait_idle()).await;
    }
}

/// Creates the parts of a gateway that need no privileges.
pub(super) fn prepare(
    config: AggregateConfig,
    keys: &Keys,
    most: usize,
) -> Result<(StatusSources, quinn::Endpoint), Failure> {
    let site = Arc::new(Site::new(config, most));
    let started = Instant::now();
    let weight = site.config.weight.weight;
    let shared = Arc::new(Shared::new(site.queue.clone(), weight, started.into_std()));
    let control = Arc::new(Factory(shared.clone()));
    let endpoint = transport::endpoint(&site.config, keys, most, control).map_err(|error| {
        let message = format!("cannot listen on {}: {error}", site.config.listen);
        Failure::new(Code::NoSocket, message)
    })?;
    let seed = keys.derive("rate adjuster").first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
    let adjuster = Arc::new(Adjuster::new(&site, seed));
    Ok((StatusSources { site, shared, adjuster, started }, endpoint))
}

/// Installs the redirection of new connections that the configuration demands: always, or only
/// while the peer is up.
async fn follow(site: &Site, transparent: &Transparent) {
    let mut link = site.link.subscribe();
    let mut taken = None;
    loop {
        let up = link.borrow_and_update().is_some();
        let take = up || site.config.on_peer_down == PeerDown::Refuse;
        if taken != Some(take) {
            // The firewall rules change in one transaction. If they are missing, connections bypass
            // the gateway.
            match transparent.take(take) {
                Ok(()) => taken = Some(take),
                Err(failure) => tracing::error!("{}", failure.message),
            }
        }
        if link.changed().await.is_err() {
            return;
        }
    }
}
