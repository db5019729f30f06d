//! The state that all tasks of an aggregate gateway share. The gateway carries the TCP connections
//! of users over one aggregate connection to its peer gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_config::aggregate::AggregateConfig;
use tokio::sync::{Semaphore, watch};

use super::counters::Counters;
use super::link::Link;
use super::queue::Queue;

/// The gateway at this site. Its peer gateway runs at another site.
#[derive(Debug)]
pub(super) struct Site {
    /// The configuration file.
    pub(super) config: AggregateConfig,
    /// The counters of this gateway.
    pub(super) counters: Counters,
    /// Permits for users' TCP connections, `max_connections` in all. Each connection holds one.
    pub(super) permits: Arc<Semaphore>,
    /// Total number of permits.
    pub(super) most: usize,
    /// The queue of the aggregate connection.
    pub(super) queue: Arc<Queue>,
    /// Number of streams that wait for room in the queue, or for the peer's flow control.
    pub(super) stopped: AtomicU64,
    /// The aggregate connection, while the peer is up.
    pub(super) link: watch::Sender<Option<Arc<Link>>>,
}

impl Site {
    /// A gateway that permits `most` connections and has none yet.
    pub(super) fn new(config: AggregateConfig, most: usize) -> Self {
        Self {
            queue: Arc::new(Queue::new(config.max_queue.0)),
            config,
            counters: Counters::default(),
            permits: Arc::new(Semaphore::new(most)),
            most,
            stopped: AtomicU64::new(0),
            link: watch::Sender::new(None),
        }
    }

    /// The aggregate connection, if the peer is up.
    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.link.borrow().clone()
    }

    /// Number of streams that wait for room to write.
    pub(super) fn stopped(&self) -> u64 {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Number of users' TCP connections.
    pub(super) fn connections(&self) -> usize {
        self.most.saturating_sub(self.permits.available_permits())
    }
}
