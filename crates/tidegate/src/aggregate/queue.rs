//! The queue in front of the aggregate connection: bytes of users that were read here and have not arrived.
//!
//! Differs: QUIC does not tell which bytes of users arrived, only which packets. Their payload is estimated with the
//! share of payload in a full packet. An estimate that is off is corrected each time nothing waits: the queue is then
//! what is in flight.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The queue of a gateway in front of its aggregate connection.
#[derive(Debug)]
pub(super) struct Queue {
    /// No more is read from users while so many bytes wait.
    most: u64,
    /// Bytes of users handed to the aggregate connection since the start.
    written: AtomicU64,
    /// Of these, estimated bytes that have arrived at the peer, or were lost with a connection.
    settled: AtomicU64,
    /// Tells one of those who wait for room.
    room: Notify,
}

impl Queue {
    /// An empty queue that holds at most `most` bytes.
    pub(super) fn new(most: u64) -> Self {
        let (written, settled) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { most, written, settled, room: Notify::new() }
    }

    /// Bytes that have not arrived: those that wait and those in flight.
    pub(super) fn held(&self) -> u64 {
        let written = self.written.load(Ordering::Relaxed);
        written.saturating_sub(self.settled.load(Ordering::Relaxed))
    }

    /// Bytes of users handed to the aggregate connection since the start.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Tells if users are stopped because the queue is full.
    pub(super) fn is_full(&self) -> bool {
        self.held() >= self.most
    }

    /// Waits until there is room, in the order of the calls.
    pub(super) async fn room(&self) {
        if !self.is_full() {
            return;
        }
        loop {
            self.room.notified().await;
            if !self.is_full() {
                // There may be room for another one.
                self.room.notify_one();
                return;
            }
        }
    }

    /// So many bytes were handed to the aggregate connection.
    pub(super) fn put(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// About so many bytes have arrived.
    pub(super) fn arrived(&self, bytes: u64) {
        self.settled.fetch_add(bytes.min(self.held()), Ordering::Relaxed);
        self.tell();
    }

    /// Nothing waits; about `in_flight` bytes have not arrived.
    pub(super) fn drained(&self, in_flight: u64) {
        let written = self.written.load(Ordering::Relaxed);
        self.settled.store(written.saturating_sub(in_flight), Ordering::Relaxed);
        self.tell();
    }

    fn tell(&self) {
        if !self.is_full() {
            self.room.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Kills: a wake-up that is lost; readers let in while the queue is full; more settled than was written.
    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn readers_wait_while_it_is_full_and_all_go_on_when_it_is_not() {
        let queue = Arc::new(Queue::new(100));
        queue.room().await;
        queue.put(100);
        let done = Arc::new(AtomicU64::new(0));
        for _ in 0..3 {
            let (queue, done) = (queue.clone(), done.clone());
            tokio::spawn(async move {
                queue.room().await;
                queue.put(40);
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        let settle = || tokio::time::sleep(std::time::Duration::from_millis(1));
        settle().await;
        assert_eq!((done.load(Ordering::Relaxed), queue.held()), (0, 100));
        queue.arrived(1);
        settle().await;
        // One more is let in at 99, and none at 139.
        assert_eq!((done.load(Ordering::Relaxed), queue.held()), (1, 139));
        queue.drained(0);
        settle().await;
        assert_eq!((done.load(Ordering::Relaxed), queue.held()), (3, 80));
        queue.arrived(1_000);
        assert_eq!((queue.held(), queue.written()), (0, 220));
    }
}
