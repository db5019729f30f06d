//! Adjusts the weight of the aggregate connection to the measured load, with the rate adjuster of
//! the core crate. The *aggregate connection* is the QUIC connection to the peer gateway, which
//! carries the TCP connections of all users. The measurements use a monotonic clock, so changes of
//! the host's time of day have no effect.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::itcp::{AdjusterReport, GatewayLoad, RateAdjuster};
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Time};
use tokio::time::{Instant, sleep};

use super::control::Shared;
use super::site::Site;

/// The rate adjuster of a gateway.
#[derive(Debug)]
pub(super) struct Adjuster {
    adjuster: Mutex<RateAdjuster>,
    started: Instant,
}

impl Adjuster {
    /// Creates a rate adjuster that first waits for a random time, which depends on `seed`.
    /// Gateways with different seeds thus do not adjust at the same times.
    pub(super) fn new(site: &Site, seed: u64) -> Self {
        let random = Random::named(seed, &["rate adjuster"]);
        let adjuster = RateAdjuster::new(&site.config.weight, random, Time::ZERO);
        Self { adjuster: Mutex::new(adjuster), started: Instant::now() }
    }

    fn adjuster(&self) -> MutexGuard<'_, RateAdjuster> {
        self.adjuster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest measurement, and how many decisions of each kind the adjuster has made.
    pub(super) fn report(&self) -> AdjusterReport {
        self.adjuster().report()
    }

    /// Measures and adjusts the weight until dropped.
    pub(super) async fn run(&self, site: &Arc<Site>, shared: &Shared) {
        shared.set_weight(self.adjuster().weight());
        let mut warned = None;
        loop {
            let due = self.adjuster().poll_timeout();
            let now = Time::ZERO + self.started.elapsed();
            sleep(due.since(now).max(LEAST)).await;
            let now = Time::ZERO + self.started.elapsed();
            let seen = seen(site, shared);
            let wrong = seen.least_rtt.and_then(|rtt| site.config.weight.check_path(rtt).err());
            if wrong != warned {
                warned = wrong;
                wrong.inspect(|words| tracing::warn!("weight: {words}"));
            }
            let weight = self.adjuster().handle_timeout(now, &seen);
            if let Some(weight) = weight {
                shared.set_weight(weight);
                tracing::debug!("weight {weight}");
            }
        }
    }
}

/// Shortest sleep: the resolution of the timer.
const LEAST: Duration = Duration::from_millis(1);

/// One measurement of the gateway.
fn seen(site: &Site, shared: &Shared) -> GatewayLoad {
    let observed = shared.observed();
    let least_rtt = site.link().map(|it| it.connection.min_rtt()).filter(|it| !it.is_zero());
    let stopped = observed.waits && site.stopped() > 0;
    GatewayLoad {
        queue: Bytes(site.queue.held().saturating_sub(observed.in_flight)),
        arrived: site.queue.written(),
        sent: observed.sent,
        sent_busy: observed.sent_busy,
        busy: observed.busy,
        blocked: site.queue.is_full() || stopped,
        window: Bytes(observed.window),
        least_rtt,
        connections: u32::try_from(site.connections()).unwrap_or(u32::MAX),
    }
}
