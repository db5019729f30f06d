//! Relays the bytes between the LDAP client library and the server, and limits the server's bytes.
//!
//! The library stores everything that a server sends. The relay closes the connection if the server
//! exceeds its allowance of bytes, or sends a message that would harm the library (`nesting.rs`).
//! The relay also does TLS, because the library would need more dependencies for it.
//!
//! Source: RFC 4511, section 5.

use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

use super::fault;
use super::nesting::Nesting;
use crate::Fault;

/// A connection to the server, with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

/// The server's remaining allowance of bytes, and the reason why the relay closed the connection.
/// The relay and its client share this value.
#[derive(Clone)]
pub(super) struct Gauge {
    left: Arc<AtomicU64>,
    limit: u64,
    end: Arc<Mutex<Option<Fault>>>,
}

impl Gauge {
    /// An allowance of `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self { left: Arc::new(AtomicU64::new(limit)), limit, end: Arc::default() }
    }

    /// Resets the allowance to its full size.
    pub(super) fn refill(&self) {
        self.left.store(self.limit, Ordering::Relaxed);
    }

    /// The reason why the relay closed the connection, or `None` if it did not.
    pub(super) fn end(&self) -> Option<Fault> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Subtracts the memory of one entry from the allowance. A small entry needs more bytes in
    /// memory than in its message.
    pub(super) fn take_entry(&self) -> Result<(), Fault> {
        self.take(ENTRY)
    }

    /// Takes `count` bytes from the allowance.
    fn take(&self, count: usize) -> Result<(), Fault> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(count));
        taken.map(drop).map_err(|_| fault::too_large(self.limit))
    }

    fn ends(&self, fault: Fault) {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }
}

/// Starts a relay to `server`, which messages call `name`. Returns the client's end of the
/// connection.
///
/// # Errors
///
/// If the host has no socket left.
pub(super) fn start(
    server: Pin<Box<dyn Stream>>,
    name: String,
    gauge: Gauge,
) -> io::Result<StdStream> {
    let (ours, theirs) = StdStream::pair()?;
    ours.set_nonblocking(true)?;
    let client = UnixStream::from_std(ours)?;
    tokio::spawn(async move {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = tokio::io::split(server);
        let up = async {
            // The results are ignored: when the client closes its end, the server sees the end of
            // the connection.
            let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
            let _ = to_server.shutdown().await;
        };
        let down = async {
            if let Err(fault) = pass(&mut from_server, &mut to_client, &name, &gauge).await {
                gauge.ends(fault);
            }
        };
        tokio::select! { () = up => {}, () = down => {} }
    });
    Ok(theirs)
}

/// Copies bytes from the server to the client, within the allowance.
async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    name: &str,
    gauge: &Gauge,
) -> Result<(), Fault> {
    let mut buffer = vec![0; BUFFER];
    let mut nesting = Nesting::default();
    loop {
        let count = from.read(&mut buffer).await.map_err(|error| fault::of_io(&error, name))?;
        if count == 0 {
            return Ok(());
        }
        gauge.take(count)?;
        nesting.follow(&buffer[..count])?;
        if to.write_all(&buffer[..count]).await.is_err() {
            return Ok(());
        }
    }
}

/// Bytes copied at once: a TLS record (RFC 8446, section 5.1).
const BUFFER: usize = 16 * 1024;

/// Memory that an entry needs besides its texts, in bytes: for the name, the table of attributes,
/// and the lists of values.
const ENTRY: usize = 256;
