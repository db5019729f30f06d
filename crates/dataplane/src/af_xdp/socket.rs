//! The system calls of an AF_XDP socket, which serves one receive queue. The choice of modes is in
//! `af_xdp.rs`.
//!
//! Source: Linux `Documentation/networking/af_xdp.rst`, `include/uapi/linux/if_xdp.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::rc::Rc;

use super::ring::{Consumer, Producer, Ring};
use crate::interface::{check, open};
use crate::mapping::Mapping;
use crate::memory::{PacketMemory, index};

/// Frames that the kernel sends at most in one system call. Linux before 6.17 has a fixed limit.
const TX_BUDGET: u32 = 1_024;

/// Number of the socket option. The crate `libc` does not define it yet.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Bytes that the kernel may hold for sending; the default is about 100 frames.
const SEND_BUFFER: libc::c_int = 1 << 24;

/// A bound socket and its rings. All sockets of a gateway share one packet memory.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    /// Received frames.
    pub(super) rx: Consumer<libc::xdp_desc>,
    /// Frames to send. Only the first queue of a port has this ring, because it sends all frames.
    pub(super) tx: Option<Producer<libc::xdp_desc>>,
    /// Buffers for reception, by address.
    pub(super) fill: Producer<u64>,
    /// Buffers of sent frames.
    pub(super) completion: Consumer<u64>,
}

/// The mode of transfer between an interface and the packet memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Copying {
    /// The interface accesses the memory itself.
    ZeroCopy,
    /// The kernel copies frames.
    Copy,
}

/// The packet memory of a socket (UMEM).
#[derive(Clone, Copy)]
pub(super) enum Umem<'a> {
    /// The socket registers this memory.
    Register(&'a PacketMemory, Copying),
    /// The socket shares the memory of another socket.
    Share(BorrowedFd<'a>),
}

/// The queue of a socket, and the size of its rings.
#[derive(Clone, Copy)]
pub(super) struct SocketQueue {
    pub(super) interface: u32,
    pub(super) queue: u32,
    pub(super) ring: u32,
    pub(super) sends: bool,
}

impl Socket {
    /// A socket bound to its queue. It receives frames once an XDP program redirects them to it.
    pub(super) fn bind(place: SocketQueue, umem: Umem<'_>) -> io::Result<Self> {
        let fd = open(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        if let Umem::Register(memory, _) = umem {
            register(fd.as_fd(), memory)?;
        }
        let size = place.ring;
        set(fd.as_fd(), libc::SOL_XDP, libc::XDP_UMEM_FILL_RING, &size)?;
        set(fd.as_fd(), libc::SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &size)?;
        set(fd.as_fd(), libc::SOL_XDP, libc::XDP_RX_RING, &size)?;
        if place.sends {
            set(fd.as_fd(), libc::SOL_XDP, libc::XDP_TX_RING, &size)?;
        }
        let at = offsets(fd.as_fd())?;
        let rx = ring(fd.as_fd(), libc::XDP_PGOFF_RX_RING, &at.rx, size)?;
        let tx = ring(fd.as_fd(), libc::XDP_PGOFF_TX_RING, &at.tx, size);
        let fill = ring(fd.as_fd(), page(libc::XDP_UMEM_PGOFF_FILL_RING)?, &at.fr, size)?;
        let done = ring(fd.as_fd(), page(libc::XDP_UMEM_PGOFF_COMPLETION_RING)?, &at.cr, size)?;
        // Errors are ignored: without these options, sending only needs more system calls.
        let _ = set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
        let _ = set(fd.as_fd(), libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &TX_BUDGET);
        bind(fd.as_fd(), place, umem)?;
        Ok(Self {
            rx: Consumer::new(rx),
            tx: if place.sends { Some(Producer::new(tx?)) } else { None },
            fill: Producer::new(fill),
            completion: Consumer::new(done),
            fd,
        })
    }

    /// Asks the kernel to send the frames in the ring. The kernel may send only some of them and
    /// return an error. The caller then calls again.
    pub(super) fn kick_tx(&self) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: with a length of zero, the kernel does not access the null pointers.
        let sent = unsafe { libc::sendto(fd, ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Wakes the kernel after an interface ran out of buffers and new buffers are available.
    pub(super) fn kick_rx(&self) {
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: with a length of zero, the kernel does not access the null pointers.
        unsafe {
            libc::recvfrom(fd, ptr::null_mut(), 0, flags, ptr::null_mut(), ptr::null_mut());
        }
    }

    /// The mode of transfer, as reported by the kernel.
    pub(super) fn copying(&self) -> Copying {
        let mut options = libc::xdp_options { flags: 0 };
        match get(self.fd.as_fd(), libc::XDP_OPTIONS, &mut options) {
            Ok(()) if options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0 => Copying::ZeroCopy,
            _ => Copying::Copy,
        }
    }

    /// Frames for this socket that the kernel had to drop.
    pub(super) fn overflows(&self) -> u64 {
        let mut seen = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        match get(self.fd.as_fd(), libc::XDP_STATISTICS, &mut seen) {
            Ok(()) => seen.rx_dropped + seen.rx_ring_full,
            Err(_) => 0,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn register(fd: BorrowedFd<'_>, memory: &PacketMemory) -> io::Result<()> {
    let number = |n: usize| u64::try_from(n).map_err(io::Error::other);
    let umem = libc::xdp_umem_reg {
        addr: number(memory.base().as_ptr().expose_provenance())?,
        len: number(memory.buffers() * memory.size())?,
        chunk_size: u32::try_from(memory.size()).map_err(io::Error::other)?,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &umem)
}

fn bind(fd: BorrowedFd<'_>, place: SocketQueue, umem: Umem<'_>) -> io::Result<()> {
    let (flags, shared) = match umem {
        // Without `XDP_ZEROCOPY` and `XDP_COPY`, the kernel uses zero-copy if the driver supports
        // it.
        Umem::Register(_, Copying::ZeroCopy) => (libc::XDP_USE_NEED_WAKEUP, 0),
        Umem::Register(_, Copying::Copy) => (libc::XDP_USE_NEED_WAKEUP | libc::XDP_COPY, 0),
        Umem::Share(other) => (libc::XDP_SHARED_UMEM, other.as_raw_fd().unsigned_abs()),
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: u16::try_from(libc::AF_XDP).map_err(io::Error::other)?,
        sxdp_flags: flags,
        sxdp_ifindex: place.interface,
        sxdp_queue_id: place.queue,
        sxdp_shared_umem_fd: shared,
    };
    // SAFETY: `address` is a whole address of the family it names.
    let bound = unsafe {
        libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len_of::<libc::sockaddr_xdp>())
    };
    check(bound).map(drop)
}

/// Maps one ring of `size` entries of type `T`.
fn ring<T: Copy>(
    fd: BorrowedFd<'_>,
    page: libc::off_t,
    offsets: &libc::xdp_ring_offset,
    size: u32,
) -> io::Result<Ring<T>> {
    let start = usize::try_from(offsets.desc).map_err(io::Error::other)?;
    let mapping = Mapping::of(fd, page, start + index(size) * size_of::<T>())?;
    Ring::new(Rc::new(mapping), offsets, size)
}

fn page(offset: libc::c_ulonglong) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(io::Error::other)
}

fn offsets(fd: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    const NONE: libc::xdp_ring_offset =
        libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
    let mut offsets = libc::xdp_mmap_offsets { rx: NONE, tx: NONE, fr: NONE, cr: NONE };
    get(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    Ok(offsets)
}

/// Plain data for a socket option.
trait Plain {}
impl Plain for u32 {}
impl Plain for libc::c_int {}
impl Plain for libc::xdp_umem_reg {}
impl Plain for libc::xdp_mmap_offsets {}
impl Plain for libc::xdp_options {}
impl Plain for libc::xdp_statistics {}

fn set<T: Plain>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    let (fd, value) = (fd.as_raw_fd(), (&raw const *value).cast());
    // SAFETY: `value` points to a whole, plain T, and its length is passed to the kernel.
    check(unsafe { libc::setsockopt(fd, level, option, value, len_of::<T>()) }).map(drop)
}

fn get<T: Plain>(fd: BorrowedFd<'_>, option: i32, value: &mut T) -> io::Result<()> {
    let (mut len, value) = (len_of::<T>(), (&raw mut *value).cast());
    // SAFETY: `value` points to a whole, plain T. The kernel writes at most its length, and any
    // bits are a valid T.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, value, &raw mut len) })
        .map(drop)
}

#[expect(clippy::as_conversions, reason = "a C structure of a few bytes; `try_from` is not const")]
const fn len_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}
