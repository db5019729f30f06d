//! What the two ends of a trunk tell each other about epochs, beside the user packets.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler): congestion ACKs and epoch sizes go out
//! of band. Differs: they have the form of TCP segments without payload, as management packets have
//! it, whose fields mean what is said here; a congestion ACK says when the boundary came by the clock
//! of its sender, and in which of its lives it was counted.

use super::boundary::Spacing;
use crate::Time;
use crate::packet::{TcpFlags, TcpSegment};
use crate::tcp::Segment;

/// A user packet that ends an epoch has arrived.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct CongestionAck {
    /// The boundary.
    pub(super) name: u32,
    /// User bytes that had arrived by then, it included, modulo 2^32.
    pub(super) received: u32,
    /// When, in microseconds modulo 2^32 of the receiver's clock.
    pub(super) micros: u32,
    /// Tells counts of a receiver that began anew from those before.
    pub(super) life: u32,
    /// At which spacing the receiver looks.
    pub(super) spacing: Spacing,
}

impl CongestionAck {
    pub(super) fn segment(&self) -> Segment {
        let header = TcpSegment {
            seq: self.name,
            ack: self.received,
            timestamps: Some((self.micros, self.life)),
            window: self.spacing.power(),
            flags: TcpFlags(TcpFlags::ACK),
            ..TcpSegment::default()
        };
        Segment { header, ..Segment::default() }
    }

    pub(super) fn read(header: &TcpSegment) -> Option<Self> {
        let (micros, life) = header.timestamps?;
        let spacing = Spacing::of_power(header.window);
        Some(Self { name: header.seq, received: header.ack, micros, life, spacing })
    }
}

/// The segment that tells a receiver to look at `spacing`.
pub(super) fn ask_for(spacing: Spacing) -> Segment {
    let flags = TcpFlags(TcpFlags::ACK);
    let header = TcpSegment { window: spacing.power(), flags, ..TcpSegment::default() };
    Segment { header, ..Segment::default() }
}

/// A time as [`CongestionAck::micros`] has it.
pub(super) fn micros(now: Time) -> u32 {
    u32::try_from((now.nanos() / 1_000) & u64::from(u32::MAX)).unwrap_or(0)
}
