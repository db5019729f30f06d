//! Ports on AF_XDP sockets over one shared packet memory, and the bypass programs below them.
//!
//! An AF_XDP socket gets the frames of one receive queue directly from the driver, past the network
//! stack. A bypass program is an XDP program that hands a frame to the socket while the gateway is
//! alive, and otherwise to the other interface.
//!
//! Source: Linux `Documentation/networking/af_xdp.rst`.

mod backend;
mod features;
mod port;
mod ring;
mod socket;

use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use tidegate_core::PacketPool;

pub(crate) use self::backend::XdpBackend;
use self::features::Features;
pub use self::port::AfXdp;
pub use self::socket::Copying;
use self::socket::{Socket, SocketQueue, Umem};
use crate::fail_to_wire::{self, FailToWire, MAX_QUEUES, Mode, WireConfig, WireError, XdpPort};
use crate::interface::{Interface, InterfaceError};
use crate::memory::PacketMemory;
use crate::offload::Offload;

/// The reason why AF_XDP cannot be used. AF_PACKET may work nevertheless.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The process lacks the privilege.
    #[error(
        "no privilege for AF_XDP; run as root or grant CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and \
         CAP_IPC_LOCK, or use AF_PACKET"
    )]
    NoPrivilege,
    /// The kernel was built without AF_XDP.
    #[error("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS); use AF_PACKET")]
    NoKernelSupport,
    /// A frame of this interface may be longer than a buffer.
    #[error(
        "`{interface}` has an MTU of {mtu}, and a buffer of {buffer} bytes holds frames of {most}; \
         lower it to {most_mtu} by `ip link set {interface} mtu {most_mtu}`, or use AF_PACKET",
        most_mtu = most - LINK_HEADER
    )]
    Mtu {
        /// The interface.
        interface: String,
        /// MTU of the interface.
        mtu: u32,
        /// Bytes of a buffer.
        buffer: u32,
        /// Longest frame that a buffer holds.
        most: u32,
    },
    /// The size of the buffers does not suit AF_XDP.
    #[error("buffers of {buffer} bytes are not for AF_XDP: a power of two from 2048 to {page}")]
    Buffers {
        /// Bytes of a buffer.
        buffer: u32,
        /// Largest possible size of a buffer.
        page: u32,
    },
    /// An interface has more receive queues than the XDP program supports.
    #[error(
        "`{interface}` receives on {queues} queues, and at most {MAX_QUEUES} can be served; \
         `ethtool -L {interface} combined {MAX_QUEUES}` (or `rx {MAX_QUEUES}`) reduces them"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// Number of receive queues.
        queues: u32,
    },
    /// There are too few buffers for the queues of both interfaces.
    #[error(
        "{buffers} buffers are too few for {queues} receive queues: at least {least} are needed"
    )]
    TooFewBuffers {
        /// Available buffers.
        buffers: usize,
        /// Receive queues of both interfaces.
        queues: u32,
        /// Required buffers.
        least: u32,
    },
    /// Another process has an AF_XDP socket on this queue.
    #[error(
        "another AF_XDP socket holds queue {queue} of `{interface}`; \
         end the program it belongs to (`ss --xdp` names it)"
    )]
    Busy {
        /// The interface.
        interface: String,
        /// The receive queue.
        queue: u32,
    },
    /// The process may not lock the buffers into memory.
    #[error(
        "{bytes} bytes of buffers may not be locked into memory; \
         raise RLIMIT_MEMLOCK (`ulimit -l unlimited`), grant CAP_IPC_LOCK, or use fewer buffers"
    )]
    LockedMemory {
        /// Bytes of all buffers.
        bytes: usize,
    },
    /// The kernel refused the socket for another reason.
    #[error("no AF_XDP socket on `{interface}`, queue {queue}: {source}; try AF_PACKET")]
    Socket {
        /// The interface.
        interface: String,
        /// The receive queue.
        queue: u32,
        /// The error of the kernel.
        source: io::Error,
    },
    /// A request to an interface failed.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The bypass programs cannot be attached.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Two ports, and the bypass programs between them.
#[derive(Debug)]
pub struct Opened {
    /// The ports, in the order of the interfaces.
    pub ports: [AfXdp; 2],
    /// The attached programs, which deliver frames to the ports.
    pub wire: FailToWire,
}

/// Bytes that the kernel keeps free before a frame, `XDP_PACKET_HEADROOM`.
const HEADROOM: u32 = 256;

/// Link-layer bytes that a frame may have beyond the MTU: Ethernet addresses and type, and two VLAN
/// tags.
const LINK_HEADER: u32 = 14 + 2 * 4;

/// Maximum and minimum number of entries of a ring.
const RING: (u32, u32) = (2_048, 64);

/// Opens AF_XDP ports on `interfaces`, whose frames are in `memory` and their descriptors in
/// `pool`. Attaches the bypass programs.
///
/// The XDP program of each port runs in `mode`. With `None`, it runs natively if possible. Frames
/// bypass the gateway until the first [`beat`](crate::Heartbeat::beat). From this call on, the
/// interfaces do not remove VLAN tags from frames.
///
/// # Errors
///
/// Returns the reason and the remedy. After an error, the programs that this call attached are
/// detached. Programs of earlier runs stay.
pub fn open(
    interfaces: [&Interface; 2],
    mode: Option<Mode>,
    wire: &WireConfig,
    memory: &PacketMemory,
    pool: &mut PacketPool,
) -> Result<Opened, OpenError> {
    let queues = check(interfaces, memory)?;
    let candidates = interfaces.map(|interface| Candidate::of(interface, mode));
    let native = candidates.iter().all(|candidate| candidate.modes[0] == Mode::Native);
    let wish = if native { Copying::ZeroCopy } else { Copying::Copy };
    let mut ports = match bind_all(interfaces, queues, memory, wish) {
        // Zero-copy on one port requires zero-copy on the other port, which may lack it.
        Err(OpenError::Socket { .. }) if native => {
            bind_all(interfaces, queues, memory, Copying::Copy)?
        }
        bound => bound?,
    };
    for (interface, port) in interfaces.into_iter().zip(&mut ports) {
        keep_vlan_tags(interface);
        port.refill(pool);
    }
    let [lan, wan] = &candidates;
    let attached = FailToWire::beneath_xdp_sockets(
        wire,
        [lan.port(interfaces[0], &ports[0]), wan.port(interfaces[1], &ports[1])],
    );
    let wire = attached?;
    for (interface, mode) in interfaces.into_iter().zip(wire.modes()) {
        if mode == Some(Mode::Generic) {
            keep_frames_apart(interface);
        }
    }
    Ok(Opened { wire, ports })
}

/// Buffer size that holds every frame of `interfaces`, at most the largest size that AF_XDP
/// supports.
///
/// # Errors
///
/// If one of the interfaces no longer exists.
pub fn buffer_size(interfaces: [&Interface; 2]) -> Result<u32, InterfaceError> {
    let mtu = interfaces[0].mtu()?.max(interfaces[1].mtu()?);
    let least = mtu.saturating_add(HEADROOM + LINK_HEADER).min(page_size());
    Ok(least.next_power_of_two().max(PacketMemory::SMALLEST))
}

/// The largest MTU whose frames a buffer holds.
#[must_use]
pub fn most_mtu() -> u32 {
    page_size().saturating_sub(HEADROOM + LINK_HEADER)
}

/// The XDP modes to try on an interface, the preferred one first.
struct Candidate {
    modes: Vec<Mode>,
    takes_redirected: bool,
}

impl Candidate {
    /// Uses the mode that the operator chose. Otherwise prefers the mode of an attached program of
    /// Tidegate, because that program can then be replaced atomically. Without such a program,
    /// prefers native mode if the driver supports it.
    fn of(interface: &Interface, chosen: Option<Mode>) -> Self {
        let features = Features::of(interface);
        let can = features.is_none_or(Features::native);
        let modes = match (chosen, fail_to_wire::left_mode(interface)) {
            (Some(mode), _) => vec![mode],
            (None, Some(Mode::Generic)) => vec![Mode::Generic, Mode::Native],
            // The peer of a veth splits its super-packets only while a native program is attached.
            (None, _) if interface.is_veth() => vec![Mode::Native],
            (None, Some(Mode::Native)) => vec![Mode::Native, Mode::Generic],
            (None, None) if can => vec![Mode::Native, Mode::Generic],
            (None, None) => vec![Mode::Generic],
        };
        Self { modes, takes_redirected: features.is_none_or(Features::takes_redirected) }
    }

    fn port<'a>(&'a self, interface: &'a Interface, port: &'a AfXdp) -> XdpPort<'a> {
        XdpPort {
            interface,
            sockets: port.sockets().map(AsFd::as_fd).collect(),
            modes: &self.modes,
            takes_redirected: self.takes_redirected,
        }
    }
}

/// Returns the receive queues of each interface, if their frames fit the buffers.
fn check(interfaces: [&Interface; 2], memory: &PacketMemory) -> Result<[u32; 2], OpenError> {
    let buffer = u32::try_from(memory.size()).unwrap_or(u32::MAX);
    let page = page_size();
    if !buffer.is_power_of_two() || !(2_048..=page).contains(&buffer) {
        return Err(OpenError::Buffers { buffer, page });
    }
    let most = buffer - HEADROOM;
    for interface in interfaces {
        let mtu = interface.mtu()?;
        if mtu.saturating_add(LINK_HEADER) > most {
            let interface = interface.name().to_owned();
            return Err(OpenError::Mtu { interface, mtu, buffer, most });
        }
        let queues = interface.receive_queues();
        if queues > MAX_QUEUES {
            return Err(OpenError::Queues { interface: interface.name().to_owned(), queues });
        }
    }
    Ok(interfaces.map(Interface::receive_queues))
}

/// Entries of each ring. The fill rings together use at most half of `buffers`.
fn ring_size(buffers: usize, queues: u32) -> Result<u32, OpenError> {
    let least = 4 * queues * RING.1;
    let room = u32::try_from(buffers).unwrap_or(u32::MAX) / (4 * queues);
    match room.checked_ilog2() {
        Some(log) if 1 << log >= RING.1 => Ok(RING.0.min(1 << log)),
        _ => Err(OpenError::TooFewBuffers { buffers, queues, least }),
    }
}

/// Binds a socket to each queue of each interface. All sockets share `memory`.
fn bind_all(
    interfaces: [&Interface; 2],
    queues: [u32; 2],
    memory: &PacketMemory,
    wish: Copying,
) -> Result<[AfXdp; 2], OpenError> {
    let ring = ring_size(memory.buffers(), queues.iter().sum())?;
    let mut bound: [Vec<Socket>; 2] = [Vec::new(), Vec::new()];
    for (port, interface) in interfaces.into_iter().enumerate() {
        for queue in 0..queues[port] {
            let place =
                SocketQueue { interface: interface.index(), queue, ring, sends: queue == 0 };
            let first = bound.iter().flatten().next().map(AsFd::as_fd);
            let umem = first.map_or(Umem::Register(memory, wish), Umem::Share);
            let failed = |error| refused(interface, queue, memory, error);
            let socket = bind_when_free(place, umem).map_err(failed)?;
            bound[port].push(socket);
        }
    }
    let port = |sockets, interface: &Interface| {
        AfXdp::new(sockets, memory.clone(), interface.is_veth())
            .map_err(|e| refused(interface, 0, memory, e))
    };
    let [lan, wan] = bound;
    Ok([port(lan, interfaces[0])?, port(wan, interfaces[1])?])
}

/// Binds a socket, with retries, because the kernel closes the sockets of a killed process late.
fn bind_when_free(place: SocketQueue, umem: Umem<'_>) -> io::Result<Socket> {
    /// A killed process closed its sockets after 10 to 17 ms on an idle machine. The limit is 1 s.
    const ATTEMPTS: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 1..ATTEMPTS {
        match Socket::bind(place, umem) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                #[expect(clippy::disallowed_methods, reason = "nothing runs yet that could wait")]
                thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
    Socket::bind(place, umem)
}

/// Translates the error of a socket call to the error for the operator.
fn refused(
    interface: &Interface,
    queue: u32,
    memory: &PacketMemory,
    error: io::Error,
) -> OpenError {
    let interface = interface.name().to_owned();
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenError::NoPrivilege,
        Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => OpenError::NoKernelSupport,
        Some(libc::EBUSY) => OpenError::Busy { interface, queue },
        Some(libc::ENOBUFS | libc::ENOMEM) => {
            OpenError::LockedMemory { bytes: memory.buffers() * memory.size() }
        }
        _ => OpenError::Socket { interface, queue, source: error },
    }
}

/// Makes `interface` leave VLAN tags in the frames. XDP cannot see a tag that the hardware has
/// removed from the frame.
fn keep_vlan_tags(interface: &Interface) {
    if interface.offload(Offload::RxVlan).unwrap_or(false)
        && let Err(error) = interface.set_offload(Offload::RxVlan, false)
    {
        tracing::warn!(%error, "VLAN tags of received frames may get lost");
    }
}

/// Disables GRO and LRO on `interface`. A generic XDP program would otherwise get merged frames,
/// which fit no buffer.
fn keep_frames_apart(interface: &Interface) {
    for offload in [Offload::Gro, Offload::Lro] {
        if interface.offload(offload).unwrap_or(false)
            && let Err(error) = interface.set_offload(offload, false)
        {
            tracing::warn!(%error, "frames that are merged on arrival will be lost");
        }
    }
}

fn page_size() -> u32 {
    // SAFETY: the call takes no pointers.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4_096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_rings_take_at_most_half_of_the_buffers() {
        assert_eq!(ring_size(16_384, 2).unwrap(), 2_048);
        assert_eq!(ring_size(16_384, 3).unwrap(), 1_024);
        assert_eq!(ring_size(512, 2).unwrap(), 64);
        let error = ring_size(511, 2).unwrap_err();
        assert!(matches!(error, OpenError::TooFewBuffers { least: 512, .. }), "{error}");
        assert!(ring_size(0, 2).is_err());
    }
}
