//! Checks whether this host can run an aggregate gateway, which carries the TCP connections of
//! users over one connection to its peer gateway. The checks change nothing.

use std::io;
use std::net::UdpSocket;
use std::path::Path;

use tidegate_config::aggregate::AggregateConfig;

use super::keys::Keys;
use super::transparent::Transparent;
use super::transport::SOCKET_BUFFER;
use super::{listener, transparent};
use crate::code::Code;
use crate::output::Failure;

/// The subject of a check, with its state or the reason why a gateway cannot run.
pub(crate) type Check = (&'static str, Result<String, Failure>);

/// Checks everything that a gateway with this file needs.
pub(crate) fn checks(config: &AggregateConfig) -> Vec<Check> {
    let families = transparent::families().into_iter();
    let keys = Keys::read(Path::new(&config.key_file), config.peer_key);
    vec![
        ("key_file", keys.map(|_| format!("{} can be used", config.key_file))),
        ("nft and TPROXY", transparent(config)),
        ("ip rule", families.collect::<Result<Vec<_>, _>>().map(|_| "IPv4 and IPv6".to_owned())),
        ("listen", listens(config)),
        ("peer", reaches(config)),
        (
            "max_connections",
            listener::most_connections(config.max_connections)
                .map(|it| format!("{it} connections")),
        ),
    ]
}

fn transparent(config: &AggregateConfig) -> Result<String, Failure> {
    let listeners = listener::bind()?;
    let addresses = listeners.iter().filter_map(|it| it.local_addr().ok()).collect();
    Transparent::check(config.destinations.clone(), addresses)?;
    Ok("the kernel accepts the rules".to_owned())
}

/// Checks that the UDP address is free, or that a running gateway uses it.
fn listens(config: &AggregateConfig) -> Result<String, Failure> {
    match UdpSocket::bind(config.listen) {
        Ok(_) => Ok(format!("{} is free", config.listen)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Ok(format!("{} is in use, by a gateway that runs or another program", config.listen))
        }
        Err(error) => Err(field("listen", format!("{}: {error}", config.listen))),
    }
}

/// Checks that this host has a route to the peer.
fn reaches(config: &AggregateConfig) -> Result<String, Failure> {
    let any: std::net::IpAddr = if config.peer.is_ipv4() {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    let connected = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(config.peer)?;
        socket.local_addr()
    });
    connected
        .map(|from| format!("{} is routed, from {}", config.peer, from.ip()))
        .map_err(|error| field("peer", format!("{}: {error}", config.peer)))
}

fn field(name: &str, message: String) -> Failure {
    let help = format!("correct `{name}`, or the addresses and routes of this host");
    Failure { help, ..Failure::new(Code::BadAggregateGateway, message) }
}

/// Checks that the kernel permits large enough buffers for the UDP socket. Smaller buffers lose
/// packets of bursts.
pub(crate) fn buffers(most: u64) -> Result<(), String> {
    let wanted = u64::try_from(SOCKET_BUFFER).unwrap_or(u64::MAX);
    if most >= wanted { Ok(()) } else { Err(format!("sysctl net.core.rmem_max={wanted}")) }
}
