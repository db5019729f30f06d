//! The queue of the aggregate connection, which carries the bytes of all users to the peer gateway.
//! The queue consists of user bytes that were read at this site and have not arrived at the peer.
//!
//! Differs: QUIC reports which packets arrived, not how many user bytes they carried. The user
//! bytes are estimated from the share of payload in a full packet. Whenever no bytes wait, the
//! estimate is corrected, because the queue then consists of the bytes in flight.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The queue of the aggregate connection of a gateway.
#[derive(Debug)]
pub(super) struct Queue {
    /// Maximum number of bytes in the queue. While it is full, no bytes are read from users.
    most: u64,
    /// Bytes of users handed to the aggregate connection since the start.
    written: AtomicU64,
    /// Estimate: how many of these bytes have arrived at the peer, or were lost with a connection.
    settled: AtomicU64,
    /// Wakes one of the tasks that wait for room.
    room: Notify,
}

impl Queue {
    /// An empty queue that holds at most `most` bytes.
    pub(super) fn new(most: u64) -> Self {
        let (written, settled) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { most, written, settled, room: Notify::new() }
    }

    /// Bytes that have not arrived at the peer: waiting or in flight.
    pub(super) fn held(&self) -> u64 {
        let written = self.written.load(Ordering::Relaxed);
        written.saturating_sub(self.settled.load(Ordering::Relaxed))
    }

    /// Bytes of users handed to the aggregate connection since the start.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns `true` if the queue is full, so no bytes are read from users.
    pub(super) fn is_full(&self) -> bool {
        self.held() >= self.most
    }

    /// Waits until the queue has room. Tasks are woken in the order of their calls.
    pub(super) async fn room(&self) {
        if !self.is_full() {
            return;
        }
        loop {
            self.room.notified().await;
            if !self.is_full() {
                // There may be room for another waiting task too.
                self.room.notify_one();
                return;
            }
        }
    }

    /// Adds `bytes` that were handed to the aggregate connection.
    pub(super) fn put(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes about `bytes` that have arrived at the peer.
    pub(super) fn arrived(&self, bytes: u64) {
        self.settled.fetch_add(bytes.min(self.held()), Ordering::Relaxed);
        self.wake_one();
    }

    /// Corrects the estimate at a time when no bytes wait: about `in_flight` bytes have not
    /// arrived.
    pub(super) fn drained(&self, in_flight: u64) {
        let written = self.written.load(Ordering::Relaxed);
        self.settled.store(written.saturating_sub(in_flight), Ordering::Relaxed);
        self.wake_one();
    }

    fn wake_one(&self) {
        if !self.is_full() {
            self.room.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Catches: a waiting task that is never woken; bytes read although the queue is full; an
    /// estimate of more arrived bytes than were written.
    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn readers_wait_while_the_queue_is_full_and_all_continue_afterwards() {
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
        // At 99 bytes, one more task may read. At 139, none may.
        assert_eq!((done.load(Ordering::Relaxed), queue.held()), (1, 139));
        queue.drained(0);
        settle().await;
        assert_eq!((done.load(Ordering::Relaxed), queue.held()), (3, 80));
        queue.arrived(1_000);
        assert_eq!((queue.held(), queue.written()), (0, 220));
    }
}
