//! Keeps one aggregate connection (the QUIC connection to the peer gateway) open, and opens it
//! again after each loss.
//!
//! Only the gateway with the smaller public key opens the connection, so there is never more than
//! one.

use std::sync::Arc;
use std::time::Duration;

use quinn::{
    Connection, ConnectionError, Endpoint, Incoming, RecvStream, SendStream, TransportErrorCode,
    VarInt,
};
use tidegate_wire::aggregate::VERSION;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use super::link::{Link, confirm};
use super::site::Site;
use super::{inward, transport};

/// First and longest pause between two attempts to connect. With these, a restarted peer is reached
/// within about a second.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Time limit of an attempt. In this time, QUIC sends its first message at 0, 0.3, 0.9 and 2.1 s.
const ATTEMPT: Duration = Duration::from_secs(3);

/// Maximum number of concurrent handshakes. They are limited because any host can begin one.
const HANDSHAKES: usize = 16;

/// The server name in the TLS handshake. Any name would do, because the key identifies the peer.
const NAME: &str = "tidegate";

/// TLS alerts: no common protocol (RFC 7301), and the alerts about certificates (RFC 8446, section
/// 6).
const NO_PROTOCOL: u8 = 120;
const ABOUT_KEYS: [u8; 6] = [40, 42, 43, 46, 51, 116];

/// Keeps the aggregate connection up. Returns when the UDP endpoint is closed.
pub(super) async fn keep(site: Arc<Site>, endpoint: Endpoint, opens: bool) {
    if opens {
        open(&site, &endpoint).await;
    } else {
        accept(&site, &endpoint).await;
    }
}

/// The last fault that was logged. The same fault is not logged twice in a row.
#[derive(Default)]
struct Complaint(Option<String>);

impl Complaint {
    fn say(&mut self, words: String) {
        if self.0.as_ref() != Some(&words) {
            tracing::warn!("{words}");
            self.0 = Some(words);
        }
    }
}

async fn open(site: &Arc<Site>, endpoint: &Endpoint) {
    let mut pause = PAUSE;
    let mut complaint = Complaint::default();
    loop {
        let peer = site.config.peer;
        let Ok(connecting) = endpoint.connect(peer, NAME) else { return };
        match timeout(ATTEMPT, connecting).await {
            Ok(Ok(connection)) => {
                let links = site.counters.links.get();
                let error = hold(site.clone(), connection).await;
                if site.counters.links.get() > links {
                    (pause, complaint) = (PAUSE, Complaint::default());
                } else {
                    complaint.say(format!("no aggregate connection to {peer}: {}", words(&error)));
                }
            }
            Ok(Err(error)) => {
                complaint.say(format!("no aggregate connection to {peer}: {}", words(&error)))
            }
            Err(_) => complaint.say(format!("no aggregate connection to {peer}: no answer")),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn accept(site: &Arc<Site>, endpoint: &Endpoint) {
    let (sender, mut established) = mpsc::channel(1);
    let permits = Arc::new(Semaphore::new(HANDSHAKES));
    let mut complaint = Complaint::default();
    loop {
        tokio::select! {
            incoming = endpoint.accept() => {
                let Some(incoming) = incoming else { return };
                match permits.clone().try_acquire_owned() {
                    Ok(permit) => {
                        let sender = sender.clone();
                        tokio::spawn(async move {
                            let shaken = shake(incoming).await;
                            drop(permit);
                            let _ = sender.send(shaken).await;
                        });
                    }
                    // Too many handshakes run. The peer will try again. Attempts of other hosts end
                    // at the time limit.
                    Err(_) => incoming.ignore(),
                }
            }
            Some(shaken) = established.recv() => match shaken {
                Ok(connection) => {
                    complaint = Complaint::default();
                    tokio::spawn(hold(site.clone(), connection));
                }
                Err(words) => complaint.say(words),
            },
        }
    }
}

/// Completes a handshake in which the other host must authenticate as the peer.
async fn shake(incoming: Incoming) -> Result<Connection, String> {
    let from = incoming.remote_address();
    let failed = |words: String| format!("refused an aggregate connection from {from}: {words}");
    let connecting = incoming.accept().map_err(|error| failed(words(&error)))?;
    let shaken = timeout(ATTEMPT, connecting).await;
    shaken.map_err(|_| failed("no answer".to_owned()))?.map_err(|error| failed(words(&error)))
}

/// Serves the streams of an aggregate connection until it is lost. The connection counts as up once
/// the peer has sent its protocol version. Before that, the gateway that opened the connection does
/// not know whether the peer accepted its key (TLS 1.3).
async fn hold(site: Arc<Site>, connection: Connection) -> ConnectionError {
    let peer = connection.remote_address();
    let greeted = timeout(ATTEMPT, greet(&site, &connection)).await;
    let Ok(Ok((to_peer, from_peer))) = greeted else {
        connection.close(VarInt::from_u32(1), b"no greeting");
        return connection.closed().await;
    };
    let (link, to_send) = Link::new(connection, &site.config);
    let link = Arc::new(link);
    site.counters.links.one();
    if let Some(old) = site.link.send_replace(Some(link.clone())) {
        // Either the peer has restarted, or it has already lost the old connection.
        old.connection.close(VarInt::from_u32(0), b"replaced");
    }
    tracing::info!("the aggregate connection with {peer} is up");
    tokio::spawn(confirm(to_send, to_peer));
    let error = tokio::select! {
        error = streams(&site, &link) => error,
        error = receive_confirmations(&site, &link, from_peer) => error,
    };
    let is_ours = |it: &mut Arc<Link>| Arc::ptr_eq(it, &link);
    if site.link.send_if_modified(|current| current.take_if(is_ours).is_some()) {
        // Bytes that have not arrived yet are lost with the connection.
        site.queue.drained(0);
    }
    tracing::warn!("the aggregate connection with {peer} is lost: {}", words(&error));
    tokio::spawn(report_losses(site));
    error
}

/// Exchanges protocol versions, on the two streams that later carry the confirmations.
async fn greet(site: &Site, connection: &Connection) -> Result<(SendStream, RecvStream), ()> {
    let mut to_peer = connection.open_uni().await.map_err(drop)?;
    to_peer.write_all(&[VERSION]).await.map_err(drop)?;
    let mut from_peer = connection.accept_uni().await.map_err(drop)?;
    let mut version = [0];
    from_peer.read_exact(&mut version).await.map_err(drop)?;
    if version != [VERSION] {
        site.counters.bad_messages.one();
        tracing::warn!("the peer speaks version {}, and this gateway {VERSION}", version[0]);
        return Err(());
    }
    Ok((to_peer, from_peer))
}

async fn streams(site: &Arc<Site>, link: &Arc<Link>) -> ConnectionError {
    loop {
        match link.connection.accept_bi().await {
            Ok((send, recv)) => {
                tokio::spawn(inward::serve(site.clone(), link.clone(), send, recv));
            }
            Err(error) => return error,
        }
    }
}

/// Receives the confirmations of the peer. Closes the connection if one is invalid.
async fn receive_confirmations(site: &Site, link: &Link, from_peer: RecvStream) -> ConnectionError {
    if let Err(bad) = link.receive_confirmations(from_peer).await {
        site.counters.bad_messages.one();
        link.connection.close(VarInt::from_u32(1), format!("{bad:?}").as_bytes());
    }
    link.connection.closed().await
}

/// Time in which the tasks of all users' connections notice the loss of the aggregate connection.
const NOTICED: Duration = Duration::from_secs(1);

/// Logs how many connections have lost bytes although their clients saw these bytes acknowledged.
async fn report_losses(site: Arc<Site>) {
    sleep(NOTICED).await;
    let lost = site.counters.lost_after_close.get();
    if lost > 0 {
        tracing::warn!(
            "{lost} connections so far lost bytes after their clients had closed (lost_after_close)"
        );
    }
}

/// Describes to the operator why a connection failed or was lost.
fn words(error: &ConnectionError) -> String {
    let alert = |code: &TransportErrorCode| {
        let is = |alert: u8| *code == TransportErrorCode::crypto(alert);
        if is(NO_PROTOCOL) {
            Some("it speaks another version; install the same version of tidegate at both sites")
        } else if ABOUT_KEYS.into_iter().any(is) {
            Some("the keys do not fit; each gateway's `peer_key` must be the other's public key")
        } else {
            None
        }
    };
    let said = match error {
        ConnectionError::TransportError(it) => alert(&it.code),
        ConnectionError::ConnectionClosed(it) => alert(&it.error_code),
        ConnectionError::Reset => Some("the peer has started again"),
        ConnectionError::TimedOut => {
            return format!("no sign of life for {} s", transport::SILENCE.as_secs());
        }
        ConnectionError::VersionMismatch => Some("it speaks another version of QUIC"),
        _ => None,
    };
    said.map_or_else(|| error.to_string(), str::to_owned)
}
