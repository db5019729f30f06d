//! Carries one TCP connection of a user as one stream of the aggregate connection, the QUIC
//! connection to the peer gateway. Bytes, half-close and reset are carried in both directions.
//!
//! | at the TCP connection here | at the stream | at the TCP connection of the peer |
//! |---|---|---|
//! | FIN | end of the stream | FIN |
//! | RST | reset, and the other direction stopped | RST |
//! | its window is full | its flow-control window is full | its window is full |
//!
//! Buffers exist only while bytes move, so an idle connection occupies none.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use hyper::body::Bytes;
use quinn::{ReadError, RecvStream, SendStream, VarInt, WriteError};
use socket2::SockRef;
use tidegate_dataplane::unacknowledged;
use tidegate_wire::aggregate::Answer;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::link::{Delivery, Link};
use super::site::Site;
use super::stalled::PATIENCE;

/// Bytes read from a TCP connection at once: ten QUIC datagrams. Longer chunks of one stream would
/// delay the other streams.
const CHUNK: usize = 16 << 10;

/// Error code of a stream whose TCP connection was reset.
const RESET: VarInt = VarInt::from_u32(1);

/// Why a connection did not end with a FIN in each direction.
#[derive(Debug)]
pub(super) enum End {
    /// The TCP connection at this site was reset or failed.
    Here(io::Error),
    /// The TCP connection at the peer's site was reset or failed.
    There,
    /// The aggregate connection is lost.
    Lost,
    /// The peer could not open its TCP connection.
    Failed(Answer),
    /// The TCP connection at this site accepted no bytes for a long time, and other connections
    /// needed the window that its bytes occupied.
    Expelled,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(error) => write!(f, "{error}"),
            Self::There => f.write_str("reset at the peer"),
            Self::Lost => f.write_str("lost with the aggregate connection"),
            Self::Failed(answer) => f.write_str(answer.name()),
            Self::Expelled => f.write_str("stalled longest of too many connections"),
        }
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Here(error)
    }
}

impl From<ReadError> for End {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(_) => Self::There,
            _ => Self::Lost,
        }
    }
}

impl From<WriteError> for End {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(_) => Self::There,
            _ => Self::Lost,
        }
    }
}

/// A TCP connection and the stream that carries it.
#[derive(Debug)]
pub(super) struct Carried {
    /// The TCP connection.
    pub(super) tcp: TcpStream,
    /// The stream in the direction to the peer.
    pub(super) send: SendStream,
    /// The stream in the direction from the peer.
    pub(super) recv: RecvStream,
}

/// Carries bytes in both directions until both have ended. Bytes from the peer are read only once
/// `opened` completes.
pub(super) async fn carry(
    site: &Site,
    link: &Link,
    carried: Carried,
    opened: impl AsyncFnOnce(&mut RecvStream) -> Result<(), End>,
) -> Result<(), End> {
    let Carried { tcp, mut send, mut recv } = carried;
    let number = u64::from(send.id());
    let (delivery, eof) = (link.expect(number), AtomicBool::new(false));
    let ends = SharedEnds { site, link, tcp: &tcp, number, delivery, eof };
    let down = async {
        opened(&mut recv).await?;
        ends.down(&mut recv).await
    };
    let ended = tokio::try_join!(ends.up(&mut send), down).map(drop);
    let (delivery, eof) = (ends.delivery, ends.eof.into_inner());
    if let Err(end) = &ended {
        // The results are ignored: the stream may have ended already.
        let _ = send.reset(RESET);
        let _ = recv.stop(RESET);
        reset(tcp);
        lose(site, end, eof && !delivery.is_done());
    } else {
        drop(tcp);
        wait_for(site, link, &delivery).await;
    }
    link.forget(number);
    ended
}

/// Waits until the peer has confirmed that the TCP connection at its site acknowledged all bytes,
/// or until the aggregate connection is lost.
async fn wait_for(site: &Site, link: &Link, delivery: &Delivery) {
    tokio::select! {
        () = delivery.done() => {}
        _ = link.connection.closed() => lose(site, &End::Lost, !delivery.is_done()),
    }
}

/// If the aggregate connection is lost, counts a connection that its client has closed. The client
/// saw all bytes acknowledged, although some never reached the server.
fn lose(site: &Site, end: &End, unconfirmed: bool) {
    if unconfirmed && matches!(end, End::Lost) {
        site.counters.lost_after_close.one();
    }
}

/// Sets the options of a user's TCP connection. Errors are ignored: without the options, the
/// connection is slower, or a dead host is noticed later.
pub(super) fn set_options(tcp: &TcpStream) {
    // Sends bytes as they arrive. Under load, the kernel still combines waiting bytes into full
    // segments.
    let _ = tcp.set_nodelay(true);
    // Keepalives detect a dead host. Its connection then ends, and another connection may take its
    // place (`max_connections`). The kernel's `tcp_keepalive_time` sets the interval.
    let _ = SockRef::from(tcp).set_keepalive(true);
}

/// Resets a TCP connection.
pub(super) fn reset(tcp: TcpStream) {
    // A socket that is closed with a linger time of zero sends RST (`socket(7)`). If the option
    // cannot be set, it sends FIN.
    let _ = SockRef::from(&tcp).set_linger(Some(Duration::ZERO));
    drop(tcp);
}

/// The state that both directions of a connection share.
struct SharedEnds<'a> {
    site: &'a Site,
    link: &'a Link,
    tcp: &'a TcpStream,
    /// The stream number, used in confirmations.
    number: u64,
    /// Completes when the TCP receiver at the peer's site has acknowledged all bytes of this
    /// connection.
    delivery: Arc<Delivery>,
    /// The client or server at this site has sent its FIN.
    eof: AtomicBool,
}

impl SharedEnds<'_> {
    /// Copies bytes from the TCP connection to the peer.
    async fn up(&self, send: &mut SendStream) -> Result<(), End> {
        loop {
            tokio::select! {
                ready = self.tcp.readable() => ready?,
                stopped = send.stopped() => {
                    return Err(if stopped.is_ok() { End::There } else { End::Lost });
                }
            }
            self.site.queue.room().await;
            let bytes = match read(self.tcp) {
                Ok(bytes) if bytes.is_empty() => break,
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            };
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            self.site.counters.sent.add(length);
            self.site.queue.put(length);
            self.write(send, bytes).await?;
        }
        self.eof.store(true, Ordering::Release);
        // An error means that the peer has stopped the stream. The other direction then reports the
        // cause.
        send.finish().map_err(|_| End::There)
    }

    /// Writes `bytes` to the stream, and waits until the stream has accepted them.
    async fn write(&self, send: &mut SendStream, bytes: Bytes) -> Result<(), WriteError> {
        let mut write = pin!(send.write_chunk(bytes));
        // Most writes complete at once.
        if let Some(written) = at_once(write.as_mut()).await {
            return written;
        }
        let _stopped = Stopped::new(self.site);
        write.await
    }

    /// Copies bytes from the peer to the TCP connection.
    async fn down(&self, recv: &mut RecvStream) -> Result<(), End> {
        while let Some(chunk) = recv.read_chunk(CHUNK, true).await? {
            self.deliver(&chunk.bytes).await?;
            self.site.counters.received.add(u64::try_from(chunk.bytes.len()).unwrap_or(u64::MAX));
        }
        if !(self.site.config.confirm_close && self.has_sent_fin().await) {
            SockRef::from(self.tcp).shutdown(Shutdown::Write)?;
            self.all_acknowledged().await?;
            self.link.send_confirmation(self.number);
            return Ok(());
        }
        // Our FIN to the TCP connection comes last. The peer may also delay its FIN until it gets
        // our confirmation, so we send the confirmation first.
        self.all_acknowledged().await?;
        self.link.send_confirmation(self.number);
        tokio::select! {
            () = self.delivery.done() => {}
            _ = self.link.connection.closed() => return Err(End::Lost),
        }
        Ok(SockRef::from(self.tcp).shutdown(Shutdown::Write)?)
    }

    /// Writes `bytes` to the TCP connection. While the TCP connection accepts none, it counts as
    /// stalled.
    async fn deliver(&self, bytes: &[u8]) -> Result<(), End> {
        let mut writing = pin!(write(self.tcp, bytes));
        // Most writes complete at once.
        if let Some(written) = at_once(writing.as_mut()).await {
            return Ok(written?);
        }
        if let Ok(written) = timeout(PATIENCE, writing.as_mut()).await {
            return Ok(written?);
        }
        let stall = self.link.stalls.add();
        tokio::select! {
            written = writing => Ok(written?),
            () = stall.expelled() => {
                self.site.counters.expelled.one();
                Err(End::Expelled)
            }
        }
    }

    /// Returns `true` if the TCP connection has received a FIN. There may still be unread bytes
    /// before the FIN.
    async fn has_sent_fin(&self) -> bool {
        let ready = at_once(pin!(self.tcp.ready(Interest::READABLE))).await;
        let is_closed = matches!(ready, Some(Ok(ready)) if ready.is_read_closed());
        is_closed || self.eof.load(Ordering::Acquire)
    }

    /// Waits until the TCP connection has acknowledged all bytes written to it. The kernel does not
    /// report this, so the gateway polls at growing intervals.
    async fn all_acknowledged(&self) -> Result<(), End> {
        let mut interval = SOON;
        while unacknowledged(self.tcp)? > 0 {
            if let Some(error) = self.tcp.take_error()? {
                return Err(error.into());
            }
            tokio::time::sleep(interval).await;
            interval = (interval * 2).min(LATE);
        }
        Ok(())
    }
}

/// The output of `future` if it is ready at the first poll.
async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    match poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Counts a stream that waits for room to write. Dropping the value ends the wait.
struct Stopped<'a>(&'a Site);

impl<'a> Stopped<'a> {
    fn new(site: &'a Site) -> Self {
        site.stopped.fetch_add(1, Ordering::Relaxed);
        Self(site)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.stopped.fetch_sub(1, Ordering::Relaxed);
    }
}

/// First poll interval: a round trip on a LAN.
const SOON: Duration = Duration::from_millis(1);
/// Longest poll interval.
const LATE: Duration = Duration::from_millis(100);

/// Reads the available bytes; empty after a FIN. Allocates only as much memory as there are bytes.
fn read(tcp: &TcpStream) -> io::Result<Bytes> {
    let mut buffer = [0; CHUNK];
    let length = tcp.try_read(&mut buffer)?;
    Ok(Bytes::copy_from_slice(&buffer[..length]))
}

/// Writes all of `bytes`.
async fn write(tcp: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match tcp.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                tcp.ready(Interest::WRITABLE).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
