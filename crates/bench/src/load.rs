//! A load of UDP datagrams at a fixed rate, and a record of their arrivals.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce, ReceiveTimestampns};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use tidegate_e2e::{now, pause};

/// Length in bytes of a full-size Ethernet frame, and of its UDP payload.
pub(crate) const FRAME: u32 = 1_514;
const PAYLOAD: usize = 1_472;

/// The port of the receiver.
pub(crate) const PORT: u16 = 7_007;

/// Largest number of flows in a load.
const FLOWS: usize = 8;

/// For `time`, sends `per_second` datagrams each second, in bursts of `burst`. The `flows` flows
/// send one datagram each in rotation. Each datagram carries its departure time.
pub(crate) fn send(
    to: SocketAddr,
    per_second: u32,
    burst: u32,
    time: Duration,
    flows: usize,
) -> io::Result<()> {
    let bind = |_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    let sockets = (0..flows.clamp(1, FLOWS)).map(bind).collect::<io::Result<Vec<_>>>()?;
    let mut rotation = sockets.iter().cycle();
    let mut payload = [0; PAYLOAD];
    let start = now();
    let mut sent = 0;
    while start.elapsed() < time {
        for socket in rotation.by_ref().take(usize::try_from(burst).unwrap_or(1)) {
            payload[..8].copy_from_slice(&clock()?.to_be_bytes());
            // If a datagram cannot be sent now, it counts as lost.
            let _ = socket.send_to(&payload, to);
        }
        sent += burst;
        let due = Duration::from_secs(1) * sent / per_second;
        pause(due.saturating_sub(start.elapsed()));
    }
    Ok(())
}

/// Opens a socket and never reads it. The kernel drops datagrams that arrive there. This costs
/// least.
pub(crate) fn sink(time: Duration) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    setsockopt(&socket, RcvBuf, &2_048)?;
    println!("ready");
    pause(time);
    Ok(())
}

/// The current time in nanoseconds, on the clock of the kernel's arrival time stamps.
fn clock() -> nix::Result<i64> {
    clock_gettime(ClockId::CLOCK_REALTIME).map(nanos)
}

fn nanos(time: TimeSpec) -> i64 {
    time.tv_sec() * SECOND + time.tv_nsec()
}

const SECOND: i64 = 1_000_000_000;

/// An arrived datagram. Times are in nanoseconds.
struct Arrival {
    at: i64,
    /// Time since its departure.
    delay: i64,
}

/// Prints each arrival at `ports` ports: the index of the port, the arrival time on the kernel's
/// clock, and the delay. Waits for the first arrival without limit, and ends one second after the
/// last one.
pub(crate) fn arrivals(ports: u16) -> io::Result<()> {
    let sockets = (PORT..PORT + ports).map(receiver).collect::<io::Result<Vec<_>>>()?;
    println!("ready");
    let mut all: Vec<(usize, Arrival)> = Vec::new();
    while all.last().map_or(Ok(true), |(_, last)| clock().map(|now| now - last.at < SECOND))? {
        pause(Duration::from_millis(5));
        for (number, socket) in sockets.iter().enumerate() {
            while let Some(arrival) = arrival(socket)? {
                all.push((number, arrival));
            }
        }
    }
    for (number, Arrival { at, delay }) in all {
        println!("{number} {at} {delay}");
    }
    Ok(())
}

/// A socket with a large buffer, so that no datagram is lost while the process waits for a
/// processor.
fn receiver(port: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
    socket.set_nonblocking(true)?;
    setsockopt(&socket, RcvBufForce, &(8 << 20))?;
    setsockopt(&socket, ReceiveTimestampns, &true)?;
    Ok(socket)
}

/// The next arrived datagram, if any.
fn arrival(socket: &UdpSocket) -> nix::Result<Option<Arrival>> {
    let mut payload = [0; PAYLOAD];
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(&mut payload)];
    let message = match recvmsg::<()>(
        socket.as_raw_fd(),
        &mut parts,
        Some(&mut control),
        MsgFlags::empty(),
    ) {
        Err(Errno::EAGAIN) => return Ok(None),
        message => message?,
    };
    let at = message.cmsgs()?.find_map(|each| match each {
        ControlMessageOwned::ScmTimestampns(time) => Some(nanos(time)),
        _ => None,
    });
    let sent = i64::from_be_bytes(payload.first_chunk().copied().unwrap_or_default());
    Ok(at.map(|at| Arrival { at, delay: at - sent }))
}
