//! Starts an aggregate gateway, and runs it until it is stopped.

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

/// A gateway that accepts connections while this value exists.
pub(crate) struct Gateway {
    sources: StatusSources,
    endpoint: quinn::Endpoint,
    opens: bool,
    listeners: Vec<tokio::net::TcpListener>,
    transparent: Transparent,
}

impl Gateway {
    /// Opens the sockets and installs the rules. Must be called within the runtime.
    pub(crate) fn start(config: AggregateConfig) -> Result<Self, Failure> {
        let keys = Keys::read(Path::new(&config.key_file), config.peer_key)?;
        let seats = listener::seats(config.max_connections)?;
        let (sources, endpoint) = prepare(config, &keys, seats)?;
        let listeners = listener::listeners()?;
        let addresses = listeners.iter().filter_map(|it| it.local_addr().ok()).collect();
        let destinations = sources.site.config.destinations.clone();
        let transparent = Transparent::install(destinations, addresses)?;
        Ok(Self { opens: keys.opens(), sources, endpoint, listeners, transparent })
    }

    /// The routes of the control socket, and those of the metrics.
    pub(crate) fn routes(&self) -> [Router; 2] {
        self.sources.clone().routes()
    }

    /// The farewell to the peer, for the end of the gateway.
    pub(crate) fn farewell(&self) -> Farewell {
        Farewell(self.endpoint.clone())
    }

    /// Carries connections until dropped. Returns after a fatal fault.
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

/// Time limit of the farewell: some round trips.
const FAREWELL: Duration = Duration::from_millis(200);

impl Farewell {
    /// Closes the aggregate connection, so that the peer need not wait for its keepalive timeout.
    pub(crate) async fn say(self) {
        self.0.close(VarInt::from_u32(0), b"stopped");
        // A peer that is down does not answer.
        let _ = timeout(FAREWELL, self.0.wait_idle()).await;
    }
}

/// The parts of a gateway that need no privileges.
pub(super) fn prepare(
    config: AggregateConfig,
    keys: &Keys,
    seats: usize,
) -> Result<(StatusSources, quinn::Endpoint), Failure> {
    let site = Arc::new(Site::new(config, seats));
    let started = Instant::now();
    let weight = site.config.weight.weight;
    let shared = Arc::new(Shared::new(site.queue.clone(), weight, started.into_std()));
    let control = Arc::new(Factory(shared.clone()));
    let endpoint = transport::endpoint(&site.config, keys, seats, control).map_err(|error| {
        let message = format!("cannot listen on {}: {error}", site.config.listen);
        Failure::new(Code::NoSocket, message)
    })?;
    let seed = keys.derive("rate adjuster").first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
    let adjuster = Arc::new(Adjuster::new(&site, seed));
    Ok((StatusSources { site, shared, adjuster, started }, endpoint))
}

/// Accepts new connections according to the file: always, or while the peer is up.
async fn follow(site: &Site, transparent: &Transparent) {
    let mut link = site.link.subscribe();
    let mut taken = None;
    loop {
        let up = link.borrow_and_update().is_some();
        let take = up || site.config.on_peer_down == PeerDown::Refuse;
        if taken != Some(take) {
            // The rules are one transaction. Without them, connections are routed past.
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
