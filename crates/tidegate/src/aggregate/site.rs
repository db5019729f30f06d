//! The state shared by all tasks of a gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_config::aggregate::AggregateConfig;
use tokio::sync::{Semaphore, watch};

use super::counters::Counters;
use super::link::Link;
use super::queue::Queue;

/// A gateway at one of the two sites.
#[derive(Debug)]
pub(super) struct Site {
    /// Content of its file.
    pub(super) config: AggregateConfig,
    /// Its counters.
    pub(super) counters: Counters,
    /// Seats for TCP connections: `max_connections`.
    pub(super) seats: Arc<Semaphore>,
    /// The number of seats.
    pub(super) most: usize,
    /// The queue of the aggregate connection.
    pub(super) queue: Arc<Queue>,
    /// Streams that wait for room here, or for flow-control credit of the peer.
    pub(super) stopped: AtomicU64,
    /// The aggregate connection, while the peer is up.
    pub(super) link: watch::Sender<Option<Arc<Link>>>,
}

impl Site {
    /// A gateway without connections, with `most` seats.
    pub(super) fn new(config: AggregateConfig, most: usize) -> Self {
        Self {
            queue: Arc::new(Queue::new(config.max_queue.0)),
            config,
            counters: Counters::default(),
            seats: Arc::new(Semaphore::new(most)),
            most,
            stopped: AtomicU64::new(0),
            link: watch::Sender::new(None),
        }
    }

    /// The aggregate connection, if the peer is up.
    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.link.borrow().clone()
    }

    /// Number of streams that wait to write.
    pub(super) fn stopped(&self) -> u64 {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Number of TCP connections.
    pub(super) fn connections(&self) -> usize {
        self.most.saturating_sub(self.seats.available_permits())
    }
}
