//! Live test: under load, the weight of an aggregate connection rises. Such a connection carries
//! the TCP connections of all users between two gateways. A connection of weight 3 takes the share
//! of three TCP connections.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use serde_json::Value;
use tidegate_e2e::{Sites, until, witnessed};

use super::{LIMIT, PORT, stop};

/// The weight starts at 1, and its maximum is 4. Each increase multiplies it by at least 1.45. At
/// first the factor is larger, because clients fill their buffers and so offer more than the path
/// carries.
const WEIGHT: &str = "weight = { kind = \"measured\", every = \"50 ms\", samples = 3, margin = 0.9, \
                      weight = 1, most = 4 }";

/// Maximum number of measurements without an increase. During the first measurements, connections
/// are still being opened.
const UNCHANGED: u64 = 8;

/// Clients send as fast as they can over a path of 20 Mbit/s.
///
/// Catches: a busy time that does not include the time in which bytes wait; a weight that rises
/// although the queue is empty; a weight above the maximum `most`.
#[test]
fn a_saturated_site_raises_its_weight_to_the_maximum() {
    witnessed(|bed| {
        let sites = Sites::new(bed);
        if !sites.gateways[0].slow_down_at("wan", "20mbit") {
            return;
        }
        let gateways = [0, 1].map(|at| sites.start(at, WEIGHT));
        sites.connected();
        discard(&sites);
        let idle = sites.status(0)["weight"].clone();
        for _ in 0..4 {
            send(&sites);
        }
        let weight = until("the greatest weight", LIMIT, || {
            let weight = sites.status(0)["weight"].clone();
            (weight["thousandths"] == 4_000).then_some(weight)
        });
        let of = |weight: &Value, name: &str| weight["decisions"][name].as_u64().unwrap_or(0);
        let decisions = |name: &str| of(&weight, name) - of(&idle, name);
        // All but a few measurements increase the weight. The first measurements may count as
        // "decreased" although the weight stays at 1.
        assert!(decisions("increased") > 0, "{weight}");
        assert!(decisions("held") + decisions("decreased") <= UNCHANGED, "{weight}");
        assert!(weight["round"]["busy_thousandths"].as_u64() > Some(950), "{weight}");
        // The server's site sends nothing, so its weight does not change.
        let other = sites.status(1)["weight"].clone();
        assert_eq!(
            (&other["thousandths"], &other["decisions"]["increased"]),
            (&1_000.into(), &Value::Null)
        );
        gateways.into_iter().for_each(stop);
    });
}

/// A server that discards what it reads.
fn discard(sites: &Sites<'_>) {
    let (ready, is_ready) = mpsc::channel();
    sites.server.within(move || {
        let listener = TcpListener::bind(("::", PORT)).expect("a port of its own");
        let _ = ready.send(());
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
        }
    });
    is_ready.recv_timeout(LIMIT).expect("the server listens");
}

/// Sends until the connection breaks.
fn send(sites: &Sites<'_>) {
    let server = SocketAddr::new(sites.server.v4, PORT);
    sites.client.within(move || {
        let mut stream = TcpStream::connect(server).expect("it is taken");
        while stream.write_all(&[1; 64 << 10]).is_ok() {}
    });
}
