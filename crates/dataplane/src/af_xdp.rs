//! Ports on AF_XDP sockets over one shared memory, and the wire beneath them.
//!
//! Source: Linux `Documentation/networking/af_xdp.rst`.

mod features;
mod port;
mod ring;
mod socket;

use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use tidegate_core::PacketPool;

use self::features::Features;
pub use self::port::AfXdp;
pub use self::socket::Copying;
use self::socket::{Place, Socket, Umem};
use crate::fail_to_wire::{self, FailToWire, MAX_QUEUES, Mode, WireConfig, WireError, XdpPort};
use crate::interface::{Interface, InterfaceError};
use crate::memory::PacketMemory;
use crate::offload::Offload;

/// Why AF_XDP cannot serve here; packet sockets may.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The process may not do that.
    #[error(
        "no privilege for AF_XDP; run as root or grant CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and \
         CAP_IPC_LOCK, or use AF_PACKET"
    )]
    NoPrivilege,
    /// The kernel was built without it.
    #[error("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS); use AF_PACKET")]
    NoKernelSupport,
    /// A frame of one interface may be longer than a buffer.
    #[error(
        "`{interface}` has an MTU of {mtu}, and a buffer of {buffer} bytes holds frames of {most}; \
         lower it to {most_mtu} by `ip link set {interface} mtu {most_mtu}`, or use AF_PACKET",
        most_mtu = most - LINK_HEADER
    )]
    Mtu {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: u32,
        /// Bytes of a buffer.
        buffer: u32,
        /// Longest frame that a buffer holds.
        most: u32,
    },
    /// The memory cannot be shared with an interface.
    #[error("buffers of {buffer} bytes are not for AF_XDP: a power of two from 2048 to {page}")]
    Buffers {
        /// Bytes of a buffer.
        buffer: u32,
        /// Most bytes there can be.
        page: u32,
    },
    /// One interface receives on more queues than the program knows.
    #[error(
        "`{interface}` receives on {queues} queues, and at most {MAX_QUEUES} can be served; \
         `ethtool -L {interface} combined {MAX_QUEUES}` (or `rx {MAX_QUEUES}`) reduces them"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// Queues it receives on.
        queues: u32,
    },
    /// There are too few buffers for the queues of both interfaces.
    #[error(
        "{buffers} buffers are too few for {queues} receive queues: at least {least} are needed"
    )]
    TooFewBuffers {
        /// Buffers there are.
        buffers: usize,
        /// Receive queues of both interfaces.
        queues: u32,
        /// Buffers there should be.
        least: u32,
    },
    /// Another process has a socket there.
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
    /// The buffers may not be locked into memory.
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
        /// What the kernel said.
        source: io::Error,
    },
    /// An interface does not answer.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The wire cannot be laid.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Two ports, and the wire between them.
#[derive(Debug)]
pub struct Opened {
    /// The ports, in the order of the interfaces.
    pub ports: [AfXdp; 2],
    /// What lets frames come to them.
    pub wire: FailToWire,
}

/// Bytes the kernel keeps free before a frame, `XDP_PACKET_HEADROOM`.
const HEADROOM: u32 = 256;

/// Ethernet's addresses and type, and two VLAN tags: what a frame may have beyond the MTU.
const LINK_HEADER: u32 = 14 + 2 * 4;

/// Entries of a ring: at most, and at least.
const RING: (u32, u32) = (2_048, 64);

/// Opens AF_XDP ports on `interfaces` whose frames are in `memory`, described in `pool`, and lays
/// the wire beneath them.
///
/// The program of each port runs in `mode`, or natively where it can. Frames go straight across
/// until the first [`beat`](crate::Heartbeat::beat). VLAN tags are from here on left in the frames.
///
/// # Errors
///
/// Why it is impossible here, and what to do about it. Nothing is left behind then, but a wire that
/// was there before.
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
        // Zero-copy on one port obliges the other, which may not be able to.
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
    let laid = FailToWire::beneath_xdp_sockets(
        wire,
        [lan.port(interfaces[0], &ports[0]), wan.port(interfaces[1], &ports[1])],
    );
    let wire = laid?;
    for (interface, mode) in interfaces.into_iter().zip(wire.modes()) {
        if mode == Some(Mode::Generic) {
            keep_frames_apart(interface);
        }
    }
    Ok(Opened { wire, ports })
}

/// Bytes of a buffer that holds every frame of `interfaces`, or of the largest there can be.
///
/// # Errors
///
/// When one of them is gone.
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

/// What there is to try on an interface.
struct Candidate {
    modes: Vec<Mode>,
    takes_redirected: bool,
}

impl Candidate {
    /// Takes the mode that the operator chose. Otherwise prefers the mode of the attached program, which
    /// can then be replaced atomically, or else the best mode of the driver.
    fn of(interface: &Interface, chosen: Option<Mode>) -> Self {
        let features = Features::of(interface);
        let can = features.is_none_or(Features::native);
        let modes = match (chosen, fail_to_wire::laid(interface)) {
            (Some(mode), _) => vec![mode],
            (None, Some(Mode::Generic)) => vec![Mode::Generic, Mode::Native],
            // Only a native program has the other end of a veth cut its super-packets.
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

/// Queues of each interface, if their frames fit the memory.
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

/// Entries of each ring: together they take at most half of `buffers` to receive into.
fn ring_size(buffers: usize, queues: u32) -> Result<u32, OpenError> {
    let least = 4 * queues * RING.1;
    let room = u32::try_from(buffers).unwrap_or(u32::MAX) / (4 * queues);
    match room.checked_ilog2() {
        Some(log) if 1 << log >= RING.1 => Ok(RING.0.min(1 << log)),
        _ => Err(OpenError::TooFewBuffers { buffers, queues, least }),
    }
}

/// A socket for each queue of each interface, all over `memory`.
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
            let place = Place { interface: interface.index(), queue, ring, sends: queue == 0 };
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

/// Binds, and waits a little for a process that was killed: its sockets close late.
fn bind_when_free(place: Place, umem: Umem<'_>) -> io::Result<Socket> {
    /// Measured: 10 to 17 ms on an idle machine.
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

/// What `error` means for a socket.
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

/// Has `interface` leave VLAN tags in the frames: beside them, XDP loses them.
fn keep_vlan_tags(interface: &Interface) {
    if interface.offload(Offload::RxVlan).unwrap_or(false)
        && let Err(error) = interface.set_offload(Offload::RxVlan, false)
    {
        tracing::warn!(%error, "VLAN tags of received frames may get lost");
    }
}

/// Has `interface` not join frames before its generic program sees them: joined, no buffer holds
/// them.
fn keep_frames_apart(interface: &Interface) {
    for offload in [Offload::Gro, Offload::Lro] {
        if interface.offload(offload).unwrap_or(false)
            && let Err(error) = interface.set_offload(offload, false)
        {
            tracing::warn!(%error, "frames that are joined on arrival will be lost");
        }
    }
}

fn page_size() -> u32 {
    // SAFETY: takes no pointers.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4_096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_take_at_most_half_of_the_buffers_to_receive_into() {
        assert_eq!(ring_size(16_384, 2).unwrap(), 2_048);
        assert_eq!(ring_size(16_384, 3).unwrap(), 1_024);
        assert_eq!(ring_size(512, 2).unwrap(), 64);
        let error = ring_size(511, 2).unwrap_err();
        assert!(matches!(error, OpenError::TooFewBuffers { least: 512, .. }), "{error}");
        assert!(ring_size(0, 2).is_err());
    }
}
