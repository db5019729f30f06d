//! The QUIC endpoint of an aggregate gateway, and its settings. The *aggregate connection* to the
//! peer gateway carries the TCP connections of all users, each as one stream.
//!
//! Differs: in the paper `itcp`, the aggregate connection is a TCP connection. Here it is a QUIC
//! connection (RFC 9000), so a lost packet delays only the users whose bytes it carried. The core
//! crate provides the congestion control and its weight.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::ControllerFactory;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use quinn::rustls::server::AlwaysResolvesServerRawPublicKeys;
use quinn::rustls::{self, ClientConfig, ServerConfig, version};
use quinn::{AckFrequencyConfig, Endpoint, EndpointConfig, TokioRuntime, TransportConfig, VarInt};
use quinn_proto::HashedConnectionIdGenerator;
use socket2::{Domain, Protocol, Socket, Type};
use tidegate_config::aggregate::AggregateConfig;
use tidegate_wire::aggregate::PROTOCOL;

use super::keys::Keys;

/// Longest time for which the peer may delay an acknowledgement. QUIC's default is 25 ms. The Vegas
/// congestion control would mistake such a delay for a queue.
const MAX_ACK_DELAY: Duration = Duration::from_millis(1);

/// Interval of keepalives while no user sends. The restart of a peer is noticed within this time.
const KEEP_ALIVE: Duration = Duration::from_millis(250);

/// A peer that stays silent for this time, 20 keepalive intervals, is considered dead.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// Round-trip time assumed before the first measurement. A handshake message is retransmitted after
/// three times this value (RFC 9002, section 6.2). With the 333 ms of RFC 9002, a restarted peer
/// would be reached 1 s later.
const INITIAL_RTT: Duration = Duration::from_millis(100);

/// Buffer sizes of the UDP socket in bytes. They hold the packets of 64 ms at 500 Mbit/s while the
/// process does not run. The kernel may grant less.
pub(super) const SOCKET_BUFFER: usize = 4 << 20;

/// Maximum number of concurrent handshakes. The peer needs only one, and further attempts are
/// refused.
const HANDSHAKES: usize = 16;

/// Bytes in the send buffer for packets in flight. Bytes that wait to be sent come in addition.
const IN_FLIGHT: u64 = 64 << 20;

/// The endpoint of a gateway. It accepts connections only if the peer opens the aggregate
/// connection.
pub(super) fn endpoint(
    config: &AggregateConfig,
    keys: &Keys,
    streams: usize,
    control: Arc<dyn ControllerFactory + Send + Sync>,
) -> Result<Endpoint, Box<dyn std::error::Error + Send + Sync>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let transport = Arc::new(transport(config, streams, control));
    let server = if keys.opens() {
        None
    } else {
        let mut tls = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13])?
            .with_client_cert_verifier(keys.pinned(&provider))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(
                keys.certified()?,
            )));
        tls.alpn_protocols = vec![PROTOCOL.to_vec()];
        tls.send_tls13_tickets = 0;
        let crypto = QuicServerConfig::try_from(tls)?;
        let mut server = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        server.transport_config(transport.clone()).max_incoming(HANDSHAKES).migration(false);
        Some(server)
    };
    let mut tls = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(keys.pinned(&provider))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
            keys.certified()?,
        )));
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    tls.resumption = Resumption::disabled();
    let mut client = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    client.transport_config(transport);
    let runtime = Arc::new(TokioRuntime);
    let mut endpoint = Endpoint::new(identity(keys), server, socket(config.listen)?, runtime)?;
    endpoint.set_default_client_config(client);
    Ok(endpoint)
}

/// Connection identifiers and reset tokens that are the same after a restart. The peer thus learns
/// at once that its old connection has ended (RFC 9000, section 10.3).
fn identity(keys: &Keys) -> EndpointConfig {
    let reset = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &keys.derive("reset tokens"));
    let mut config = EndpointConfig::new(Arc::new(reset));
    let seed = keys.derive("connection identifiers");
    let seed = seed.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(seed)));
    // A stateless reset never causes another reset. So two gateways cannot send resets back and
    // forth.
    config.min_reset_interval(KEEP_ALIVE / 10);
    config
}

fn transport(
    config: &AggregateConfig,
    streams: usize,
    control: Arc<dyn ControllerFactory + Send + Sync>,
) -> TransportConfig {
    let var = |n: u64| VarInt::from_u64(n).unwrap_or(VarInt::MAX);
    let streams = u64::try_from(streams).unwrap_or(u64::MAX);
    let mut acks = AckFrequencyConfig::default();
    acks.max_ack_delay(Some(MAX_ACK_DELAY));
    let mut transport = TransportConfig::default();
    transport
        // QUIC permits twice as many streams as the gateway serves. The header of an excess stream
        // thus arrives, and the gateway can answer that it is full.
        .max_concurrent_bidi_streams(var(streams.saturating_mul(2)))
        .max_concurrent_uni_streams(VarInt::from_u32(1))
        .stream_receive_window(var(config.stream_queue.0))
        .receive_window(var(config.max_queue.0))
        .send_window(config.max_queue.0.saturating_add(IN_FLIGHT))
        .send_fairness(true)
        .ack_frequency_config(Some(acks))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_idle_timeout(SILENCE.try_into().ok())
        .initial_rtt(INITIAL_RTT)
        .datagram_receive_buffer_size(None)
        .congestion_controller_factory(control);
    transport
}

fn socket(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Errors are ignored: the kernel limits the sizes, and smaller buffers only cost speed.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket.into())
}
