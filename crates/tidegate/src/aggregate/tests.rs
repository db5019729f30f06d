//! Two gateways on loopback: what one takes arrives at a server behind the other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_config::aggregate::{self, AggregateConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::keys::{Keys, tests::pair};
use super::site::Site;
use super::{outward, peer, transport};

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
    task: tokio::task::JoinHandle<()>,
}

fn start(keys: &Keys, config: AggregateConfig) -> Gateway {
    let site = Arc::new(Site::new(config, 100));
    let control = Arc::new(quinn::congestion::CubicConfig::default());
    let endpoint = transport::endpoint(&site.config, keys, 100, control).unwrap();
    let task = tokio::spawn(peer::keep(site.clone(), endpoint.clone(), keys.opens()));
    Gateway { site, endpoint, task }
}

/// Two gateways that know each other; `change` is made to both.
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

    /// A connection of a client that this gateway has taken, to `destination`.
    async fn client(&self, destination: SocketAddr) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (taken, from) = listener.accept().await.unwrap();
        outward::take(&self.site, taken, from, destination);
        client
    }
}

const LIMIT: Duration = Duration::from_secs(10);

/// A server that echoes what it is sent.
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

#[tokio::test]
async fn bytes_and_half_closes_are_carried_in_both_directions() {
    let gateways = two(|_| ());
    for gateway in &gateways {
        gateway.up().await;
    }
    let server = echo().await;
    for gateway in &gateways {
        let mut client = gateway.client(server).await;
        let content: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
        client.write_all(&content).await.unwrap();
        client.shutdown().await.unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).await.unwrap();
        assert!(back == content);
    }
}
