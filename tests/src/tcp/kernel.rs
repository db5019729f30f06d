//! One of the two ends of the test connection: a TCP socket of the kernel.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::{self, JoinHandle};

use socket2::{Domain, Socket, Type};

use super::content::{Content, Received, checksum};
use super::{KERNEL, Setup, Side, ours};

/// The kernel's end, driven by threads.
pub(super) struct Kernel(JoinHandle<io::Result<Received>>);

impl Kernel {
    /// Listens, or connects, and then sends and receives all data.
    pub(super) fn start(setup: &Setup) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_tcp_congestion(setup.congestion.as_bytes())?;
        socket.set_reuse_address(true)?;
        socket.bind(&KERNEL.into())?;
        let (sends, expects) = (setup.kernel_sends, setup.ours_sends);
        if setup.opens == Side::Ours {
            socket.listen(1)?;
            return Ok(Self(thread::spawn(move || transfer(socket.accept()?.0, sends, expects))));
        }
        Ok(Self(thread::spawn(move || {
            socket.connect(&ours().into())?;
            transfer(socket, sends, expects)
        })))
    }

    /// Returns `true` once this end has sent and received all data.
    pub(super) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for the end. Returns the received data.
    pub(super) fn finish(self) -> Result<Received, Box<dyn Error>> {
        Ok(self.0.join().map_err(|_| "the kernel's end panicked")??)
    }
}

fn transfer(socket: Socket, sends: u64, expects: u64) -> io::Result<Received> {
    let mut stream = TcpStream::from(socket);
    let mut sending = stream.try_clone()?;
    let sender = thread::spawn(move || send(&mut sending, sends));
    let received = receive(&mut stream, expects)?;
    sender.join().map_err(|_| io::Error::other("the sender panicked"))??;
    Ok(received)
}

fn send(stream: &mut TcpStream, bytes: u64) -> io::Result<()> {
    let content = Content::KERNELS;
    let mut at = 0;
    while at < bytes {
        let piece = content.bytes(at, usize::try_from((bytes - at).min(PIECE)).unwrap_or(0));
        stream.write_all(&piece)?;
        at += PIECE;
    }
    stream.shutdown(Shutdown::Write)
}

fn receive(stream: &mut TcpStream, expects: u64) -> io::Result<Received> {
    let (mut buffer, mut bytes, mut error) = (vec![0; 1 << 16], 0, None);
    let pieces = std::iter::from_fn(|| match stream.read(&mut buffer) {
        Ok(0) => None,
        Ok(len) => Some(buffer[..len].to_vec()),
        Err(found) => {
            error = Some(found);
            None
        }
    });
    let checksum =
        checksum(pieces.inspect(|piece| bytes += u64::try_from(piece.len()).unwrap_or(0)));
    let expected = Content::OURS.checksum(expects);
    error.map_or(Ok(Received { bytes, checksum, expected }), Err)
}

/// Number of bytes written at a time.
const PIECE: u64 = 1 << 16;
