//! A network interface as the loop sees it.

use std::any::Any;
use std::os::fd::BorrowedFd;

use tidegate_core::packet::{FlowKey, FrameCopy};
use tidegate_core::{ByReason, PacketId, PacketPool, Time};
use tidegate_wire::Oddities;

/// A network interface: AF_XDP, AF_PACKET, or a test double.
///
/// Slot `n` of the pool describes buffer `n` of the packet memory all ports of a machine share.
pub trait Port: Any {
    /// Returns the next arrived frame, with its descriptor in its slot. `None` if no more frames
    /// have arrived.
    fn receive(&mut self, pool: &mut PacketPool, now: Time) -> Option<PacketId>;

    /// Sets whether super-packets that arrive from now on are split into frames. A port without
    /// super-packets ignores it.
    fn set_cutting(&mut self, cuts: bool) {
        let _ = cuts;
    }

    /// Returns `true` if [`send`](Self::send) has room.
    fn can_send(&self) -> bool;

    /// Makes a frame from another one in the shared memory.
    fn copy(&mut self, copy: &FrameCopy);

    /// Hands a packet to the interface, and writes its changed header fields into the frame.
    fn send(&mut self, pool: &mut PacketPool, packet: PacketId);

    /// Makes the system calls that `send` has postponed, and releases sent packets.
    fn flush(&mut self, pool: &mut PacketPool);

    /// Returns `true` if packets wait here after [`send`](Self::send), so that
    /// [`flush`](Self::flush) must be called again soon.
    fn unsent(&self) -> bool {
        false
    }

    /// Packets of the pool that it holds for frames to be received.
    fn receiving(&self) -> u32 {
        0
    }

    /// Returns `true` if the port gets each frame exclusively. Otherwise it gets copies, and during
    /// a bypass the kernel forwards the frames themselves.
    fn takes_frames(&self) -> bool {
        false
    }

    /// Drops all frames that have arrived and were not yet received; returns their number.
    /// Afterwards, `copies` returns how many of them were copies of frames that bypassed the
    /// gateway; `u64::MAX` means all. The others count as stale.
    fn drop_arrived(&mut self, pool: &mut PacketPool, copies: &dyn Fn() -> u64) -> u64;

    /// A descriptor that becomes readable on arrivals, if the port has one.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Time at which the port itself has frames to send, by [`flush`](Self::flush).
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// The current counters.
    fn counters(&self) -> PortCounters;
}

/// Counters of a port since it was opened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PortCounters {
    /// Frames received and described.
    pub received: u64,
    /// Bytes of received frames.
    pub received_bytes: u64,
    /// Frames handed to the interface.
    pub sent: u64,
    /// Bytes of sent frames.
    pub sent_bytes: u64,
    /// Frames that the kernel dropped for lack of room in the ring.
    pub ring_overflows: u64,
    /// Frames that could not be received, or times at which the interface went down.
    pub receive_errors: u64,
    /// Times at which the interface had no room, or frames that it refused for good.
    pub send_errors: u64,
    /// Frames dropped here, by reason.
    pub drops: ByReason,
    /// The last frame that was dropped because the interface refused it.
    pub refused: Option<Refused>,
    /// Super-packets split in software because the kernel could not split them.
    pub split: u64,
    /// Frames received with an unfinished checksum, inside more nested tunnels than are parsed.
    pub unfinished: u64,
    /// Arrival of the last such frame.
    pub unfinished_at: Time,
    /// Malformed frames received, by oddity.
    pub oddities: Oddities,
}

/// A frame that an interface refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused {
    /// Its flow.
    pub key: FlowKey,
    /// Its length in bytes.
    pub len: u32,
    /// The reason.
    pub why: Refusal,
    /// The time.
    pub at: Time,
}

/// The reason for which an interface does not send a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The kernel returned this error number.
    Kernel(i32),
    /// It is a super-packet that neither the kernel nor the gateway can split.
    Whole,
}
