//! Live test: a thousand policy changes in a row, while datagrams cross the gateway. If a datagram
//! does not arrive, a drop counter of the gateway or of a kernel must include it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_e2e::{Host, Testbed, now, on_each_backend, pause};

on_each_backend! {
    each_datagram_lost_during_a_thousand_applies_is_in_a_counter
}

/// Number of policy changes.
const APPLIES: u32 = 1_000;

/// A busy machine may make fewer changes, if they take at least this long.
const LONG_ENOUGH: Duration = Duration::from_secs(4);

const PORT: u16 = 9_000;

/// Number of datagrams in a batch, and the interval between batches.
const BATCH: u32 = 64;
const INTERVAL: Duration = Duration::from_micros(300);

/// The receiver ends after this time without a datagram.
const SILENCE: Duration = Duration::from_millis(500);

/// Returns one of two sets of policies, in alternation. They differ in a name, the kind of queue,
/// and an action.
fn policies(number: u32) -> String {
    let (name, queue) =
        if number.is_multiple_of(2) { ("one", "per-flow") } else { ("two", "drop-tail") };
    let first = format!(
        "[[policy]]\nname = \"{name}\"\nmatch = {{ dst_port = {PORT} }}\naction = \"shape\"\n\
         profile = {{ mean = \"400 Mbit/s\", burst = \"1 MiB\" }}\nqueue = \"{queue}\"\n"
    );
    match number % 3 {
        0 => first,
        1 => first + "\n[[policy]]\nname = \"other\"\naction = \"pass\"\n",
        _ => "[[policy]]\nname = \"all\"\naction = \"pass\"\n".to_owned(),
    }
}

/// Catches: a policy change that loses a packet without counting it; a packet that is counted as
/// dropped although it was sent.
fn each_datagram_lost_during_a_thousand_applies_is_in_a_counter(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, &policies(0));
    let kernel = kernel_drops(bed);
    let before = gateway.status();
    let stream = Stream::start(bed);
    let applied = apply_alternately(gateway.id(), backend);
    let (sent, received, reordered) = stream.finish();
    let after = gateway.status();
    let missing = sent - received;
    let lost = |status: &Value| -> u64 {
        let drops = status["drops"].as_object().unwrap().values();
        let ports = ["up", "down"].map(|way| &status[way]["port"]);
        let errors = ports.iter().flat_map(|port| {
            ["ring_overflows", "receive_errors", "send_errors"].map(|name| port[name].as_u64())
        });
        drops.map(|it| it.as_u64()).chain(errors).flatten().sum()
    };
    let (gateway_lost, now) = (lost(&after) - lost(&before), kernel_drops(bed));
    let of_kernel: Vec<u64> = now.into_iter().zip(kernel).map(|(now, then)| now - then).collect();
    let kernel_lost: u64 = of_kernel.iter().sum();
    println!(
        "{backend}: {applied} applies, {sent} datagrams, {missing} missing: {gateway_lost} in counters of the gateway, {of_kernel:?} at interfaces and the socket"
    );
    assert!(applied >= 100 && sent > 2_000, "{applied} applies, {sent} sent");
    assert_eq!(reordered, 0, "{after}");
    assert_eq!(missing, gateway_lost + kernel_lost, "{before}\n{after}");
}

/// Applies the two sets in alternation, over one connection to the control socket. Returns the
/// number of changes.
fn apply_alternately(process: u32, backend: &str) -> u32 {
    let socket = format!("/proc/{process}/root/run/tidegate.sock");
    let mut socket = BufReader::new(UnixStream::connect(socket).unwrap());
    let start = now();
    let mut applied = 0;
    while applied < APPLIES && (applied < 100 || start.elapsed() < LONG_ENOUGH) {
        applied += 1;
        let text = format!(
            "[gateway]\nlan = \"lan\"\nwan = \"wan\"\nbackend = \"{backend}\"\n\n{}",
            policies(applied)
        );
        let body = json!({ "file": "next.toml", "text": text }).to_string();
        let head = "POST /v1/apply HTTP/1.1\r\nHost: x\r\nContent-Type: application/json";
        write!(socket.get_mut(), "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        answered(&mut socket);
    }
    applied
}

/// Reads an answer, and asserts that it reports success.
fn answered(socket: &mut BufReader<UnixStream>) {
    let (mut line, mut length) = (String::new(), 0);
    socket.read_line(&mut line).unwrap();
    let status = line.clone();
    while line != "\r\n" {
        line.clear();
        socket.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body).unwrap();
    assert!(status.starts_with("HTTP/1.1 200"), "{status}{}", String::from_utf8_lossy(&body));
}

/// Number of datagrams that the kernels of the three hosts dropped: at each interface, and at the
/// receiver's socket.
fn kernel_drops(bed: &Testbed) -> [u64; 5] {
    let at = |(host, name): (&Host, &str)| -> u64 {
        let text = host.run("cat /proc/net/dev");
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        let fields: Vec<u64> =
            line.unwrap().split_whitespace().map(|it| it.parse().unwrap()).collect();
        // Sum of the packets dropped on reception and on transmission.
        fields[3] + fields[11]
    };
    let sockets = bed.wan.run("cat /proc/net/snmp");
    let mut rows = sockets.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let place = rows.next().unwrap().split_whitespace().position(|it| it == "RcvbufErrors");
    let full = rows.next().unwrap().split_whitespace().nth(place.unwrap()).unwrap();
    let [a, b, c, d] =
        [(&bed.lan, "eth0"), (&bed.middle, "lan"), (&bed.middle, "wan"), (&bed.wan, "eth0")]
            .map(at);
    [a, b, c, d, full.parse().unwrap()]
}

/// A stream of numbered datagrams from the LAN to the WAN.
struct Stream {
    ends: Ends,
    sender: std::thread::JoinHandle<u64>,
    /// Number of datagrams received, and how many of them arrived after a later datagram.
    receiver: std::thread::JoinHandle<(u64, u64)>,
}

impl Stream {
    fn start(bed: &Testbed) -> Self {
        let [ends, all_sent] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (from, to) = (bed.lan.v4, bed.wan.v4);
        let (bound, ready) = std::sync::mpsc::channel();
        let done = Arc::clone(&all_sent);
        let receiver = bed.wan.within(move || {
            let socket = UdpSocket::bind((to, PORT)).unwrap();
            socket.set_read_timeout(Some(SILENCE)).unwrap();
            bound.send(()).unwrap();
            let (mut received, mut reordered, mut next, mut datagram) = (0, 0, 0, [0; 8]);
            loop {
                let last = done.load(Ordering::Acquire);
                match socket.recv(&mut datagram) {
                    Ok(_) => {
                        let number = u64::from_be_bytes(datagram);
                        received += 1;
                        reordered += u64::from(number < next);
                        next = next.max(number + 1);
                    }
                    Err(_) if last => return (received, reordered),
                    Err(_) => {}
                }
            }
        });
        ready.recv().unwrap();
        let end = Arc::clone(&ends);
        let sender = bed.lan.within(move || {
            let socket = UdpSocket::bind((from, PORT)).unwrap();
            // The first datagram makes the kernel resolve the next hop. Datagrams sent meanwhile
            // could be reordered, so the stream starts after a pause.
            socket.send_to(&0_u64.to_be_bytes(), (to, PORT)).unwrap();
            pause(SILENCE / 5);
            let mut sent = 1_u64;
            while !end.load(Ordering::Acquire) {
                for _ in 0..BATCH {
                    socket.send_to(&sent.to_be_bytes(), (to, PORT)).unwrap();
                    sent += 1;
                }
                pause(INTERVAL);
            }
            all_sent.store(true, Ordering::Release);
            sent
        });
        Self { ends: Ends(ends), sender, receiver }
    }

    /// Ends the stream. Returns the numbers of sent, received, and reordered datagrams.
    fn finish(self) -> (u64, u64, u64) {
        drop(self.ends);
        let sent = self.sender.join().unwrap();
        let (received, reordered) = self.receiver.join().unwrap();
        (sent, received, reordered)
    }
}

/// Dropping this value ends the sender, even after a panic.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
