//! Generates kinds of traffic that `tidegate traffic` cannot generate.
//!
//! - `e2e-mix listen PORT BYTES` and `e2e-mix connect ADDRESS BYTES` are the two ends of a
//!   connection. Both send at the same time. Ten times a second, each end prints how many bytes
//!   have arrived.
//! - `e2e-mix flood ADDRESS BYTES SECONDS` sends datagrams, BYTES bytes a second. `e2e-mix drain
//!   PORT` receives them, and prints how many bytes have arrived.
//! - `e2e-mix pages PORT BYTES` sends BYTES bytes (a page) on each connection. `e2e-mix browse
//!   ADDRESS BYTES CLIENTS SECONDS` requests such pages repeatedly. For each request, it prints the
//!   duration, and whether the page arrived intact and in time.

use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;

use tidegate_e2e::{now, pause};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["listen", port, bytes] => {
            let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port.parse()?))?;
            println!("ready");
            exchange(listener.accept()?.0, bytes.parse()?, [1, 2])
        }
        ["connect", address, bytes] => {
            exchange(TcpStream::connect(address)?, bytes.parse()?, [2, 1])
        }
        ["flood", address, bytes, seconds] => {
            flood(address, bytes.parse()?, Duration::from_secs(seconds.parse()?))
        }
        ["drain", port] => drain(port.parse()?),
        ["pages", port, bytes] => pages(port.parse()?, bytes.parse()?),
        ["browse", address, bytes, clients, seconds] => {
            let time = Duration::from_secs(seconds.parse()?);
            browse(address.parse()?, bytes.parse()?, clients.parse()?, time);
            Ok(())
        }
        _ => Err("usage: e2e-mix listen PORT BYTES | connect ADDRESS BYTES | flood ADDRESS BYTES SECONDS | drain PORT | \
            pages PORT BYTES | browse ADDRESS BYTES CLIENTS SECONDS"
            .into()),
    }
}

/// The byte at position `at` of test stream `stream`.
fn byte(stream: u64, at: u64) -> u8 {
    let mixed = (at / 7 + 1).wrapping_mul(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    mixed.to_le_bytes()[5]
}

/// Interval between two outputs.
const INTERVAL: Duration = Duration::from_millis(100);

/// Sends `bytes` bytes of stream 1 and receives as many bytes of stream 2 at the same time. Prints
/// whether the received bytes were intact.
fn exchange(
    mut stream: TcpStream,
    bytes: u64,
    [own, other]: [u64; 2],
) -> Result<(), Box<dyn Error>> {
    const BLOCK: u64 = 16_384;
    let (mut out, start) = (stream.try_clone()?, now());
    let writer = thread::spawn(move || {
        let blocks = (0..bytes).step_by(16_384);
        blocks
            .map(|at| (at..bytes.min(at + BLOCK)).map(|at| byte(own, at)).collect())
            .try_for_each(|block: Vec<u8>| out.write_all(&block))
    });
    let (mut buffer, mut at, mut intact, mut said) = ([0; 16_384], 0, true, Duration::ZERO);
    while at < bytes {
        let read = match stream.read(&mut buffer)? {
            0 => return Err("the connection ended early".into()),
            read => &buffer[..read],
        };
        intact &= read.iter().zip(at..).all(|(is, at)| *is == byte(other, at));
        at += u64::try_from(read.len())?;
        if start.elapsed() >= said + INTERVAL {
            said = start.elapsed();
            println!("{{\"bytes\": {at}, \"at_ms\": {}}}", said.as_millis());
        }
    }
    writer.join().map_err(|_| "the writer failed")??;
    // The other end may still be writing. Its remaining bytes are read before the connection is
    // closed.
    let ms = start.elapsed().as_millis();
    println!("{{\"bytes\": {at}, \"intact\": {intact}, \"complete\": true, \"at_ms\": {ms}}}");
    Ok(())
}

/// Every ten milliseconds, sends the datagrams of 1,000 bytes that are due.
fn flood(address: &str, bytes: u64, time: Duration) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let (start, mut sent) = (now(), 0);
    while start.elapsed() < time {
        let due = u128::from(bytes) * start.elapsed().as_millis() / 1_000;
        while sent + 1_000 <= due {
            // The result is ignored: without a receiver, the kernel refuses some datagrams.
            let _ = socket.send_to(&[0; 1_000], address);
            sent += 1_000;
        }
        pause(Duration::from_millis(10));
    }
    Ok(())
}

/// Receives datagrams. Prints how many bytes have arrived since the first datagram.
fn drain(port: u16) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind(("0.0.0.0", port))?;
    println!("ready");
    let mut buffer = [0; 2_048];
    let (mut bytes, start) = (socket.recv(&mut buffer)?, now());
    socket.set_read_timeout(Some(INTERVAL))?;
    for look in 1.. {
        while start.elapsed() < look * INTERVAL {
            // Within an interval, possibly no datagram arrives. The error is then ignored.
            bytes += socket.recv(&mut buffer).unwrap_or(0);
        }
        println!("{{\"bytes\": {bytes}, \"at_ms\": {}}}", start.elapsed().as_millis());
    }
    Ok(())
}

/// Serves pages. Each page is the beginning of stream 1.
fn pages(port: u16, bytes: u64) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?;
    let page: Arc<[u8]> = (0..bytes).map(|at| byte(1, at)).collect();
    println!("ready");
    loop {
        let (mut connection, _) = listener.accept()?;
        let page = Arc::clone(&page);
        // The result is ignored, because the client checks whether the page arrived.
        thread::spawn(move || connection.write_all(&page));
    }
}

/// Runs the clients. Their starting times are spread over the first twentieth of `time`.
fn browse(server: SocketAddr, bytes: usize, clients: u32, time: Duration) {
    let start = now();
    let left = || time.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
    let client = |number| {
        pause(time / 20 * number / clients);
        while start.elapsed() < time {
            let begun = now();
            let intact = match page(server, bytes, left) {
                Ok(intact) => Some(intact),
                Err(error) => (!is_timeout(&error)).then_some(false),
            };
            let seconds = begun.elapsed().as_secs_f64();
            println!("{}", json!({ "seconds": seconds, "intact": intact }));
            if intact.is_none() {
                break;
            }
        }
    };
    thread::scope(|scope| {
        for number in 0..clients {
            scope.spawn(move || client(number));
        }
    });
}

/// Fetches a page within the time `left`. Returns `true` if it is intact.
fn page(server: SocketAddr, bytes: usize, left: impl Fn() -> Duration) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&server, left())?;
    let (mut page, mut buffer) = (Vec::new(), [0; 16_384]);
    while page.len() < bytes {
        stream.set_read_timeout(Some(left()))?;
        match stream.read(&mut buffer)? {
            0 => break,
            read => page.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(page.len() == bytes && page.iter().zip(0..).all(|(is, at)| *is == byte(1, at)))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
