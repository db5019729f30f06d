//! A port: a network interface from which the gateway receives packets, and to which it sends them.

use std::any::Any;
use std::os::fd::BorrowedFd;

use tidegate_core::packet::{FlowKey, FrameCopy};
use tidegate_core::{ByReason, PacketId, PacketPool, Reason, Time};
use tidegate_gateway::report::PortCount;
use tidegate_wire::Oddities;

/// A network interface: AF_XDP, AF_PACKET, or a test double.
///
/// All ports of a gateway share one packet memory. Slot `n` of the pool describes the frame in
/// buffer `n`.
pub trait Port: Any {
    /// Returns the next arrived frame, with its descriptor in its slot. `None` if no more frames
    /// have arrived.
    fn receive(&mut self, pool: &mut PacketPool, now: Time) -> Option<PacketId>;

    /// Sets whether super-packets (GSO, GRO) that arrive from now on are split into frames. A port
    /// that never gets super-packets ignores the call.
    fn set_cutting(&mut self, cuts: bool) {
        let _ = cuts;
    }

    /// Returns `true` if [`send`](Self::send) has room.
    fn can_send(&self) -> bool;

    /// Makes the frame of a packet from the frame of another packet, in the shared memory.
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

    /// Number of packets whose buffers the port has reserved for frames to be received.
    fn receiving(&self) -> u32 {
        0
    }

    /// Returns `true` if each frame goes only to this port (AF_XDP). Returns `false` if the port
    /// gets copies (AF_PACKET): while frames bypass the gateway, the kernel forwards the originals.
    fn takes_frames(&self) -> bool {
        false
    }

    /// Drops all frames that have arrived and were not yet received. Returns their number. After
    /// the drop, calls `copies`, which returns how many of these frames were copies of frames that
    /// bypassed the gateway; `u64::MAX` means all of them. The other dropped frames count as stale
    /// (too old to forward).
    fn drop_arrived(&mut self, pool: &mut PacketPool, copies: &dyn Fn() -> u64) -> u64;

    /// A descriptor that becomes readable when frames arrive, if the port has such a descriptor.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// The time at which the port itself has frames to send, such as keepalives. The loop then
    /// calls [`flush`](Self::flush).
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
    /// Losses and other events. The field `refused` is zero; see [`report`](Self::report).
    pub events: PortCount,
    /// Frames that the port dropped, by reason.
    pub drops: ByReason,
    /// The last frame that was dropped because the interface refused it.
    pub refused: Option<Refused>,
    /// Time at which the last frame that `events.unfinished` counts arrived.
    pub unfinished_at: Time,
    /// Malformed frames received, by kind of fault.
    pub oddities: Oddities,
}

impl PortCounters {
    /// The losses and other events, with the refused frames.
    #[must_use]
    pub fn report(&self) -> PortCount {
        PortCount { refused: self.drops.of(Reason::Refused), ..self.events }
    }
}

/// A frame that an interface refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused {
    /// Flow of the frame.
    pub key: FlowKey,
    /// Length of the frame in bytes.
    pub len: u32,
    /// Why the interface refused the frame.
    pub why: Refusal,
    /// Time of the refusal.
    pub at: Time,
}

/// The reason why an interface does not send a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The kernel returned this error number.
    Kernel(i32),
    /// The frame is a super-packet that neither the kernel nor the gateway can split.
    Whole,
}
