//! Accepts users' connections that the kernel redirects to this process. The local address of such
//! a socket is the address of the server that the client wanted to reach.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use super::outward;
use super::site::Site;
use crate::code::Code;
use crate::output::Failure;

/// File descriptors reserved for the aggregate connection, the control socket and files.
const RESERVE: usize = 256;

/// Connections that may wait in the kernel until this process accepts them: the default of
/// `net.core.somaxconn` since Linux 5.4.
const BACKLOG: i32 = 4_096;

/// Pause after `accept` failed because descriptors or memory ran out.
const PAUSE: Duration = Duration::from_millis(10);

/// Listeners for redirected connections, on loopback: one for IPv4, one for IPv6.
pub(super) fn listeners() -> Result<Vec<TcpListener>, Failure> {
    bind()?.into_iter().map(|it| TcpListener::from_std(it).map_err(failed)).collect()
}

/// Opens the sockets of these listeners.
pub(super) fn bind() -> Result<Vec<std::net::TcpListener>, Failure> {
    let v4 = listen((Ipv4Addr::LOCALHOST, 0).into()).map_err(failed)?;
    let mut listeners = vec![v4];
    // A host without IPv6 has no IPv6 connections to accept.
    listeners.extend(listen((Ipv6Addr::LOCALHOST, 0).into()));
    Ok(listeners)
}

fn failed(error: io::Error) -> Failure {
    let message = format!("no socket for transparent connections: {error}");
    Failure::new(Code::NoTransparency, message)
}

fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv4() {
        socket.set_ip_transparent_v4(true)?;
    } else {
        socket.set_only_v6(true)?;
        socket.set_ip_transparent_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections until dropped.
pub(super) async fn serve(site: Arc<Site>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((tcp, client)) => {
                // The local address of a redirected connection is the server's address.
                if let Ok(destination) = tcp.local_addr() {
                    outward::take(&site, tcp, client, destination);
                }
            }
            Err(error) => {
                tracing::debug!("cannot accept: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Maximum number of users' connections: `wanted`, or as many as half of the file descriptors
/// allow. Raises the limit of descriptors as far as the system permits.
pub(super) fn most_connections(wanted: Option<usize>) -> Result<usize, Failure> {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1_024, |(soft, hard)| {
        if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
    });
    within(wanted, usize::try_from(limit).unwrap_or(usize::MAX))
}

fn within(wanted: Option<usize>, limit: usize) -> Result<usize, Failure> {
    let most = limit.saturating_sub(RESERVE);
    match wanted {
        Some(wanted) if wanted > most => {
            let message = format!(
                "`max_connections` is {wanted}, and {limit} descriptors leave room for {most}"
            );
            let help = "lower it, or raise the limit: LimitNOFILE= of the unit, or `ulimit -n`";
            Err(Failure {
                help: help.to_owned(),
                ..Failure::input(Code::BadAggregateGateway, message)
            })
        }
        Some(wanted) => Ok(wanted),
        None => Ok((limit / 2).min(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: no descriptors kept in reserve; a default that is half of the descriptors outside
    /// the reserve, instead of half of all descriptors.
    #[test]
    fn some_descriptors_are_reserved() {
        assert_eq!(within(None, 1_024).unwrap(), 512);
        assert_eq!(within(None, 400).unwrap(), 144);
        assert_eq!(within(Some(768), 1_024).unwrap(), 768);
        assert_eq!(within(Some(769), 1_024).unwrap_err().code, Code::BadAggregateGateway);
        assert_eq!(within(None, 100).unwrap(), 0);
    }
}
