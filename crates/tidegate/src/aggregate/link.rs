//! The *aggregate connection* is the QUIC connection to the peer gateway. Each stream
//! carries one TCP connection of a user. A *confirmation* states that the TCP connection at one
//! site has acknowledged all bytes of its stream.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quinn::{Connection, RecvStream, SendStream};
use tokio::sync::{Notify, mpsc};

use tidegate_config::aggregate::AggregateConfig;
use tidegate_wire::aggregate::{CONFIRMATION, Confirmation};

use super::stalled::Stalls;

/// One aggregate connection, while it lasts.
#[derive(Debug)]
pub(super) struct Link {
    /// The QUIC connection.
    pub(super) connection: Connection,
    /// Numbers of streams to confirm to the peer, because their TCP connection at this site has
    /// acknowledged all bytes.
    confirmed: mpsc::UnboundedSender<Confirmation>,
    /// Streams whose confirmation by the peer is awaited, by number.
    waiting: Mutex<HashMap<u64, Arc<Delivery>>>,
    /// Streams whose TCP connection at this site accepts no bytes.
    pub(super) stalls: Stalls,
}

/// Completes when the TCP receiver at the peer's site has acknowledged all bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    is_done: AtomicBool,
    done: Notify,
}

impl Delivery {
    /// Returns `true` if all bytes are acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// Waits until all bytes are acknowledged.
    pub(super) async fn done(&self) {
        while !self.is_done() {
            self.done.notified().await;
        }
        // Another task may wait too, and one notification wakes only one task.
        self.done.notify_one();
    }

    fn finish(&self) {
        self.is_done.store(true, Ordering::Release);
        self.done.notify_one();
    }
}

impl Link {
    /// A link over an established connection. Also returns the queue of confirmations, from which
    /// [`confirm`] sends.
    pub(super) fn new(
        connection: Connection,
        config: &AggregateConfig,
    ) -> (Self, mpsc::UnboundedReceiver<Confirmation>) {
        let (confirmed, to_send) = mpsc::unbounded_channel();
        let stalls = Stalls::new(connection.clone(), config);
        (Self { connection, confirmed, waiting: Mutex::default(), stalls }, to_send)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Arc<Delivery>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to wait for the peer's confirmation of stream `number`.
    pub(super) fn expect(&self, number: u64) -> Arc<Delivery> {
        let delivery = Arc::new(Delivery::default());
        self.waiting().insert(number, delivery.clone());
        delivery
    }

    /// Ends the wait for the peer's confirmation of stream `number`.
    pub(super) fn forget(&self, number: u64) {
        self.waiting().remove(&number);
    }

    /// Confirms to the peer that the TCP connection of stream `number` has acknowledged all bytes.
    pub(super) fn send_confirmation(&self, number: u64) {
        // The result is ignored: if the connection is lost, nobody can be notified.
        let _ = self.confirmed.send(Confirmation(number));
    }

    /// Receives the peer's confirmations. Returns when the stream ends or a confirmation is
    /// invalid.
    pub(super) async fn receive_confirmations(
        &self,
        mut stream: RecvStream,
    ) -> Result<(), tidegate_wire::aggregate::Bad> {
        let mut bytes = [0; CONFIRMATION];
        while stream.read_exact(&mut bytes).await.is_ok() {
            let Confirmation(number) = Confirmation::decode(bytes)?;
            // The stream may have been reset meanwhile. Its confirmation is then ignored.
            if let Some(delivery) = self.waiting().remove(&number) {
                delivery.finish();
            }
        }
        Ok(())
    }
}

/// Sends confirmations until the connection ends.
pub(super) async fn confirm(
    mut to_send: mpsc::UnboundedReceiver<Confirmation>,
    mut stream: SendStream,
) {
    let mut batch = Vec::new();
    while to_send.recv_many(&mut batch, BATCH).await > 0 {
        let bytes: Vec<u8> = batch.drain(..).flat_map(Confirmation::encode).collect();
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Number of confirmations sent at once: as many as fit into a QUIC datagram.
const BATCH: usize = 1_200 / CONFIRMATION;
