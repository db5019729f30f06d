//! The record of *boundaries*: user packets that the other gateway acknowledges with *congestion
//! ACKs*. With this record, a congestion ACK yields a round-trip time, losses and an arrival rate.
//!
//! `missing = bytes sent between two boundaries - bytes that arrived between them`.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler): round-trip times of boundaries, and rates from the bytes between two
//! boundaries.
//! Differs:
//! - If two recent boundaries have the same name, their congestion ACK gives no round-trip time. It
//!   does not show which packet has arrived (Karn's rule, RFC 6298, section 3).
//! - The arrival rate is measured with the clock of the receiver.

use std::collections::VecDeque;
use std::time::Duration;

use super::message::CongestionAck;
use crate::Time;
use crate::tcp::congestion::copa::Arrived;

/// Total user traffic sent, up to and including a boundary.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct SentTotals {
    /// User bytes.
    pub(super) bytes: u64,
    /// User packets.
    pub(super) packets: u64,
}

/// A boundary that was sent, its departure time, and the totals up to it.
/// The name is a part of the packet's hash.
struct Boundary {
    name: u32,
    at: Time,
    sent: SentTotals,
    /// A later boundary has the same name.
    twice: bool,
    /// The window was full when the boundary departed.
    full: bool,
}

/// Measurements from a congestion ACK.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sample {
    /// Time since the boundary departed. `None` if another recent boundary has the same name.
    pub(super) rtt: Option<Duration>,
    /// Totals sent up to the boundary.
    pub(super) sent: SentTotals,
    /// Bytes that were sent since the previous acknowledged boundary and did not arrive. Negative
    /// if packets from before that boundary arrived late.
    pub(super) missing: i64,
    /// Bytes and time between the arrivals of both boundaries at the receiver. `None` if the receiver has
    /// restarted, or its clock did not advance.
    pub(super) arrived: Option<Arrived>,
    /// The window was full when the boundary departed.
    pub(super) full: bool,
}

/// The boundaries sent recently, in order of departure.
#[derive(Default)]
pub(super) struct Ledger {
    sent: VecDeque<Boundary>,
    /// Number of boundaries at the front that were acknowledged, or whose successor was acknowledged first.
    passed: usize,
    /// Totals sent up to the last acknowledged boundary, and its congestion ACK.
    last: Option<(SentTotals, CongestionAck)>,
}

impl Ledger {
    /// Largest number of boundaries in the record. A round trip has six to sixteen boundaries.
    const MOST: usize = 512;

    /// Records a boundary that departs.
    pub(super) fn depart(&mut self, now: Time, name: u32, sent: SentTotals, full: bool) {
        let earlier = self.sent.iter_mut().rfind(|it| it.name == name);
        let twice = earlier.map(|it| it.twice = true).is_some();
        if self.sent.len() == Self::MOST {
            self.sent.pop_front();
            self.passed = self.passed.saturating_sub(1);
        }
        self.sent.push_back(Boundary { name, at: now, sent, twice, full });
    }

    /// The measurements from `ack`. `None` if its boundary is unknown, or if this or a later boundary was
    /// acknowledged before.
    pub(super) fn acknowledged(&mut self, now: Time, ack: CongestionAck) -> Option<Sample> {
        let under_way = self.sent.iter().enumerate().skip(self.passed);
        let (at, boundary) = under_way.into_iter().find(|(_, it)| it.name == ack.name)?;
        self.passed = at + 1;
        let before = self.last.filter(|(_, it)| it.life == ack.life);
        self.last = Some((boundary.sent, ack));
        let missing = before.map_or(0, |(sent, last)| {
            let arrived = ack.received.wrapping_sub(last.received).cast_signed();
            let left = boundary.sent.bytes.saturating_sub(sent.bytes);
            0_i64.saturating_add_unsigned(left).saturating_sub(i64::from(arrived))
        });
        let arrived = before.and_then(|(_, last)| arrived(&last, &ack));
        let rtt = (!boundary.twice).then(|| now.since(boundary.at));
        Some(Sample { rtt, sent: boundary.sent, missing, arrived, full: boundary.full })
    }

    /// Departure time of the oldest boundary that may still be acknowledged.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.sent.get(self.passed).map(|it| it.at)
    }

    /// Considers all boundaries in flight lost.
    pub(super) fn forget(&mut self) {
        self.passed = self.sent.len();
        self.last = None;
    }
}

/// Bytes and time between two arrivals at the same receiver. `None` if its clock did not advance.
fn arrived(first: &CongestionAck, second: &CongestionAck) -> Option<Arrived> {
    let bytes = second.received.wrapping_sub(first.received).cast_signed();
    let micros = second.micros.wrapping_sub(first.micros).cast_signed();
    let span = Duration::from_micros(u64::try_from(micros).ok().filter(|it| *it > 0)?);
    Some(Arrived { bytes: u64::try_from(bytes).ok()?, span })
}
