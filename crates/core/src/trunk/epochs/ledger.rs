//! Boundaries that were sent, and what is learnt when the other end has seen one.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler): round-trip times from boundaries, rates from
//! what lies between two. Differs: a boundary that was sent twice under one name gives no round-trip
//! time (Karn's rule, RFC 6298, section 3); what was received per time is told by the receiver's clock.

use std::collections::VecDeque;
use std::time::Duration;

use super::message::CongestionAck;
use crate::Time;
use crate::tcp::congestion::copa::Arrived;

/// What an end has sent when a boundary left, that included.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Sent {
    /// User bytes.
    pub(super) bytes: u64,
    /// User packets.
    pub(super) packets: u64,
}

/// A boundary that was sent.
struct Boundary {
    name: u32,
    at: Time,
    sent: Sent,
    /// Sent more than once: which of them arrived cannot be told.
    twice: bool,
    /// As much was under way as the window allowed.
    full: bool,
}

/// What a congestion ACK tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sample {
    /// From when the boundary was sent; `None` if that is not certain.
    pub(super) rtt: Option<Duration>,
    /// All that had been sent by then.
    pub(super) sent: Sent,
    /// Of what was sent since the boundary acknowledged before, bytes that did not arrive. Less than zero
    /// is what arrived late of before.
    pub(super) missing: i64,
    /// What arrived since that one, if its receiver is the same and its clock went on.
    pub(super) arrived: Option<Arrived>,
    /// As much was under way when the boundary left as the window allowed.
    pub(super) full: bool,
}

/// Boundaries that were sent lately, in order.
#[derive(Default)]
pub(super) struct Ledger {
    sent: VecDeque<Boundary>,
    /// How many of them are no longer under way: acknowledged, or overtaken.
    passed: usize,
    /// Of the boundary acknowledged last: what was sent, and what the receiver said.
    last: Option<(Sent, CongestionAck)>,
}

impl Ledger {
    /// Most boundaries that are remembered: six to sixteen in a round trip are meant to be.
    const MOST: usize = 512;

    /// A boundary leaves.
    pub(super) fn leaves(&mut self, now: Time, name: u32, sent: Sent, full: bool) {
        let earlier = self.sent.iter_mut().rfind(|it| it.name == name);
        let twice = earlier.map(|it| it.twice = true).is_some();
        if self.sent.len() == Self::MOST {
            self.sent.pop_front();
            self.passed = self.passed.saturating_sub(1);
        }
        self.sent.push_back(Boundary { name, at: now, sent, twice, full });
    }

    /// What `ack` tells; nothing if its boundary is not under way, or was overtaken.
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

    /// When the oldest boundary left that may yet be acknowledged.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.sent.get(self.passed).map(|it| it.at)
    }

    /// Holds for lost what is under way.
    pub(super) fn forget(&mut self) {
        self.passed = self.sent.len();
        self.last = None;
    }
}

/// What arrived between two boundaries of one life; none if not before the second.
fn arrived(first: &CongestionAck, second: &CongestionAck) -> Option<Arrived> {
    let bytes = second.received.wrapping_sub(first.received).cast_signed();
    let micros = second.micros.wrapping_sub(first.micros).cast_signed();
    let span = Duration::from_micros(u64::try_from(micros).ok().filter(|it| *it > 0)?);
    Some(Arrived { bytes: u64::try_from(bytes).ok()?, span })
}
