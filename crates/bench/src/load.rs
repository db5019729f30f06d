//! A load of UDP datagrams at a fixed rate, and what is known of how it arrives.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::sockopt::{RcvBuf, ReceiveTimestampns};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use tidegate_e2e::{now, pause};

/// With its headers, a full-size Ethernet frame.
const PAYLOAD: [u8; 1_472] = [0; 1_472];

/// The port of a host's receiver.
pub(crate) const PORT: u16 = 7_007;

/// Flows that take turns.
const FLOWS: usize = 8;

/// Sends `per_second` datagrams each second, in bursts of `burst`, until `time` is over. `flows` of
/// them take turns.
pub(crate) fn send(
    to: SocketAddr,
    per_second: u32,
    burst: u32,
    time: Duration,
    flows: usize,
) -> io::Result<()> {
    let bind = |_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    let sockets = (0..flows.clamp(1, FLOWS)).map(bind).collect::<io::Result<Vec<_>>>()?;
    let mut turns = sockets.iter().cycle();
    let start = now();
    let mut sent = 0;
    while start.elapsed() < time {
        for socket in turns.by_ref().take(usize::try_from(burst).unwrap_or(1)) {
            // What does not go out now is lost like any other datagram.
            let _ = socket.send_to(&PAYLOAD, to);
        }
        sent += burst;
        let due = Duration::from_secs(1) * sent / per_second;
        pause(due.saturating_sub(start.elapsed()));
    }
    Ok(())
}

/// Takes in nothing: what comes is dropped at the socket, at the least cost there is.
pub(crate) fn sink(time: Duration) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    setsockopt(&socket, RcvBuf, &2_048)?;
    println!("ready");
    pause(time);
    Ok(())
}

/// Prints how many datagrams arrive at each of three ports within `time`, from a second after the
/// first.
pub(crate) fn received(time: Duration) -> io::Result<()> {
    let bind = |port| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
        setsockopt(&socket, RcvBuf, &(8 << 20))?;
        io::Result::Ok(socket)
    };
    let sockets = [bind(PORT)?, bind(PORT + 1)?, bind(PORT + 2)?];
    println!("ready");
    sockets[0].recv(&mut [0; 2_048])?;
    pause(Duration::from_secs(1));
    let start = now();
    sockets.iter().try_for_each(|socket| waiting(socket).map(drop))?;
    let mut counts = [0; 3];
    while start.elapsed() < time {
        pause(Duration::from_millis(5));
        for (count, socket) in counts.iter_mut().zip(&sockets) {
            *count += waiting(socket)?;
        }
    }
    let over = start.elapsed().as_secs_f64() / time.as_secs_f64();
    counts.iter().for_each(|count| println!("{:.0}", f64::from(*count) / over));
    Ok(())
}

/// Takes out what waits at a socket; says how many datagrams that was.
fn waiting(socket: &UdpSocket) -> io::Result<u32> {
    socket.set_nonblocking(true)?;
    let mut count = 0;
    loop {
        match socket.recv(&mut [0; 2_048]) {
            Ok(_) => count += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
            Err(error) => return Err(error),
        }
    }
}

/// Prints when datagrams arrive, in nanoseconds by the kernel's clock, until none does for a second.
pub(crate) fn arrivals() -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    setsockopt(&socket, RcvBuf, &(8 << 20))?;
    setsockopt(&socket, ReceiveTimestampns, &true)?;
    println!("ready");
    let mut times = Vec::new();
    loop {
        match arrival(&socket) {
            Ok(time) => times.extend(time),
            Err(nix::Error::EAGAIN) if times.is_empty() => {}
            Err(nix::Error::EAGAIN) => break,
            Err(error) => return Err(error.into()),
        }
    }
    times.iter().for_each(|time| println!("{time}"));
    Ok(())
}

/// When the next datagram arrived.
fn arrival(socket: &UdpSocket) -> nix::Result<Option<i64>> {
    let mut payload = [0; 2_048];
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let mut parts = [IoSliceMut::new(&mut payload)];
    let message =
        recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty())?;
    Ok(message.cmsgs()?.find_map(|each| match each {
        ControlMessageOwned::ScmTimestampns(time) => {
            Some(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
        }
        _ => None,
    }))
}
