//! A port on a packet socket. It works on every interface, needs no root privilege, and accepts
//! super-packets (GSO, GRO): several frames of a flow that the kernel handles as one.

mod backend;
mod queue;
mod socket;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use tidegate_core::packet::FrameCopy;
use tidegate_core::{PacketId, PacketPool, Reason, Time};
use tidegate_wire::{VlanTag, finish_checksum, split};

pub(crate) use self::backend::PacketBackend;
use self::queue::{Body, Next, Piece, Queue, Waiting};
use self::socket::{PacketSocket, ReceivedFrame, SocketIo};
use crate::cutting::{Arrived, cut};
use crate::frame;
use crate::interface::{Interface, InterfaceError};
use crate::memory::{Frame, PacketMemory};
use crate::port::{Port, PortCounters, Refusal, Refused};
use crate::vnet::VnetHeader;

/// Frames per system call.
const BATCH: usize = 32;

/// Maximum number of frames that wait in the port to be sent.
const OUTGOING: usize = 2 * BATCH;

/// Free bytes before a frame: room to restore a VLAN tag.
const HEADROOM: usize = 64;

/// A port on a packet socket.
///
/// Frames arrive as the network stack has them: a super-packet is whole, and a checksum may be
/// unfinished because hardware was to complete it. The port passes a description of this remaining
/// work on with the frame. The sending interface or the kernel does the work.
#[derive(Debug)]
pub struct AfPacket(PacketPort<PacketSocket>);

impl AfPacket {
    /// Buffer size for the longest super-packet and a VLAN tag.
    pub const BUFFER: u32 = 17 * 4_096;

    /// A port on `interface`, with its frames in `memory`.
    ///
    /// # Errors
    ///
    /// Without CAP_NET_RAW, or if the interface no longer exists.
    pub fn open(interface: &Interface, memory: &PacketMemory) -> Result<Self, InterfaceError> {
        let socket = PacketSocket::open(interface.index())
            .map_err(|error| interface.error("open a packet socket on", error))?;
        Ok(Self(PacketPort::new(socket, memory.clone())))
    }
}

impl Port for AfPacket {
    fn receive(&mut self, pool: &mut PacketPool, now: Time) -> Option<PacketId> {
        self.0.receive(pool, now)
    }

    fn set_cutting(&mut self, cuts: bool) {
        self.0.cuts = cuts;
    }

    fn can_send(&self) -> bool {
        self.0.outgoing.len() < OUTGOING
    }

    fn copy(&mut self, copy: &FrameCopy) {
        frame::copy(&self.0.memory, copy);
    }

    fn send(&mut self, pool: &mut PacketPool, packet: PacketId) {
        self.0.send(pool, packet);
    }

    fn flush(&mut self, pool: &mut PacketPool) {
        self.0.flush(pool);
    }

    fn unsent(&self) -> bool {
        !self.0.outgoing.is_empty()
    }

    fn drop_arrived(&mut self, pool: &mut PacketPool, copies: &dyn Fn() -> u64) -> u64 {
        self.0.drop_arrived(pool, copies)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.socket.as_fd())
    }

    fn counters(&self) -> PortCounters {
        self.0.counters()
    }
}

/// Restores the VLAN tag that the kernel took out of a frame. Returns the frame's position in its
/// buffer, and its length.
fn place(memory: &PacketMemory, packet: &PacketId, arrival: ReceivedFrame) -> (Frame, u32) {
    const TAGGED: usize = HEADROOM - VlanTag::LEN;
    let placed = |offset| u32::try_from(offset).unwrap_or(0);
    if let Some(tag) = arrival.tag
        && tag.push(&mut memory.buffer_mut(packet)[TAGGED..])
    {
        return (Frame { offset: placed(TAGGED), vnet: arrival.vnet.moved_by(4) }, arrival.len + 4);
    }
    (Frame { offset: placed(HEADROOM), vnet: arrival.vnet }, arrival.len)
}

/// The port. `S` is the real [`PacketSocket`], or a fake socket in the tests.
#[derive(Debug)]
struct PacketPort<S> {
    socket: S,
    memory: PacketMemory,
    /// Frames that the socket delivered and `receive` has not returned yet.
    arrived: VecDeque<Arrived>,
    /// The last call of the socket returned fewer frames than requested, so the socket is empty.
    drained: bool,
    /// Super-packets are split into frames on arrival.
    cuts: bool,
    /// Frames that wait to be sent.
    outgoing: Queue,
    /// Time of the last call of `receive`.
    now: Time,
    /// Scratch space for one system call.
    slots: Vec<PacketId>,
    arrivals: Vec<ReceivedFrame>,
    counters: PortCounters,
    /// Frames lost so far for lack of room in the socket.
    overflows: Cell<u64>,
    /// Every arriving frame is a copy: a bypass program has already forwarded the original.
    copies: bool,
}

impl<S: SocketIo> PacketPort<S> {
    fn new(socket: S, memory: PacketMemory) -> Self {
        Self {
            socket,
            memory,
            arrived: VecDeque::with_capacity(BATCH),
            drained: false,
            cuts: false,
            outgoing: Queue::with_capacity(OUTGOING),
            now: Time::ZERO,
            slots: Vec::with_capacity(BATCH),
            arrivals: Vec::with_capacity(BATCH),
            counters: PortCounters::default(),
            overflows: Cell::new(0),
            copies: false,
        }
    }

    fn receive(&mut self, pool: &mut PacketPool, now: Time) -> Option<PacketId> {
        self.now = now;
        if self.arrived.is_empty() && !std::mem::take(&mut self.drained) {
            self.receive_batch(pool, now);
        }
        self.arrived.pop_front().map(|it| it.packet)
    }

    fn receive_batch(&mut self, pool: &mut PacketPool, now: Time) {
        self.copies = false;
        self.slots.extend((0..BATCH).map_while(|_| pool.reserve()));
        if self.slots.is_empty() {
            let discarded = self.discard(BATCH);
            self.count(Reason::NoBuffer, discarded);
            return;
        }
        let (memory, arrivals) = (&self.memory, &mut self.arrivals);
        let result = self.socket.receive(memory, &self.slots, HEADROOM, arrivals);
        self.drained = (1..self.slots.len()).contains(&self.arrivals.len());
        if let Err(error) = result
            && !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
        {
            // The interface went down, or the kernel cannot describe this kind of super-packet.
            self.counters.events.receive_errors += 1;
        }
        let unused = self.slots.split_off(self.arrivals.len());
        unused.into_iter().rev().for_each(|slot| pool.release(slot));
        for (packet, arrival) in self.slots.drain(..).zip(self.arrivals.drain(..)) {
            if arrival.truncated {
                self.counters.drops.count(Reason::TooLong);
                pool.release(packet);
                continue;
            }
            let (frame, len) = place(&self.memory, &packet, arrival);
            self.memory.set_frame(&packet, frame);
            frame::arrive(&self.memory, pool, &packet, len, now, &mut self.counters);
            if self.cuts && pool[&packet].segments > 1 {
                cut(&self.memory, pool, packet, now, &mut self.arrived);
            } else {
                self.arrived.push_back(Arrived { packet, ends: true });
            }
        }
    }

    /// Drops all frames that have arrived. While frames bypass the gateway, the socket gets copies
    /// of them. `copies` returns the number of these copies. All other dropped frames count as
    /// stale (too old to forward).
    ///
    /// The socket fills up in order of arrival, and the copies arrive last. Frames that did not fit
    /// into the socket are therefore assumed to be copies. A split super-packet counts as one
    /// frame, as in the socket and in `copies`.
    fn drop_arrived(&mut self, pool: &mut PacketPool, copies: &dyn Fn() -> u64) -> u64 {
        let received = self.arrived.iter().filter(|it| it.ends).count();
        self.arrived.drain(..).for_each(|it| pool.release(it.packet));
        let dropped = u64::try_from(received).unwrap_or(0) + self.discard(MOST_DISCARDED);
        let (overflows, copies) = (self.socket.overflows(), copies());
        self.copies = copies == u64::MAX;
        let without_room = overflows.min(copies);
        self.overflows.set(self.overflows.get() + overflows - without_room);
        self.count(Reason::Stale, dropped.saturating_sub(copies - without_room));
        dropped
    }

    fn count(&mut self, reason: Reason, packets: u64) {
        (0..packets).for_each(|_| self.counters.drops.count(reason));
    }

    /// Drops frames from the socket until at least `most` are dropped, or the socket is empty.
    /// Returns the number of dropped frames.
    fn discard(&self, most: usize) -> u64 {
        let mut discarded = 0;
        while discarded < most {
            match self.socket.discard() {
                Ok(0) => break,
                Ok(n) => discarded += n,
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => discarded += 1,
                Err(_) => break,
            }
        }
        u64::try_from(discarded).unwrap_or(0)
    }

    fn send(&mut self, pool: &mut PacketPool, packet: PacketId) {
        frame::write_back(&self.memory, pool, &packet);
        let frame = self.memory.frame(&packet);
        if frame.is_none() {
            self.counters.drops.count(Reason::Refused);
            return pool.release(packet);
        }
        let Frame { offset, vnet } = frame;
        if vnet.is_to_be_split() {
            self.send_super(pool, packet);
        } else {
            let len = pool[&packet].len;
            if let Some((start, field)) = vnet.sctp_span()
                && finish_checksum(&mut self.memory.bytes_mut(&packet, len), start, field)
            {
                self.memory.set_frame(&packet, Frame { offset, vnet: VnetHeader::default() });
            }
            self.outgoing.push(Waiting::new(Body::Packet(packet), len));
        }
        if self.outgoing.len() >= BATCH {
            self.flush(pool);
        }
    }

    /// Sends a super-packet. Cuts it into pieces if the kernel cannot split it: the header for the
    /// kernel cannot describe tunnels.
    fn send_super(&mut self, pool: &mut PacketPool, packet: PacketId) {
        let (len, key) = (pool[&packet].len, pool[&packet].key);
        let vnet = self.memory.frame(&packet).vnet;
        let transport = vnet.checksum_span().map(|(start, _)| start);
        let bytes = self.memory.bytes(&packet, len);
        let pieces = match vnet.segment_size() {
            Some(size) if !split::has_plain_headers(&bytes, transport) => {
                Some(split::frames(&bytes, size, transport))
            }
            _ => None,
        };
        drop(bytes);
        let whole = Waiting::new(Body::Packet(packet), len);
        match pieces {
            None => self.outgoing.push(whole),
            Some(None) => self.refused(pool, whole, Refusal::Whole),
            Some(Some(pieces)) => {
                self.counters.events.split += 1;
                whole.release(pool);
                for bytes in pieces {
                    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    let piece = Body::Piece(Box::new(Piece { bytes, key }));
                    self.outgoing.push(Waiting::new(piece, len));
                }
            }
        }
    }

    fn flush(&mut self, pool: &mut PacketPool) {
        let mut at = 0;
        while !self.outgoing.is_empty() {
            match self.socket.send(&self.memory, self.outgoing.from(at)) {
                Ok(0) => return,
                Ok(n) => self.sent(pool, std::mem::take(&mut at), n),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EMSGSIZE) => {
                        if let Some(frame) = self.outgoing.drop_at(std::mem::take(&mut at)) {
                            self.counters.drops.count(Reason::TooLong);
                            frame.release(pool);
                        }
                    }
                    Some(full @ (libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM)) => {
                        self.counters.events.send_errors += 1;
                        match self.outgoing.refuse(pool, at) {
                            Next::Wait => return,
                            Next::Offer(next) => at = next,
                            Next::Drop(frame) => {
                                at = 0;
                                self.refused(pool, frame, Refusal::Kernel(full));
                            }
                        }
                    }
                    other => {
                        self.counters.events.send_errors += 1;
                        let why = Refusal::Kernel(other.unwrap_or(0));
                        if let Some(frame) = self.outgoing.drop_at(std::mem::take(&mut at)) {
                            self.refused(pool, frame, why);
                        }
                    }
                },
            }
        }
    }

    fn sent(&mut self, pool: &mut PacketPool, at: usize, n: usize) {
        let counters = &mut self.counters;
        self.outgoing.taken(pool, at, n, |pool, frame| {
            counters.sent += 1;
            counters.sent_bytes += u64::from(frame.len);
            frame.release(pool);
        });
    }

    /// Drops a frame that was removed from the queue, and records its flow for the report.
    fn refused(&mut self, pool: &mut PacketPool, frame: Waiting, why: Refusal) {
        let (key, len, at) = (frame.key(pool), frame.len, self.now);
        self.counters.refused = Some(Refused { key, len, why, at });
        self.counters.drops.count(Reason::Refused);
        frame.release(pool);
    }

    fn counters(&self) -> PortCounters {
        let overflows = self.socket.overflows();
        let lost = if self.copies { 0 } else { overflows };
        self.overflows.set(self.overflows.get() + lost);
        let mut counters = self.counters;
        counters.events.ring_overflows = self.overflows.get();
        counters
    }
}

/// Largest number of frames dropped at once. No socket holds so many, but the limit ensures that a
/// flood cannot block the loop.
const MOST_DISCARDED: usize = 1 << 16;
