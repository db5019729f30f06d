//! The packet socket: many frames per system call, each with the kernel's metadata.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use tidegate_core::PacketId;
use tidegate_wire::VlanTag;

use super::BATCH;
use super::queue::Waiting;
use crate::interface::{check, open};
use crate::memory::PacketMemory;
use crate::vnet::VnetHeader;

/// A received frame: its length, and the kernel's metadata.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceivedFrame {
    /// Bytes of the frame in the buffer.
    pub(super) len: u32,
    /// The frame was longer than the buffer.
    pub(super) truncated: bool,
    /// Work that the kernel or the sender left to hardware: the checksum, and the split into
    /// segments.
    pub(super) vnet: VnetHeader,
    /// The VLAN tag that the kernel took out of the frame.
    pub(super) tag: Option<VlanTag>,
}

/// The socket operations that the port uses. Tests have a fake implementation.
pub(super) trait SocketIo {
    /// Receives at most one frame into the buffer of each packet of `into`, `headroom` bytes after
    /// its start. Appends the metadata to `arrivals`. Never waits.
    fn receive(
        &self,
        memory: &PacketMemory,
        into: &[PacketId],
        headroom: usize,
        arrivals: &mut Vec<ReceivedFrame>,
    ) -> io::Result<()>;

    /// Receives up to a batch of frames and discards them. Returns their number.
    fn discard(&self) -> io::Result<usize>;

    /// Sends `frames` in order. Returns the number of accepted frames.
    fn send(&self, memory: &PacketMemory, frames: &[Waiting]) -> io::Result<usize>;

    /// Number of frames lost since the last call, because the socket had no room.
    fn overflows(&self) -> u64;
}

/// An `AF_PACKET` socket bound to one interface.
#[derive(Debug)]
pub(super) struct PacketSocket(OwnedFd);

/// Buffer for the control messages of one frame.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

const CONTROL: usize = 64;

/// Receive buffer in the kernel: a few full batches of super-packets.
const RECEIVE_BUFFER: libc::c_int = 16 << 20;

#[expect(clippy::as_conversions, reason = "the constant fits 16 bits; in network byte order")]
const EVERY_PROTOCOL: u16 = (libc::ETH_P_ALL as u16).to_be();

impl PacketSocket {
    /// A socket that receives all frames arriving at interface `index`, whatever their destination.
    ///
    /// The socket is bound last, so it never holds a frame of another interface. Sent frames pass
    /// the queueing discipline of the interface. Bypassing the discipline would lose super-packets
    /// that the driver cannot split.
    pub(super) fn open(index: u32) -> io::Result<Self> {
        let socket = Self(open(libc::AF_PACKET, libc::SOCK_RAW, 0)?);
        for option in [libc::PACKET_VNET_HDR, libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
            socket.set(libc::SOL_PACKET, option, &1_i32)?;
        }
        let forced = socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER);
        forced.or_else(|_| socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER))?;
        let ifindex = index.cast_signed();
        let membership = libc::packet_mreq {
            mr_ifindex: ifindex,
            mr_type: u16::try_from(libc::PACKET_MR_PROMISC).unwrap_or(1),
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        socket.bind(ifindex)?;
        Ok(socket)
    }

    fn bind(&self, ifindex: i32) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: u16::try_from(libc::AF_PACKET).unwrap_or(17),
            sll_protocol: EVERY_PROTOCOL,
            sll_ifindex: ifindex,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: `address` is a whole sockaddr_ll of the length given.
        check(unsafe {
            libc::bind(self.0.as_raw_fd(), ptr::from_ref(&address).cast(), len_of(&address))
        })?;
        Ok(())
    }

    fn set<T>(&self, level: i32, option: i32, value: &T) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        // SAFETY: `value` lives during the call and has the length passed; the kernel only reads
        // it.
        check(unsafe {
            libc::setsockopt(fd, level, option, ptr::from_ref(value).cast(), len_of(value))
        })?;
        Ok(())
    }

    /// Converts the result of `recvmmsg` or `sendmmsg` to the number of messages.
    fn messages(result: i32) -> io::Result<usize> {
        check(result).map(|n| usize::try_from(n).unwrap_or(0))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl SocketIo for PacketSocket {
    fn receive(
        &self,
        memory: &PacketMemory,
        into: &[PacketId],
        headroom: usize,
        arrivals: &mut Vec<ReceivedFrame>,
    ) -> io::Result<()> {
        let room = memory.size().saturating_sub(headroom);
        let mut batch = Batch::new();
        for (n, packet) in into.iter().take(BATCH).enumerate() {
            batch.frame(
                n,
                memory.start(packet).wrapping_add(headroom),
                room,
                VnetHeader::default(),
            );
        }
        let n = batch.receive(&self.0, into.len().min(BATCH))?;
        arrivals.extend((0..n).map(|n| batch.arrival(n)));
        Ok(())
    }

    fn discard(&self) -> io::Result<usize> {
        let mut batch = Batch::new();
        for n in 0..BATCH {
            batch.frame(n, ptr::null_mut(), 0, VnetHeader::default());
        }
        batch.receive(&self.0, BATCH)
    }

    fn send(&self, memory: &PacketMemory, frames: &[Waiting]) -> io::Result<usize> {
        let mut batch = Batch::new();
        for (n, frame) in frames.iter().take(BATCH).enumerate() {
            let (start, len, vnet) = frame.parts(memory);
            batch.frame(n, start.cast_mut(), len, vnet);
        }
        batch.send(&self.0, frames.len().min(BATCH))
    }

    fn overflows(&self) -> u64 {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let (fd, mut len) = (self.0.as_raw_fd(), len_of(&statistics));
        let to = ptr::from_mut(&mut statistics).cast();
        // SAFETY: `statistics` has `len` bytes, and the kernel writes at most `len` bytes.
        let result = unsafe {
            libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, to, &raw mut len)
        };
        if result == 0 { u64::from(statistics.tp_drops) } else { 0 }
    }
}

fn len_of<T>(value: &T) -> libc::socklen_t {
    libc::socklen_t::try_from(size_of_val(value)).unwrap_or(0)
}

/// The structures for a batch of messages, each with a [`VnetHeader`] and a frame.
struct Batch {
    vnet: [VnetHeader; BATCH],
    parts: [[libc::iovec; 2]; BATCH],
    controls: [MaybeUninit<Control>; BATCH],
    messages: [libc::mmsghdr; BATCH],
}

impl Batch {
    fn new() -> Self {
        let nothing = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self {
            vnet: [VnetHeader::default(); BATCH],
            parts: [[nothing; 2]; BATCH],
            controls: [MaybeUninit::uninit(); BATCH],
            // SAFETY: an mmsghdr is plain data; all zeroes is a valid message without an address, a
            // buffer or control data.
            messages: unsafe { mem::zeroed() },
        }
    }

    /// Sets message `n` to the `len` bytes at `start`.
    fn frame(&mut self, n: usize, start: *mut u8, len: usize, vnet: VnetHeader) {
        self.vnet[n] = vnet;
        self.parts[n][1] = libc::iovec { iov_base: start.cast(), iov_len: len };
    }

    /// Points each message at its header, its frame and its control buffer. `self` must not move
    /// afterwards.
    fn link(&mut self, n: usize, control: usize) {
        let all = self.vnet.iter_mut().zip(&mut self.parts).zip(&mut self.controls);
        for (message, ((vnet, parts), room)) in self.messages.iter_mut().zip(all).take(n) {
            let header = ptr::from_mut(vnet).cast();
            parts[0] = libc::iovec { iov_base: header, iov_len: VnetHeader::LEN };
            message.msg_hdr.msg_iov = parts.as_mut_ptr();
            message.msg_hdr.msg_iovlen = parts.len();
            message.msg_hdr.msg_control = room.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = control;
        }
    }

    fn receive(&mut self, socket: &OwnedFd, n: usize) -> io::Result<usize> {
        self.link(n, CONTROL);
        let count = libc::c_uint::try_from(n).unwrap_or(0);
        let (fd, messages) = (socket.as_raw_fd(), self.messages.as_mut_ptr());
        // SAFETY: each of the first `n` messages points at its own header, control buffer and frame, with
        // their lengths. The frames lie in the packet memory, in buffers of packets that the caller has
        // reserved. No reference to them is alive during the call.
        PacketSocket::messages(unsafe {
            libc::recvmmsg(fd, messages, count, libc::MSG_DONTWAIT, ptr::null_mut())
        })
    }

    fn send(&mut self, socket: &OwnedFd, n: usize) -> io::Result<usize> {
        self.link(n, 0);
        let count = libc::c_uint::try_from(n).unwrap_or(0);
        let (fd, messages) = (socket.as_raw_fd(), self.messages.as_mut_ptr());
        // SAFETY: as in `receive`. A frame may also lie in a vector that the caller lends. The
        // kernel only reads what the messages point at.
        PacketSocket::messages(unsafe { libc::sendmmsg(fd, messages, count, libc::MSG_DONTWAIT) })
    }

    /// The metadata of received message `n`.
    fn arrival(&self, n: usize) -> ReceivedFrame {
        let message = &self.messages[n];
        let header = u32::try_from(VnetHeader::LEN).unwrap_or(0);
        ReceivedFrame {
            len: message.msg_len.saturating_sub(header),
            truncated: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            vnet: self.vnet[n],
            tag: tag(&message.msg_hdr),
        }
    }
}

/// The VLAN tag in the control messages of `message`.
fn tag(message: &libc::msghdr) -> Option<VlanTag> {
    // SAFETY: the kernel filled in the control buffer that `message` points at, and its length.
    let control = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    if (control.cmsg_level, control.cmsg_type) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
        return None;
    }
    let data = ptr::from_ref(control);
    // SAFETY: a PACKET_AUXDATA control message holds a tpacket_auxdata, not necessarily aligned.
    let auxdata: libc::tpacket_auxdata =
        unsafe { libc::CMSG_DATA(data).cast::<libc::tpacket_auxdata>().read_unaligned() };
    let valid = |bit| auxdata.tp_status & bit != 0;
    let tpid = if valid(libc::TP_STATUS_VLAN_TPID_VALID) { auxdata.tp_vlan_tpid } else { 0x8100 };
    valid(libc::TP_STATUS_VLAN_VALID).then_some(VlanTag { tpid, tci: auxdata.tp_vlan_tci })
}
