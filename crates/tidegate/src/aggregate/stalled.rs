//! Stalled streams. The aggregate connection to the peer gateway has one stream for each TCP
//! connection. If a host does not read, the bytes for it must not use up the window that all
//! streams share.
//!
//! A stream is *stalled* if its TCP connection at this site has accepted no bytes for [`PATIENCE`].
//! Its bytes wait here, at most `stream_queue` of them (the stream's flow-control window). They
//! also count against the flow-control window of the whole connection. The connection's window
//! grows by `stream_queue` for each stalled stream:
//!
//! ```text
//! window = max_queue + min(stalled, most) · stream_queue,   most = max_queue / stream_queue
//! ```
//!
//! All other streams together thus always have `max_queue`. If more than `most` streams are
//! stalled, the connection of the longest-stalled stream is reset (the stream is *expelled*). At
//! most `2 · max_queue` bytes wait.
//!
//! Source: RFC 9000, section 4.1 (flow control of streams and connections); `tcp_max_orphans` of
//! Linux, `tcp(7)`, which also resets connections to bound the memory of unresponsive hosts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quinn::{Connection, VarInt};
use tidegate_config::aggregate::AggregateConfig;
use tokio::sync::Notify;

/// A TCP connection that accepts no bytes for this time is stalled. One lost packet must not stall
/// a connection, so this is TCP's initial retransmission timeout (RFC 6298, section 2.1). Before
/// this time is over, the stream may delay others.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The stalled streams of one aggregate connection.
#[derive(Debug)]
pub(super) struct Stalls {
    connection: Connection,
    max_queue: u64,
    stream_queue: u64,
    streams: Mutex<Streams>,
}

/// Stalled streams, in the order in which they became stalled.
#[derive(Debug, Default)]
struct Streams {
    next: u64,
    stalled: BTreeMap<u64, Arc<Notify>>,
}

impl Stalls {
    /// A record without stalled streams.
    pub(super) fn new(connection: Connection, config: &AggregateConfig) -> Self {
        let (max_queue, stream_queue) = (config.max_queue.0, config.stream_queue.0.max(1));
        Self { connection, max_queue, stream_queue, streams: Mutex::default() }
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of stalled streams.
    pub(super) fn count(&self) -> usize {
        self.streams().stalled.len()
    }

    /// Marks a stream as stalled until the returned value is dropped.
    pub(super) fn add(&self) -> Stall<'_> {
        let expelled = Arc::new(Notify::new());
        let mut streams = self.streams();
        let number = streams.next;
        streams.next += 1;
        streams.stalled.insert(number, expelled.clone());
        self.make_room(&streams);
        Stall { stalls: self, number, expelled }
    }

    /// Sets the window of the connection. Expels the longest-stalled stream if there are too many.
    fn make_room(&self, streams: &Streams) {
        let most = self.max_queue / self.stream_queue;
        let stalled = u64::try_from(streams.stalled.len()).unwrap_or(u64::MAX);
        let window = self.max_queue.saturating_add(stalled.min(most) * self.stream_queue);
        self.connection.set_receive_window(VarInt::from_u64(window).unwrap_or(VarInt::MAX));
        let excess = usize::try_from(stalled.saturating_sub(most)).unwrap_or(usize::MAX);
        streams.stalled.values().take(excess).for_each(|it| it.notify_one());
    }
}

/// The mark of one stalled stream.
#[derive(Debug)]
pub(super) struct Stall<'a> {
    stalls: &'a Stalls,
    number: u64,
    expelled: Arc<Notify>,
}

impl Stall<'_> {
    /// Waits until the stream is expelled.
    pub(super) async fn expelled(&self) {
        self.expelled.notified().await;
    }
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        let mut streams = self.stalls.streams();
        streams.stalled.remove(&self.number);
        self.stalls.make_room(&streams);
    }
}
