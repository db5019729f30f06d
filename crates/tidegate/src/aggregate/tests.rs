//! Tests two aggregate gateways on loopback. Bytes that a client sends to one gateway must arrive
//! at a server at the other gateway's site.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_config::aggregate::{self, AggregateConfig};
use tidegate_core::Bytes;
use tidegate_wire::aggregate::{Answer, Confirmation, VERSION};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::carry::reset;
use super::keys::{Keys, tests::impostor, tests::pair};
use super::run::prepare;
use super::site::Site;
use super::{outward, peer};

const FILE: &str = r#"
[aggregate]
listen = "127.0.0.1:1"
peer = "127.0.0.1:2"
key_file = "/nowhere"
peer_key = "0000000000000000000000000000000000000000000000000000000000000000"
destinations = ["127.0.0.0/8"]
reachable = ["127.0.0.0/8"]
"#;

fn config(change: impl FnOnce(&mut AggregateConfig)) -> AggregateConfig {
    let mut config = aggregate::parse("test", FILE).0.unwrap();
    change(&mut config);
    config
}

fn free_address() -> SocketAddr {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

struct Gateway {
    site: Arc<Site>,
    endpoint: quinn::Endpoint,
    tasks: tokio::task::JoinHandle<()>,
}

fn start(keys: &Keys, config: AggregateConfig) -> Gateway {
    let (sources, endpoint) = prepare(config, keys, MOST).unwrap();
    let (site, opens) = (sources.site.clone(), keys.opens());
    let tasks = tokio::spawn(peer::keep(site.clone(), endpoint.clone(), opens));
    Gateway { site, endpoint, tasks }
}

const MOST: usize = 20;

/// Two gateways that trust each other. `change` modifies the configuration of both.
fn two(change: impl Fn(&mut AggregateConfig)) -> [Gateway; 2] {
    let keys = pair();
    let ends = [free_address(), free_address()];
    [0, 1].map(|at| {
        let ends = |it: &mut AggregateConfig| (it.listen, it.peer) = (ends[at], ends[1 - at]);
        start(&keys[at], config(|it| (ends(it), change(it)).0))
    })
}

impl Gateway {
    async fn up(&self) {
        let mut link = self.site.link.subscribe();
        let up = link.wait_for(Option::is_some);
        tokio::time::timeout(LIMIT, up).await.expect("the peer is found").unwrap();
    }

    /// A client connection to `destination`, accepted by this gateway.
    async fn client(&self, destination: SocketAddr) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (taken, from) = listener.accept().await.unwrap();
        outward::take(&self.site, taken, from, destination);
        client
    }
}

const LIMIT: Duration = Duration::from_secs(10);

/// A server that returns every byte it receives.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await.unwrap();
                stream.write_all(&all).await.unwrap();
            });
        }
    });
    address
}

/// A listener with a small kernel buffer.
async fn listener() -> (TcpListener, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(64).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn pair_up(change: impl Fn(&mut AggregateConfig)) -> [Gateway; 2] {
    let gateways = two(change);
    for gateway in &gateways {
        gateway.up().await;
    }
    gateways
}

/// Waits until `holds` returns `true`. `event` names the awaited event in the message of a failure.
async fn until(event: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("waited for {event}"));
}

fn is_reset<T: std::fmt::Debug>(result: std::io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

fn content(length: u32) -> Vec<u8> {
    (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

#[tokio::test]
async fn bytes_and_half_closes_are_carried_in_both_directions() {
    let gateways = pair_up(|_| ()).await;
    let server = echo().await;
    for gateway in &gateways {
        let mut client = gateway.client(server).await;
        let content = content(1_000_000);
        client.write_all(&content).await.unwrap();
        client.shutdown().await.unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).await.unwrap();
        assert!(back == content);
    }
    let [a, b] = gateways.map(|it| it.site);
    for site in [&a, &b] {
        until("permits to be returned", || site.connections() == 0).await;
        // Each gateway accepted one connection and opened one. The same content crosses in both
        // directions.
        assert_eq!((site.counters.taken.get(), site.counters.opened.get()), (1, 1));
        assert_eq!(
            (site.counters.sent.get(), site.counters.received.get()),
            (2_000_000, 2_000_000)
        );
        assert_eq!((site.counters.reset.get(), site.counters.lost_after_close.get()), (0, 0));
    }
}

/// Catches: a client's reset that reaches the server as a FIN, or not at all; a failure that is not
/// counted.
#[tokio::test]
async fn resets_and_refusals_are_carried() {
    let [a, b] = pair_up(|_| ()).await;
    let refused = free_address();
    let mut client = a.client(refused).await;
    assert!(is_reset(client.read(&mut [0]).await));
    let forbidden: SocketAddr = "192.0.2.1:80".parse().unwrap();
    let mut client = a.client(forbidden).await;
    assert!(is_reset(client.read(&mut [0]).await));
    let failed = |site: &Site| site.counters.failed.each_ref().map(super::counters::Counter::get);
    until("two failures", || failed(&a.site) == [1, 0, 0, 0, 1, 0]).await;
    assert_eq!(failed(&b.site), [1, 0, 0, 0, 1, 0]);

    let (listener, server) = listener().await;
    let mut client = a.client(server).await;
    client.write_all(b"request").await.unwrap();
    let (mut accepted, _) = listener.accept().await.unwrap();
    accepted.read_exact(&mut [0; 7]).await.unwrap();
    reset(accepted);
    assert!(is_reset(client.read(&mut [0]).await));

    let client = a.client(server).await;
    let (mut accepted, _) = listener.accept().await.unwrap();
    reset(client);
    assert!(is_reset(accepted.read(&mut [0]).await));
    until("permits to be returned", || a.site.connections() + b.site.connections() == 0).await;
}

/// Catches: permits that are not returned when a connection ends; refused connections that are not
/// counted.
#[tokio::test]
async fn connections_beyond_the_limit_are_reset_and_the_others_continue() {
    let [a, b] = pair_up(|_| ()).await;
    let server = echo().await;
    let mut clients = Vec::new();
    for _ in 0..MOST {
        clients.push(a.client(server).await);
    }
    for _ in 0..3 {
        assert!(is_reset(a.client(server).await.read(&mut [0]).await));
    }
    assert_eq!(a.site.counters.full.get(), 3);
    for client in &mut clients {
        client.write_all(b"still here").await.unwrap();
        client.shutdown().await.unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).await.unwrap();
        assert_eq!(back, b"still here");
    }
    drop(clients);
    until("permits to be returned", || a.site.connections() + b.site.connections() == 0).await;
}

/// Catches: a gateway that reads from its client although the peer cannot deliver; one slow server
/// that stops all connections.
#[tokio::test]
async fn a_slow_server_stops_only_its_own_client() {
    let [a, b] = pair_up(|it| it.stream_queue = Bytes(64 << 10)).await;
    let (listener, slow) = listener().await;
    let client = a.client(slow).await;
    let (mut server, _) = listener.accept().await.unwrap();
    let content = content(16 << 20);
    let mut sent = 0;
    // Writes until all buffers on the path are full.
    while let Ok(ready) = tokio::time::timeout(Duration::from_millis(200), client.writable()).await
    {
        ready.unwrap();
        sent += client.try_write(&content[sent..]).unwrap_or(0);
        assert!(sent < content.len(), "nobody stops the client");
    }
    let held = a.site.counters.sent.get() - b.site.counters.received.get();
    assert!(held <= 2 * (64 << 10), "{held} bytes are in the gateways");
    assert!(a.site.stopped() == 1);
    let mut other = a.client(echo().await).await;
    other.write_all(&content[..300_000]).await.unwrap();
    other.shutdown().await.unwrap();
    let mut back = Vec::new();
    other.read_to_end(&mut back).await.unwrap();
    assert_eq!(back.len(), 300_000);
    let mut arrived = vec![0; sent];
    server.read_exact(&mut arrived).await.unwrap();
    assert!(arrived == content[..sent]);
}

/// Writes to `client` until no bytes move for a while. Returns the number of bytes.
async fn fill(client: &TcpStream) -> usize {
    let content = content(1 << 20);
    let mut sent = 0;
    while let Ok(ready) = tokio::time::timeout(Duration::from_millis(200), client.writable()).await
    {
        ready.unwrap();
        sent += client.try_write(&content).unwrap_or(0);
        assert!(sent < 64 << 20, "nobody stops the client");
    }
    sent
}

/// Two servers that do not read could occupy the whole window of 128 KiB.
///
/// Catches: a window that stalled streams use up; a window that stays enlarged after a stall; the
/// latest stalled stream expelled instead of the first; an unlimited number of stalled streams.
#[tokio::test]
async fn servers_that_do_not_read_stop_no_other_and_the_first_of_too_many_is_reset() {
    let [a, b] = pair_up(|it| {
        (it.stream_queue, it.max_queue) = (Bytes(64 << 10), Bytes(128 << 10));
    })
    .await;
    let stalls = || b.site.link().map_or(0, |it| it.stalls.count());
    let (listener, slow) = listener().await;
    let mut stuck = Vec::new();
    for _ in 0..2 {
        let client = a.client(slow).await;
        stuck.push((listener.accept().await.unwrap().0, client));
        fill(&stuck[stuck.len() - 1].1).await;
    }
    until("two stalls", || stalls() == 2).await;
    let mut other = a.client(echo().await).await;
    other.write_all(&content(300_000)).await.unwrap();
    other.shutdown().await.unwrap();
    let mut back = Vec::new();
    other.read_to_end(&mut back).await.unwrap();
    assert_eq!(back.len(), 300_000);

    let client = a.client(slow).await;
    stuck.push((listener.accept().await.unwrap().0, client));
    fill(&stuck[2].1).await;
    until("a reset", || b.site.counters.expelled.get() == 1).await;
    let is_reset = |client: &TcpStream| {
        client.try_write(&[0]).is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
    };
    until("the first to be reset", || is_reset(&stuck[0].1)).await;
    assert!(!is_reset(&stuck[1].1) && !is_reset(&stuck[2].1));
    // The last server finally reads, and its stream is no longer stalled.
    let (mut server, client) = stuck.pop().unwrap();
    drop(client);
    server.read_to_end(&mut Vec::new()).await.unwrap();
    until("one stall", || stalls() == 1).await;
}

/// Returns `true` if the client receives the server's FIN before the server has acknowledged all of
/// the client's bytes.
async fn sees_fin_early(confirm_close: bool) -> bool {
    let [a, _b] = pair_up(|it| it.confirm_close = confirm_close).await;
    let (listener, server) = listener().await;
    let mut client = a.client(server).await;
    // The server's kernel accepts only a part of the bytes.
    client.write_all(&content(4 << 20)[..200_000]).await.unwrap();
    client.shutdown().await.unwrap();
    let (mut accepted, _) = listener.accept().await.unwrap();
    accepted.shutdown().await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(300), client.read(&mut [0])).await;
    let mut all = Vec::new();
    accepted.read_to_end(&mut all).await.unwrap();
    assert_eq!(all.len(), 200_000);
    if early.is_err() {
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }
    early.is_ok()
}

/// Catches: a FIN sent to the client before the server has acknowledged the last byte; a FIN that
/// is never sent.
#[tokio::test]
async fn with_confirm_close_our_fin_waits_until_the_server_has_acknowledged_the_last_byte() {
    assert!(!sees_fin_early(true).await);
    assert!(sees_fin_early(false).await);
}

/// Catches: acknowledged bytes that are lost without a reset or a count; a loss counted although
/// the client saw a reset.
#[tokio::test]
async fn lost_acknowledged_bytes_reset_the_client_or_are_counted() {
    let [a, b] = pair_up(|_| ()).await;
    let (listener, server) = listener().await;
    let mut open = a.client(server).await;
    open.write_all(b"half a request").await.unwrap();
    let mut closed = a.client(server).await;
    closed.write_all(&content(200_000)).await.unwrap();
    drop(closed);
    let accepted = [listener.accept().await.unwrap(), listener.accept().await.unwrap()];
    until("both to be read", || a.site.counters.sent.get() == 200_014).await;
    b.tasks.abort();
    b.endpoint.close(1u32.into(), b"");
    assert!(is_reset(open.read(&mut [0]).await));
    until("the loss", || a.site.counters.lost_after_close.get() == 1).await;
    assert_eq!(a.site.counters.reset.get(), 2);
    until("permits to be returned", || a.site.connections() == 0).await;
    // While the peer is down, new connections are reset at once.
    assert!(is_reset(a.client(server).await.read(&mut [0]).await));
    assert_eq!(a.site.counters.peer_down.get(), 1);
    drop(accepted);
}

/// Catches: a peer whose key is not verified; a connection that counts as up before the peer has
/// accepted our key.
#[tokio::test]
async fn both_gateways_refuse_a_peer_with_another_key() {
    let keys = pair();
    for at in [0, 1] {
        let ends = [free_address(), free_address()];
        let mut both = keys.clone();
        both[at] = impostor(&keys[at], at == 0);
        let gateways = [0, 1].map(|at| {
            start(&both[at], config(|it| (it.listen, it.peer) = (ends[at], ends[1 - at])))
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        for gateway in &gateways {
            assert_eq!(gateway.site.counters.links.get(), 0, "{at}");
        }
    }
}

/// A peer with the right key that violates the protocol.
async fn misbehaving_peer() -> (Gateway, quinn::Connection) {
    let keys = pair();
    let ends = [free_address(), free_address()];
    let listen = |at: usize| config(|it| (it.listen, it.peer) = (ends[at], ends[1 - at]));
    let honest = start(&keys[1], listen(1));
    let (_, endpoint) = prepare(listen(0), &keys[0], MOST).unwrap();
    (honest, endpoint.connect(ends[1], "tidegate").unwrap().await.unwrap())
}

#[tokio::test]
async fn a_peer_of_another_version_is_refused() {
    let (honest, connection) = misbehaving_peer().await;
    let mut greeting = connection.open_uni().await.unwrap();
    greeting.write_all(&[VERSION + 1]).await.unwrap();
    connection.closed().await;
    assert_eq!(honest.site.counters.bad_messages.get(), 1);
    assert_eq!(honest.site.counters.links.get(), 0);
}

/// Catches: a stream header with unknown flags that is accepted; a confirmation that causes a
/// panic; a refusal of a bad header that comes only after the time limit.
#[tokio::test]
async fn bad_messages_are_refused_and_counted() {
    let (honest, connection) = misbehaving_peer().await;
    let mut greeting = connection.open_uni().await.unwrap();
    greeting.write_all(&[VERSION]).await.unwrap();
    for header in
        [&b"GET / HTTP/1.1"[..], &[VERSION, 255], &[VERSION, 0, 127, 0, 0, 1, 0, 0], &[VERSION]]
    {
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(header).await.unwrap();
        let _ = send.finish();
        let answer = recv.read_to_end(10).await.unwrap();
        assert_eq!(answer, [Answer::BadHeader.byte()], "{header:?}");
    }
    assert_eq!(honest.site.counters.bad_messages.get(), 4);
    // A confirmation of an unknown stream is ignored. An invalid confirmation ends the connection.
    greeting.write_all(&Confirmation(77).encode()).await.unwrap();
    greeting.write_all(&[9; 9]).await.unwrap();
    connection.closed().await;
    assert_eq!(honest.site.counters.bad_messages.get(), 5);
}
