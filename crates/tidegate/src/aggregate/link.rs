//! The aggregate connection and its confirmations.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quinn::{Connection, RecvStream, SendStream};
use tokio::sync::{Notify, mpsc};

use tidegate_config::aggregate::AggregateConfig;
use tidegate_wire::aggregate::{CONFIRMATION, Confirmation};

use super::stalled::Stalls;

/// One aggregate connection.
#[derive(Debug)]
pub(super) struct Link {
    /// The QUIC connection.
    pub(super) connection: Connection,
    /// Confirmations for the peer: streams whose bytes the TCP connection here has acknowledged.
    confirmed: mpsc::UnboundedSender<Confirmation>,
    /// Streams that wait for the peer's confirmation.
    waiting: Mutex<HashMap<u64, Arc<Delivery>>>,
    /// Streams whose TCP connection here accepts no bytes.
    pub(super) stalls: Stalls,
}

/// Completes when the other end has acknowledged all bytes of a TCP connection here.
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
        // Another task may wait.
        self.done.notify_one();
    }

    fn finish(&self) {
        self.is_done.store(true, Ordering::Release);
        self.done.notify_one();
    }
}

impl Link {
    /// The link of an established connection, and the confirmations for [`confirm`] to send.
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

    /// Begins to wait for the peer's confirmation of stream `number`.
    pub(super) fn expect(&self, number: u64) -> Arc<Delivery> {
        let delivery = Arc::new(Delivery::default());
        self.waiting().insert(number, delivery.clone());
        delivery
    }

    /// Ends the wait for the confirmation of stream `number`.
    pub(super) fn forget(&self, number: u64) {
        self.waiting().remove(&number);
    }

    /// Notifies the peer that the TCP connection of stream `number` has acknowledged all its bytes.
    pub(super) fn tell(&self, number: u64) {
        // Without a connection there is no peer to notify.
        let _ = self.confirmed.send(Confirmation(number));
    }

    /// Receives the peer's confirmations. Returns when there are no more, or one is invalid.
    pub(super) async fn hear(
        &self,
        mut stream: RecvStream,
    ) -> Result<(), tidegate_wire::aggregate::Bad> {
        let mut bytes = [0; CONFIRMATION];
        while stream.read_exact(&mut bytes).await.is_ok() {
            let Confirmation(number) = Confirmation::decode(bytes)?;
            // The stream may have been reset meanwhile.
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

/// Confirmations sent at once: as many as fit into a datagram of QUIC.
const BATCH: usize = 1_200 / CONFIRMATION;
