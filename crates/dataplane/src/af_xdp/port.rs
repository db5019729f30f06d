//! A port on AF_XDP sockets, one for each receive queue of its interface. It lends packet buffers
//! to the kernel for reception, and takes them back with frames in them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use tidegate_core::packet::FrameCopy;
use tidegate_core::{PacketId, PacketPool, Reason, Time};
use tidegate_wire::{Completed, complete_checksum};

use super::ring::Consumer;
use super::socket::{Copying, Socket};
use crate::frame;
use crate::interface::check;
use crate::memory::{Frame, PacketMemory};
use crate::port::{Port, PortCounters};
use crate::vnet::VnetHeader;

/// A port on AF_XDP sockets.
///
/// The port receives on every queue, in the order of each queue. It sends all frames on the first
/// queue, so the order of the scheduler is kept.
#[derive(Debug)]
pub struct AfXdp {
    /// One socket for each receive queue, never empty. The first one also sends.
    sockets: Vec<Socket>,
    /// A descriptor that polls all sockets, if there are several.
    any: Option<OwnedFd>,
    memory: PacketMemory,
    chunks: Chunks,
    /// Received frames may have an unfinished checksum (left to hardware), and nothing marks these
    /// frames.
    unfinished: bool,
    /// The queue to receive from next.
    next: usize,
    /// Buffers lent to the kernel for reception.
    receiving: u32,
    counters: PortCounters,
}

impl AfXdp {
    /// A port on `sockets`. `unfinished` is `true` if the interface's peer may leave the checksums
    /// of its frames to hardware. Received frames may then have unfinished checksums.
    pub(super) fn new(
        sockets: Vec<Socket>,
        memory: PacketMemory,
        unfinished: bool,
    ) -> io::Result<Self> {
        let any = if sockets.len() > 1 { Some(poll_any(&sockets)?) } else { None };
        let chunks = Chunks::of(&memory);
        Ok(Self {
            sockets,
            any,
            memory,
            chunks,
            unfinished,
            next: 0,
            receiving: 0,
            counters: PortCounters::default(),
        })
    }

    /// The mode of transfer between the interface and the memory.
    #[must_use]
    pub fn copying(&self) -> Copying {
        self.sockets[0].copying()
    }

    /// The sockets, by receive queue.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &impl AsFd> {
        self.sockets.iter()
    }

    /// Lends free buffers to the kernel for reception.
    pub(super) fn refill(&mut self, pool: &mut PacketPool) {
        for socket in &mut self.sockets {
            while socket.fill.room() > 0
                && let Some(packet) = pool.reserve()
            {
                socket.fill.push(self.chunks.address(pool.lend(packet), 0));
                self.receiving += 1;
            }
            socket.fill.publish();
            if socket.fill.needs_wakeup() {
                socket.kick_rx();
            }
        }
    }

    /// The next frame of any queue. Returns the packet that owns its buffer, and the kernel's
    /// descriptor.
    fn arrival(&mut self, pool: &PacketPool) -> Option<(PacketId, libc::xdp_desc)> {
        let queues = self.sockets.len();
        for _ in 0..queues {
            let socket = &mut self.sockets[self.next];
            self.next = (self.next + 1) % queues;
            while let Some(arrived) = socket.rx.pop() {
                if let Some(packet) = self.chunks.packet(pool, arrived.addr) {
                    self.receiving -= 1;
                    return Some((packet, arrived));
                }
                self.counters.events.receive_errors += 1;
            }
            socket.rx.release();
        }
        None
    }

    /// Hands the frames in the send ring to the kernel, until the ring is empty or the interface
    /// accepts no more frames.
    ///
    /// In copy mode, the kernel sends 32 frames per system call by default.
    fn transmit(&mut self, pool: &mut PacketPool) {
        let Some(socket) = self.sockets.first_mut() else { return };
        let Some(tx) = &socket.tx else { return };
        tx.publish();
        let mut pending = tx.pending();
        while pending > 0 && tx.needs_wakeup() {
            if let Err(error) = socket.kick_tx()
                && error.raw_os_error() != Some(libc::EAGAIN)
            {
                self.counters.events.send_errors += 1;
            }
            reap(&mut socket.completion, self.chunks, pool);
            let before = std::mem::replace(&mut pending, tx.pending());
            if pending == before {
                break;
            }
        }
        reap(&mut socket.completion, self.chunks, pool);
    }
}

impl Port for AfXdp {
    fn receive(&mut self, pool: &mut PacketPool, now: Time) -> Option<PacketId> {
        let (packet, arrived) = self.arrival(pool)?;
        let offset = self.chunks.offset(arrived.addr);
        self.memory.set_frame(&packet, Frame { offset, vnet: VnetHeader::default() });
        frame::arrive(&self.memory, pool, &packet, arrived.len, now, &mut self.counters);
        if self.unfinished {
            let frame = &mut self.memory.bytes_mut(&packet, arrived.len);
            if complete_checksum(frame, &pool[&packet]) == Completed::TooDeep {
                self.counters.events.unfinished += 1;
                self.counters.unfinished_at = now;
            }
        }
        Some(packet)
    }

    fn can_send(&self) -> bool {
        self.sockets[0].tx.as_ref().is_some_and(|tx| tx.room() > 0)
    }

    fn copy(&mut self, copy: &FrameCopy) {
        frame::copy(&self.memory, copy);
    }

    fn send(&mut self, pool: &mut PacketPool, packet: PacketId) {
        if !self.can_send() {
            self.transmit(pool);
        }
        if !self.can_send() {
            self.counters.drops.count(Reason::Refused);
            return pool.release(packet);
        }
        frame::write_back(&self.memory, pool, &packet);
        let (len, frame) = (pool[&packet].len, self.memory.frame(&packet));
        if frame.is_none() {
            self.counters.drops.count(Reason::Refused);
            return pool.release(packet);
        }
        let offset = frame.offset;
        let addr = self.chunks.address(pool.lend(packet), offset);
        if let Some(tx) = &mut self.sockets[0].tx {
            tx.push(libc::xdp_desc { addr, len, options: 0 });
        }
        self.counters.sent += 1;
        self.counters.sent_bytes += u64::from(len);
    }

    fn flush(&mut self, pool: &mut PacketPool) {
        self.transmit(pool);
        self.sockets.iter().for_each(|socket| socket.rx.release());
        self.refill(pool);
    }

    fn unsent(&self) -> bool {
        self.sockets[0].tx.as_ref().is_some_and(|tx| tx.needs_wakeup() && tx.pending() > 0)
    }

    fn takes_frames(&self) -> bool {
        true
    }

    fn receiving(&self) -> u32 {
        self.receiving
    }

    fn drop_arrived(&mut self, pool: &mut PacketPool, _copies: &dyn Fn() -> u64) -> u64 {
        let mut dropped = 0;
        while let Some((packet, _)) = self.arrival(pool) {
            pool.release(packet);
            self.counters.drops.count(Reason::Stale);
            dropped += 1;
        }
        dropped
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.any.as_ref().map_or_else(|| self.sockets[0].as_fd(), AsFd::as_fd))
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.counters;
        counters.events.ring_overflows = self.sockets.iter().map(Socket::overflows).sum();
        counters
    }
}

/// Maps buffer addresses to buffers. The kernel names a buffer by the address of any byte in it,
/// relative to the first buffer.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    /// Binary logarithm of the buffer size.
    shift: u32,
    count: u32,
}

impl Chunks {
    fn of(memory: &PacketMemory) -> Self {
        let count = u32::try_from(memory.buffers()).unwrap_or(u32::MAX);
        Self { shift: memory.size().trailing_zeros(), count }
    }

    fn address(self, number: u32, offset: u32) -> u64 {
        (u64::from(number) << self.shift) + u64::from(offset)
    }

    fn offset(self, address: u64) -> u32 {
        u32::try_from(address & ((1 << self.shift) - 1)).unwrap_or(0)
    }

    /// Takes back the packet whose buffer was lent to the kernel and contains `address`.
    fn packet(self, pool: &PacketPool, address: u64) -> Option<PacketId> {
        let number = u32::try_from(address >> self.shift).ok()?;
        if number < self.count { pool.take_back(number) } else { None }
    }
}

/// Frees the buffers of sent frames.
fn reap(completion: &mut Consumer<u64>, chunks: Chunks, pool: &mut PacketPool) {
    while let Some(sent) = completion.pop() {
        if let Some(packet) = chunks.packet(pool, sent) {
            pool.release(packet);
        }
    }
    completion.release();
}

/// A descriptor that becomes ready when any of `sockets` does.
fn poll_any(sockets: &[Socket]) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    let any = unsafe { OwnedFd::from_raw_fd(fd) };
    for socket in sockets {
        let mut event = libc::epoll_event { events: libc::EPOLLIN.unsigned_abs(), u64: 0 };
        let socket = socket.as_fd().as_raw_fd();
        // SAFETY: `event` is a whole event; the kernel reads it only during the call.
        let added = unsafe {
            libc::epoll_ctl(any.as_raw_fd(), libc::EPOLL_CTL_ADD, socket, &raw mut event)
        };
        check(added)?;
    }
    Ok(any)
}
