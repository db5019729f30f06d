//! A stream of datagrams from the LAN to the WAN. Both ends count the datagrams, so a loss is
//! noticed.

use std::net::UdpSocket;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{Testbed, pause};

/// The destination port of the stream.
pub(crate) const PORT: u16 = 9000;

/// Interval between two datagrams.
const INTERVAL: Duration = Duration::from_millis(2);

/// The receiver ends after this time without a datagram.
const SILENCE: Duration = Duration::from_millis(500);

/// A running stream.
pub(crate) struct Stream {
    ends: Ends,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<u64>,
}

impl Stream {
    pub(crate) fn start(bed: &Testbed) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (from, to) = (bed.lan.v4, bed.wan.v4);
        let (bound, ready) = std::sync::mpsc::channel();
        let (end, done) = (Arc::clone(&ends), Arc::new(AtomicBool::new(false)));
        let all_sent = Arc::clone(&done);
        let receiver = bed.wan.within(move || {
            let socket = UdpSocket::bind((to, PORT)).unwrap();
            socket.set_read_timeout(Some(SILENCE)).unwrap();
            bound.send(()).unwrap();
            let (mut received, mut datagram) = (0, [0; 256]);
            loop {
                let last = done.load(Ordering::Acquire);
                match socket.recv(&mut datagram) {
                    Ok(_) => received += 1,
                    Err(_) if last => return received,
                    Err(_) => {}
                }
            }
        });
        ready.recv().unwrap();
        let sender = bed.lan.within(move || {
            let socket = UdpSocket::bind((from, PORT)).unwrap();
            let mut sent = 0;
            while !end.load(Ordering::Acquire) {
                socket.send_to(&[0; 100], (to, PORT)).unwrap();
                sent += 1;
                pause(INTERVAL);
            }
            all_sent.store(true, Ordering::Release);
            sent
        });
        Self { ends: Ends(ends), sender, receiver }
    }

    /// Ends the stream. Returns the numbers of sent and received datagrams.
    pub(crate) fn finish(self) -> (u64, u64) {
        drop(self.ends);
        (self.sender.join().unwrap(), self.receiver.join().unwrap())
    }
}

/// Sends a datagram to each of `ports`. The gateway then creates an aggregate for each policy of
/// these ports.
pub(crate) fn touch(bed: &Testbed, ports: Range<u16>) {
    let (from, to) = (bed.lan.v4, bed.wan.v4);
    let sender = bed.lan.within(move || {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        for port in ports {
            socket.send_to(&[0; 100], (to, port)).unwrap();
            if port % PACE == 0 {
                pause(INTERVAL);
            }
        }
    });
    sender.join().unwrap();
}

/// Number of datagrams sent at a time. Every ring of a port can hold them.
const PACE: u16 = 32;

/// Dropping this value ends the sender, even after a panic.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Number of packets of the stream that the gateway has assigned to a policy, according to
/// `status`.
pub(crate) fn classified(status: &Value) -> u64 {
    let all = status["aggregates"].as_array().unwrap().iter();
    let stream = all.filter(|it| it["policy"] == "stream" && it["direction"] == "up");
    stream.map(|it| it["offered"]["packets"].as_u64().unwrap()).sum()
}
