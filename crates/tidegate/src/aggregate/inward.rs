//! Serves the streams that the peer gateway opens on the aggregate connection, which carries the
//! TCP connections of users between the two gateways. Each stream requests a TCP connection to a
//! server at this site.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use quinn::{RecvStream, SendStream};
use socket2::{Domain, Protocol, Socket, Type};
use tidegate_config::aggregate::{AggregateConfig, Source};
use tidegate_wire::aggregate::{Answer, FIXED, Header, LONGEST};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::carry::{Carried, End, carry, reset, set_options};
use super::link::Link;
use super::site::Site;

/// Time limit for a server to accept a connection.
pub(super) const OPENING: Duration = Duration::from_secs(10);

/// Opens the connection that a stream of the peer requests, and carries its bytes until it ends.
pub(super) async fn serve(
    site: Arc<Site>,
    link: Arc<Link>,
    mut send: SendStream,
    mut recv: RecvStream,
) {
    let opened = async {
        let header = timeout(OPENING, header(&mut recv)).await.unwrap_or(Err(Answer::BadHeader))?;
        if !may_reach(&site.config, header.destination.ip()) {
            return Err(Answer::Forbidden);
        }
        let permit = site.permits.clone().try_acquire_owned().map_err(|_| Answer::Full)?;
        let tcp = timeout(OPENING, connect(&site.config, &header)).await;
        let tcp = tcp.map_err(|_| Answer::Silent)?.map_err(|error| reason(&error))?;
        Ok((permit, tcp, header.destination))
    };
    let (permit, tcp, destination) = match opened.await {
        Ok(opened) => opened,
        Err(answer) => {
            site.counters.fail(answer);
            if answer == Answer::BadHeader {
                site.counters.bad_messages.one();
            }
            // The results are ignored: the peer may have cancelled the request already.
            let _ = send.write_all(&[answer.byte()]).await;
            let _ = send.finish();
            let _ = recv.stop(answer.byte().into());
            return;
        }
    };
    site.counters.opened.one();
    set_options(&tcp);
    if send.write_all(&[Answer::Connected.byte()]).await.is_err() {
        return reset(tcp);
    }
    let ended = carry(&site, &link, Carried { tcp, send, recv }, async |_| Ok(())).await;
    drop(permit);
    if let Err(end) = ended {
        if !matches!(end, End::There) {
            site.counters.reset.one();
        }
        tracing::debug!("for the peer to {destination}: {end}");
    }
}

/// Reads the header of a stream.
async fn header(recv: &mut RecvStream) -> Result<Header, Answer> {
    let mut bytes = [0; LONGEST];
    let (fixed, rest) = bytes.split_first_chunk_mut::<FIXED>().ok_or(Answer::BadHeader)?;
    recv.read_exact(fixed).await.map_err(|_| Answer::BadHeader)?;
    let length = Header::rest(*fixed).map_err(|_| Answer::BadHeader)?;
    recv.read_exact(&mut rest[..length]).await.map_err(|_| Answer::BadHeader)?;
    Header::decode(&bytes[..FIXED + length]).map_err(|_| Answer::BadHeader)
}

/// Returns `true` if the configuration permits the peer to open a connection to `address`.
fn may_reach(config: &AggregateConfig, address: IpAddr) -> bool {
    // An IPv4-mapped IPv6 address would otherwise evade the IPv4 prefixes in `reachable`.
    let address = address.to_canonical();
    let is_local = match address {
        IpAddr::V4(it) => it.is_link_local() || it.is_broadcast(),
        IpAddr::V6(it) => it.is_unicast_link_local(),
    };
    let listed = |prefixes: &Vec<IpNet>| prefixes.iter().any(|it| it.contains(&address));
    config.reachable.as_ref().map_or_else(
        || {
            !(address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                || is_local)
        },
        listed,
    )
}

async fn connect(config: &AggregateConfig, header: &Header) -> io::Result<TcpStream> {
    match header.client.filter(|_| config.source == Source::Client) {
        None => TcpStream::connect(header.destination).await,
        Some(client) => as_client(client, header.destination).await,
    }
}

/// Opens a connection whose source address is the client's.
async fn as_client(client: SocketAddr, destination: SocketAddr) -> io::Result<TcpStream> {
    match transparent(client)?.connect(destination).await {
        // An earlier connection with the client's port may still exist in the kernel.
        Err(error)
            if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) =>
        {
            let any_port = SocketAddr::new(client.ip(), 0);
            transparent(any_port)?.connect(destination).await
        }
        result => result,
    }
}

/// A socket bound to the address of another host (`IP_TRANSPARENT`, `ip(7)`).
fn transparent(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv4() {
        socket.set_ip_transparent_v4(true)?;
    } else {
        socket.set_ip_transparent_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(TcpSocket::from_std_stream(socket.into()))
}

/// The answer to the peer if the connection cannot be opened.
fn reason(error: &io::Error) -> Answer {
    match error.kind() {
        ErrorKind::ConnectionRefused => Answer::Refused,
        ErrorKind::TimedOut => Answer::Silent,
        _ => Answer::Unreachable,
    }
}
