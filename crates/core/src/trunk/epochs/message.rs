//! The two messages of a trunk with epochs. An epoch ends with a *boundary*, a user packet that
//! both gateways select by its hash. A *congestion ACK* reports the arrival of a boundary. A
//! *spacing request* states the mean number of packets that an epoch shall have.
//!
//! Both are encoded as TCP segments without payload, like management packets. [`CongestionAck::segment`] shows which
//! TCP field holds which value.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler): congestion ACKs and epoch sizes in packets of their own.
//! Differs: a congestion ACK also contains the arrival time by the clock of the receiver, and a random number that
//! identifies the receiver.

use super::boundary::Spacing;
use crate::Time;
use crate::packet::{TcpFlags, TcpSegment};
use crate::tcp::Segment;

/// The receiver's report that a boundary has arrived.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct CongestionAck {
    /// Name of the boundary: a part of its hash.
    pub(super) name: u32,
    /// User bytes received so far, the boundary included, modulo 2^32.
    pub(super) received: u32,
    /// Arrival time by the receiver's clock, in microseconds modulo 2^32.
    pub(super) micros: u32,
    /// Random number of the receiver. It changes with a restart, which resets `received`.
    pub(super) life: u32,
    /// The spacing that the receiver uses now.
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

/// The spacing request: asks the receiver to use `spacing`.
pub(super) fn ask_for(spacing: Spacing) -> Segment {
    let flags = TcpFlags(TcpFlags::ACK);
    let header = TcpSegment { window: spacing.power(), flags, ..TcpSegment::default() };
    Segment { header, ..Segment::default() }
}

/// `now` in the format of [`CongestionAck::micros`].
pub(super) fn micros(now: Time) -> u32 {
    u32::try_from((now.nanos() / 1_000) & u64::from(u32::MAX)).unwrap_or(0)
}
