//! Starts an aggregate gateway, and runs it until it is told to stop.

use std::path::Path;
use std::sync::Arc;

use tidegate_config::aggregate::{AggregateConfig, PeerDown};

use super::keys::Keys;
use super::site::Site;
use super::transparent::Transparent;
use super::{listener, peer, transport};
use crate::code::Code;
use crate::output::Failure;

/// A gateway that takes connections while this exists.
pub(crate) struct Gateway {
    site: Arc<Site>,
    endpoint: quinn::Endpoint,
    opens: bool,
    listeners: Vec<tokio::net::TcpListener>,
    transparent: Transparent,
}

impl Gateway {
    /// Opens its sockets and installs its rules. Must be called within the runtime.
    pub(crate) fn start(config: AggregateConfig) -> Result<Self, Failure> {
        let keys = Keys::read(Path::new(&config.key_file), config.peer_key)?;
        let seats = listener::seats(config.max_connections)?;
        let site = Arc::new(Site::new(config, seats));
        let config = &site.config;
        let control = Arc::new(quinn::congestion::CubicConfig::default());
        let endpoint = transport::endpoint(config, &keys, seats, control).map_err(|error| {
            let message = format!("cannot listen on {}: {error}", config.listen);
            Failure::new(Code::NoSocket, message)
        })?;
        let listeners = listener::listeners()?;
        let addresses = listeners.iter().filter_map(|it| it.local_addr().ok()).collect();
        let transparent = Transparent::install(config.destinations.clone(), addresses)?;
        Ok(Self { opens: keys.opens(), site, endpoint, listeners, transparent })
    }

    /// Carries connections until dropped. Returns if it cannot go on.
    pub(crate) async fn run(self) {
        let Self { site, endpoint, opens, listeners, transparent } = self;
        for listener in listeners {
            tokio::spawn(listener::serve(site.clone(), listener));
        }
        tokio::select! {
            () = peer::keep(site.clone(), endpoint.clone(), opens) => {}
            () = follow(&site, &transparent) => {}
        }
    }
}

/// Takes new connections as the file says: always, or while the peer is up.
async fn follow(site: &Site, transparent: &Transparent) {
    let mut link = site.link.subscribe();
    let mut taken = None;
    loop {
        let up = link.borrow_and_update().is_some();
        let take = up || site.config.on_peer_down == PeerDown::Refuse;
        if taken != Some(take) {
            // The rules are one transaction; without them connections are routed past.
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
