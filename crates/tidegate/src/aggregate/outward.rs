//! Serves the TCP connections of clients at this site. Each becomes a stream of the aggregate
//! connection, the QUIC connection to the peer gateway.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::RecvStream;
use tidegate_config::aggregate::Source;
use tidegate_wire::aggregate::{Answer, Header};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::carry::{Carried, End, carry, reset, set_options};
use super::inward::OPENING;
use super::site::Site;

/// Time limit for the peer's answer: [`OPENING`], in which the server must accept, plus a round
/// trip.
const ANSWER: Duration = Duration::from_secs(OPENING.as_secs() + 5);

/// Accepts a client's connection if there are fewer than `max_connections` and the peer is up.
/// Resets it otherwise.
pub(super) fn take(site: &Arc<Site>, tcp: TcpStream, client: SocketAddr, destination: SocketAddr) {
    site.counters.taken.one();
    let Ok(permit) = site.permits.clone().try_acquire_owned() else {
        site.counters.full.one();
        return reset(tcp);
    };
    tokio::spawn(serve(site.clone(), tcp, client, destination, permit));
}

/// Carries the bytes of the connection until it ends.
async fn serve(
    site: Arc<Site>,
    tcp: TcpStream,
    client: SocketAddr,
    destination: SocketAddr,
    permit: OwnedSemaphorePermit,
) {
    set_options(&tcp);
    let Some(link) = site.link() else {
        site.counters.peer_down.one();
        return reset(tcp);
    };
    let client_shown = (site.config.source == Source::Client).then_some(client);
    let header = Header { destination, client: client_shown }.encode();
    let opened = timeout(ANSWER, async {
        let (mut send, recv) = link.connection.open_bi().await.ok()?;
        send.write_all(&header).await.ok()?;
        Some((send, recv))
    });
    let Ok(Some((send, recv))) = opened.await else {
        site.counters.peer_down.one();
        return reset(tcp);
    };
    let ended = carry(&site, &link, Carried { tcp, send, recv }, answer).await;
    drop(permit);
    match ended {
        Ok(()) => {}
        Err(end) => {
            match end {
                End::Failed(answer) => site.counters.fail(answer),
                _ => site.counters.reset.one(),
            }
            tracing::debug!("{client} to {destination}: {end}");
        }
    }
}

/// Waits for the peer's answer.
async fn answer(recv: &mut RecvStream) -> Result<(), End> {
    let mut byte = [0];
    let read = timeout(ANSWER, recv.read_exact(&mut byte)).await;
    match read.map_err(|_| End::Failed(Answer::Silent))? {
        Ok(()) => match Answer::of(byte[0]).unwrap_or(Answer::BadHeader) {
            Answer::Connected => Ok(()),
            failure => Err(End::Failed(failure)),
        },
        Err(quinn::ReadExactError::ReadError(error)) => Err(error.into()),
        Err(quinn::ReadExactError::FinishedEarly(_)) => Err(End::There),
    }
}
