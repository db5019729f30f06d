//! Compiles an aggregate gateway's file, field by field, into its configuration.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use tidegate_core::{Bytes, itcp};
use toml::Spanned;

use super::{AggregateConfig, raw};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::hexadecimal;
use crate::read::List;
use crate::values::number;

/// Default queue limit of one connection: the bandwidth-delay product of 20 Mbit/s and 100 ms.
const STREAM_QUEUE: Bytes = Bytes(256 << 10);

/// Default queue limit of all connections: 256 connections with full queues.
const MAX_QUEUE: Bytes = Bytes(64 << 20);

/// Smallest queue limit of a connection. A QUIC datagram carries up to 1.4 kB, so this limit holds
/// eleven datagrams, which keep a path busy.
const LEAST_QUEUE: Bytes = Bytes(16 << 10);

/// Largest queue limit. QUIC could grant up to 2^62 bytes, but a limit above 4 GiB is probably a
/// wrong unit.
const MOST_QUEUE: Bytes = Bytes(4 << 30);

/// Largest number of connections. Linux allows at most 2^20 file descriptors by default
/// (`fs.nr_open`).
const MOST_CONNECTIONS: i64 = 1 << 20;

/// The configuration in `file`; `None` if required fields are missing.
pub(super) fn compile(file: &raw::File, found: &mut Findings) -> Option<AggregateConfig> {
    let it = file.aggregate.get()?.get_ref();
    let listen = it.listen.get().and_then(|text| socket(text, "listen", found));
    let peer = it.peer.get().and_then(|text| socket(text, "peer", found));
    let key_file = it.key_file.get().and_then(|text| whole_path(text, found));
    let peer_key = it.peer_key.get().and_then(|text| key(text, found));
    let destinations = it.destinations.get().map(|list| prefixes(list, found));
    let reachable = it.reachable.as_ref().map(|list| prefixes(list, found));
    let max_connections = it.max_connections.as_ref().and_then(|written| {
        let count = number(written, "max_connections", 1..=MOST_CONNECTIONS, found)?;
        usize::try_from(count).ok()
    });
    let (listen, peer) = (listen?, peer?);
    ends_fit(it, listen, peer, found);
    let (stream_queue, max_queue) = queues(it, found);
    Some(AggregateConfig {
        listen,
        peer,
        key_file: key_file?,
        peer_key: peer_key?,
        destinations: destinations?,
        reachable,
        source: it.source.as_ref().map_or_else(Default::default, |it| *it.get_ref()),
        max_connections,
        on_peer_down: it.on_peer_down.as_ref().map_or_else(Default::default, |it| *it.get_ref()),
        confirm_close: it.confirm_close.as_ref().is_some_and(|it| it.get_ref().0),
        stream_queue,
        max_queue,
        weight: weight(it, max_queue),
    })
}

fn socket(text: &Spanned<String>, field: &str, found: &mut Findings) -> Option<SocketAddr> {
    let address: Option<SocketAddr> = text.get_ref().parse().ok();
    let address = address.filter(|it| it.port() != 0);
    if address.is_none() {
        let message = format!("`{field}` is no address with a port: {}", text.get_ref());
        let help = "write for example \"203.0.113.1:4755\" or \"[2001:db8::1]:4755\"";
        found.push(Diagnostic::error(Code::BadAddress, text.span(), message).help(help));
    }
    address
}

/// Reports an error if `listen` cannot receive packets from `peer`, or if both are the same.
fn ends_fit(it: &raw::Aggregate, listen: SocketAddr, peer: SocketAddr, found: &mut Findings) {
    let Some(span) = it.peer.get().map(Spanned::span) else { return };
    let problem = if listen == peer {
        "`peer` is this gateway itself"
    } else if peer.ip().is_unspecified() || peer.ip().is_multicast() {
        "`peer` is the address of no host"
    } else if listen.is_ipv4() && peer.is_ipv6() {
        "`peer` has an IPv6 address, and `listen` an IPv4 address"
    } else if listen.is_ipv6() && peer.is_ipv4() && !listen.ip().is_unspecified() {
        "`peer` has an IPv4 address, and `listen` an IPv6 address"
    } else {
        return;
    };
    let help = "give both gateways an address of the same family, each its own";
    found.push(Diagnostic::error(Code::BadAggregateGateway, span, problem).help(help));
}

fn whole_path(text: &Spanned<String>, found: &mut Findings) -> Option<String> {
    let path = text.get_ref();
    if !path.starts_with('/') {
        let help = "begin the path with /: the gateway may have another working directory";
        let error = Diagnostic::error(
            Code::BadAggregateGateway,
            text.span(),
            "`key_file` is not an absolute path",
        );
        found.push(error.help(help));
        return None;
    }
    Some(path.clone())
}

/// A public key: 32 bytes as 64 hexadecimal digits.
fn key(text: &Spanned<String>, found: &mut Findings) -> Option<[u8; 32]> {
    let key = hexadecimal(text.get_ref());
    if key.is_none() {
        let message = "`peer_key` is no public key of 64 hexadecimal digits";
        let help = "write what `tidegate aggregate key FILE` prints on the other gateway";
        found.push(Diagnostic::error(Code::BadAggregateGateway, text.span(), message).help(help));
    }
    key
}

fn prefixes(list: &Spanned<List<String>>, found: &mut Findings) -> Vec<IpNet> {
    list.get_ref().0.iter().filter_map(|text| prefix(text, found)).collect()
}

/// A prefix in CIDR notation, or a single address.
fn prefix(text: &Spanned<String>, found: &mut Findings) -> Option<IpNet> {
    let written = text.get_ref();
    let net = written.parse().ok().or_else(|| written.parse::<IpAddr>().ok().map(IpNet::from));
    let Some(net) = net else {
        let message = format!("`{written}` is no prefix");
        let help = "write for example \"10.2.0.0/16\" or \"2001:db8:2::/48\"";
        found.push(Diagnostic::error(Code::BadAddress, text.span(), message).help(help));
        return None;
    };
    if net != net.trunc() {
        let message =
            format!("`{written}` has bits beyond its length: the prefix is {}", net.trunc());
        found.push(Diagnostic::error(Code::HostBits, text.span(), message));
        return None;
    }
    Some(net)
}

/// The rate adjuster. Its `max_queue` defaults to the `max_queue` of the gateway.
fn weight(it: &raw::Aggregate, max_queue: Bytes) -> itcp::Config {
    let written = it.weight.as_ref().map(Spanned::get_ref);
    let config = written.map_or_else(
        || itcp::Config { kind: itcp::LawKind::Measured, ..itcp::Config::default() },
        |it| it.config.clone(),
    );
    let of_gateway = written.is_none_or(|it| !it.has_queue);
    itcp::Config { max_queue: if of_gateway { max_queue } else { config.max_queue }, ..config }
}

/// Reads `stream_queue` and `max_queue`. Each must be in its range, and `stream_queue` must not
/// exceed `max_queue`.
fn queues(it: &raw::Aggregate, found: &mut Findings) -> (Bytes, Bytes) {
    let mut queue = |written: &Option<Spanned<Bytes>>, field: &str, default| {
        let Some(written) = written else { return default };
        let bytes = *written.get_ref();
        if bytes < LEAST_QUEUE || bytes > MOST_QUEUE {
            let message = format!("{bytes} is out of range for `{field}`");
            let help = format!("it goes from {LEAST_QUEUE} to {MOST_QUEUE}");
            found.push(Diagnostic::error(Code::OutOfRange, written.span(), message).help(help));
        }
        bytes
    };
    let stream_queue = queue(&it.stream_queue, "stream_queue", STREAM_QUEUE);
    let max_queue = queue(&it.max_queue, "max_queue", MAX_QUEUE);
    let written = it.max_queue.as_ref().or(it.stream_queue.as_ref());
    if let Some(written) = written.filter(|_| max_queue < stream_queue) {
        let message = format!("`max_queue` ({max_queue}) is below `stream_queue` ({stream_queue})");
        let help = "raise `max_queue`, or lower `stream_queue`";
        found
            .push(Diagnostic::error(Code::BadAggregateGateway, written.span(), message).help(help));
    }
    (stream_queue, max_queue)
}
