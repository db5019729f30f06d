//! A network interface as the loop sees it.

use std::os::fd::BorrowedFd;

use tidegate_core::packet::{FlowKey, FrameCopy};
use tidegate_core::{ByReason, PacketId, PacketPool, Time};
use tidegate_wire::Oddities;

use crate::trunk::{PeerReport, TrunkEnd};

/// A network interface: AF_XDP, AF_PACKET, or a test's two vectors.
///
/// Slot `n` of the pool describes buffer `n` of the packet memory all ports of a machine share.
pub trait Port {
    /// A frame that arrived, described in its slot; `None` if nothing more is there now.
    fn receive(&mut self, pool: &mut PacketPool, now: Time) -> Option<PacketId>;

    /// Sets whether super-packets that arrive from now on are cut into frames. A port without super-packets ignores it.
    fn set_cutting(&mut self, cuts: bool) {
        let _ = cuts;
    }

    /// Whether [`send`](Self::send) has room.
    fn can_send(&self) -> bool;

    /// Makes a frame of another in the memory all ports share.
    fn copy(&mut self, copy: &FrameCopy);

    /// Hands a packet to the interface, with what was rewritten in its headers.
    fn send(&mut self, pool: &mut PacketPool, packet: PacketId);

    /// Makes the system calls that `send` put off, and releases what has been sent.
    fn flush(&mut self, pool: &mut PacketPool);

    /// Whether packets handed to [`send`](Self::send) still wait here, for another
    /// [`flush`](Self::flush) a little later.
    fn unsent(&self) -> bool {
        false
    }

    /// Packets of the pool it keeps for frames to come.
    fn receiving(&self) -> u32 {
        0
    }

    /// Whether a frame that arrives here comes nowhere else; if not, it is a copy, and while the
    /// kernel passes frames straight across, the frame itself has gone.
    fn takes_frames(&self) -> bool {
        false
    }

    /// Drops all frames that arrived and were not yet received; returns their number. `copies` is asked
    /// afterwards how many of them were copies of frames that bypassed the gateway. The others count as
    /// stale. `u64::MAX` copies are all of them.
    fn drop_arrived(&mut self, pool: &mut PacketPool, copies: &dyn Fn() -> u64) -> u64;

    /// What to poll for arrivals, if this port can be polled.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// When it has something to send of its own accord, in a [`flush`](Self::flush).
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Has these trunks end here from now on, each with random bytes that are unlike any others; others are no more.
    /// A port at which none can end does nothing.
    fn end_trunks(&mut self, _trunks: Vec<(TrunkEnd, [u8; 32])>) {}

    /// The other ends of the trunks that end here, in the order they were given.
    fn peers(&self) -> Vec<PeerReport> {
        Vec::new()
    }

    /// What it has seen so far.
    fn counters(&self) -> PortCounters;
}

/// Counts of a port since it was opened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PortCounters {
    /// Frames received and described.
    pub received: u64,
    /// Bytes of these.
    pub received_bytes: u64,
    /// Frames handed to the interface.
    pub sent: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
    /// Frames the kernel had to drop before we saw them, for lack of room in the ring.
    pub ring_overflows: u64,
    /// Frames that could not be received, or times the interface went away.
    pub receive_errors: u64,
    /// Times the interface refused to send for now, or frames it refused for good.
    pub send_errors: u64,
    /// Frames dropped here, by reason.
    pub drops: ByReason,
    /// The last frame that was dropped because the interface refused it.
    pub refused: Option<Refused>,
    /// Super-packets split in software because the kernel could not.
    pub split: u64,
    /// Frames received with an unfinished checksum inside more tunnels than are read.
    pub unfinished: u64,
    /// Arrival of the last one.
    pub unfinished_at: Time,
    /// Frames received that were odd, by what was odd about them.
    pub oddities: Oddities,
}

/// A frame that an interface would not send.
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
