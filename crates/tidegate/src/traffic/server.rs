//! The server: sends and receives as it is asked to, and echoes datagrams.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use socket2::{Domain, Socket, Type};

use super::client::Way;
use super::pin_congestion_control;
use super::request::{Receipt, Request};
use super::stream::Stream;

/// A server, listening.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    echo: UdpSocket,
}

impl Server {
    /// Listens at `address` and sends with `congestion_control`, or else what the system prefers.
    ///
    /// # Errors
    ///
    /// If either cannot be had.
    pub fn bind(address: SocketAddr, congestion_control: Option<&str>) -> io::Result<Self> {
        let listener = listen(address, congestion_control)?;
        let echo = UdpSocket::bind(listener.local_addr()?)?;
        Ok(Self { listener, echo })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// If the system does not know.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves transfers over TCP and echoes over UDP, until the process ends.
    ///
    /// # Errors
    ///
    /// If the system takes its socket away.
    pub fn run(self) -> io::Result<()> {
        thread::spawn(move || echo_datagrams(&self.echo));
        loop {
            let (connection, _) = self.listener.accept()?;
            thread::spawn(move || {
                // A client that goes away in the middle is nothing to report.
                let _ = answer(connection);
            });
        }
    }
}

fn listen(address: SocketAddr, congestion_control: Option<&str>) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    pin_congestion_control(&socket, congestion_control)?;
    socket.bind(&address.into())?;
    socket.listen(128)?;
    Ok(socket.into())
}

fn echo_datagrams(socket: &UdpSocket) {
    let mut datagram = [0; 2_048];
    while let Ok((len, from)) = socket.recv_from(&mut datagram) {
        // What cannot be sent back counts as lost with the one who waits for it.
        let _ = socket.send_to(&datagram[..len], from);
    }
}

fn answer(mut connection: TcpStream) -> io::Result<()> {
    let request = Request::read(&mut connection)?;
    match request.way {
        Way::Down => send(&mut connection, request.bytes, |_| true).map(drop),
        Way::Up => receive(&mut connection, request.bytes, |_| true)?.write(&mut connection),
    }
}

/// Sends `bytes` of the stream, or until `go_on`, asked with what was sent so far, says no.
pub(super) fn send(
    to: &mut impl Write,
    bytes: u64,
    mut go_on: impl FnMut(u64) -> bool,
) -> io::Result<u64> {
    let (mut stream, mut sent) = (Stream::new(), 0);
    while sent < bytes && go_on(sent) {
        match to.write(stream.upcoming(bytes - sent)) {
            Ok(written) => {
                stream.advance(written);
                sent += u64::try_from(written).unwrap_or(0);
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Receives `bytes`, or until the other side ends or `go_on`, asked with what came so far, says no.
pub(super) fn receive(
    from: &mut impl Read,
    bytes: u64,
    mut go_on: impl FnMut(u64) -> bool,
) -> io::Result<Receipt> {
    let (mut stream, mut receipt) = (Stream::new(), Receipt { bytes: 0, intact: true });
    let mut piece = vec![0; 1 << 16];
    while receipt.bytes < bytes && go_on(receipt.bytes) {
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(received) => {
                receipt.intact &= stream.continues_with(&piece[..received]);
                receipt.bytes += u64::try_from(received).unwrap_or(0);
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(receipt)
}

/// Whether `error` only says that nothing could be done for a while.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
