//! The server: sends or receives data as its clients request, and echoes datagrams.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use socket2::{Domain, Socket, Type};

use super::pin_congestion_control;
use super::request::{Request, Sender};
use super::stream::{receive, send};

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    echo: UdpSocket,
}

impl Server {
    /// Listens at `address`. Sends with `congestion_control`, or with the default of the system if
    /// it is `None`.
    ///
    /// # Errors
    ///
    /// If the address or the congestion control is not available.
    pub fn bind(address: SocketAddr, congestion_control: Option<&str>) -> io::Result<Self> {
        let listener = listen(address, congestion_control)?;
        let echo = UdpSocket::bind(listener.local_addr()?)?;
        Ok(Self { listener, echo })
    }

    /// The address at which the server listens.
    ///
    /// # Errors
    ///
    /// If the system does not know the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves transfers over TCP and echoes over UDP, until the process ends.
    ///
    /// # Errors
    ///
    /// If the listening socket fails.
    pub fn run(self) -> io::Result<()> {
        thread::spawn(move || echo_datagrams(&self.echo));
        loop {
            let (connection, _) = self.listener.accept()?;
            thread::spawn(move || {
                // The result is ignored: a client may disconnect early.
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
        // The result is ignored: the client counts an echo that cannot be sent as lost.
        let _ = socket.send_to(&datagram[..len], from);
    }
}

fn answer(mut connection: TcpStream) -> io::Result<()> {
    let request = Request::read(&mut connection)?;
    match request.sender {
        Sender::Server => send(&mut connection, request.bytes, |_| true).map(drop),
        Sender::Client => receive(&mut connection, request.bytes, |_| true)?.write(&mut connection),
    }
}
