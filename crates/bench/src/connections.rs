//! Many TCP connections at once, from one thread at each end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::SndBuf;
use tidegate_e2e::{now, pause};

use crate::load::PORT;

/// Bytes of memory that a sender takes for a full segment, and what it has for more than are under way.
const SEGMENT: usize = 2_560;
const BEYOND: usize = 2;

/// Connections that are opened at a time, and how long after each other: so that their first windows do
/// not all come at once.
const GROUP: usize = 20;
const BETWEEN: Duration = Duration::from_millis(10);

/// How often each connection has its turn.
const ROUND: Duration = Duration::from_millis(40);

/// Opens so many `connections`, says "ready", and keeps all of them busy until `time` is over; each
/// has so many segments under way as its `window` is.
pub(crate) fn fill(
    to: SocketAddr,
    connections: usize,
    window: usize,
    time: Duration,
) -> io::Result<()> {
    // Linux takes the double of what it is told.
    let buffer = (window + BEYOND) * SEGMENT / 2;
    let mut streams = Vec::with_capacity(connections);
    while streams.len() < connections {
        for _ in 0..GROUP {
            let stream = TcpStream::connect(to)?;
            setsockopt(&stream, SndBuf, &buffer)?;
            stream.set_nonblocking(true)?;
            streams.push(stream);
        }
        pause(BETWEEN);
    }
    println!("ready");
    rounds(time, || {
        for stream in &mut streams {
            while would_not_block(stream.write(&[0; 1_448]))? > 0 {}
        }
        Ok(())
    })
}

/// Accepts connections, and reads from each until `time` is over.
pub(crate) fn empty(time: Duration) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    listener.set_nonblocking(true)?;
    println!("ready");
    let (mut streams, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    rounds(time, || {
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true)?;
            streams.push(stream);
        }
        for stream in &mut streams {
            would_not_block(stream.read(&mut buffer))?;
        }
        Ok(())
    })
}

fn rounds(time: Duration, mut round: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let start = now();
    while start.elapsed() < time {
        let begin = now();
        round()?;
        pause(ROUND.saturating_sub(begin.elapsed()));
    }
    Ok(())
}

/// Bytes that were moved: none if there was no room, or nothing there.
fn would_not_block(moved: io::Result<usize>) -> io::Result<usize> {
    match moved {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        moved => moved,
    }
}
