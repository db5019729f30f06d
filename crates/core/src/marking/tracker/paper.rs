//! The tracker `paper`: rounds are bursts of packets, and gaps part them.
//!
//! A packet begins a round if the gap before it exceeds `RTT / K`, or if the round has one packet more
//! than the one before.
//!
//! Source: `marking`, section 2.1, equations (3) and (4).
//! Differs:
//! - The window is the larger of the packets of this round and those of the last, halved if the last had
//!   a mark. The paper takes the packets of this round, whether all have arrived or not.
//! - A flow met in mid-connection begins with a round-trip time of 100 ms.

use std::time::Duration;

use serde::Deserialize;

use super::{Estimate, Sighting};
use crate::packet::{Ecn, TcpFlags};
use crate::time::nanos;
use crate::{Bytes, Factor, Time};

/// How rounds are told apart.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A gap of more than `RTT / k` ends a round.
    pub k: u32,
    /// Weight of the old round-trip time against a new sample.
    pub a: Factor,
}

impl Default for Config {
    fn default() -> Self {
        Self { k: 10, a: Factor::from_millionths(900_000) }
    }
}

impl Config {
    pub(super) fn with(self, k: Option<u32>, a: Option<Factor>) -> Result<Self, &'static str> {
        let config = Self { k: k.unwrap_or(self.k), a: a.unwrap_or(self.a) };
        if config.k == 0 {
            return Err("`k` must not be zero; write 10 for gaps of a tenth of a round trip");
        }
        if config.a > Factor::ONE {
            return Err("`a` must be from 0 to 1; write 0.9 to give a new sample a tenth");
        }
        Ok(config)
    }
}

/// Initial round-trip time of a flow met in mid-connection.
const MET_LATE: Duration = Duration::from_millis(100);

/// A flow, in packets.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    last: Time,
    round_start: Time,
    rtt: Duration,
    /// Packets of this round.
    count: u32,
    /// Packets of the last round, halved if it had a mark.
    previous: u32,
    /// Packets of the last round.
    complete: u32,
    /// Longest frame so far.
    frame: u32,
    k: u32,
    a: Factor,
    /// Only the SYN was seen.
    opening: bool,
    marked: bool,
    responds: bool,
}

impl Paper {
    pub(super) fn new(config: &Config, first: &Sighting<'_>) -> Self {
        let syn = first.packet.tcp.is_some_and(|tcp| tcp.flags.any(TcpFlags::SYN));
        let mut new = Self {
            last: first.now,
            round_start: first.now,
            rtt: MET_LATE,
            count: 0,
            previous: 0,
            complete: 0,
            frame: 0,
            k: config.k,
            a: config.a,
            opening: syn,
            marked: false,
            responds: true,
        };
        if !syn {
            new.add(first);
        }
        new
    }

    pub(super) fn on_arrival(&mut self, seen: &Sighting<'_>) -> bool {
        let before = (self.round_start, self.rtt, self.next());
        let gap = seen.now.since(std::mem::replace(&mut self.last, seen.now));
        let packets = frames(seen);
        if self.opening {
            self.opening = false;
            self.rtt = gap;
            self.round_start = seen.now;
        } else if gap > self.rtt / self.k || self.count + packets > self.complete + 1 {
            self.begin_round(seen.now);
        }
        self.add(seen);
        before != (self.round_start, self.rtt, self.next())
    }

    fn begin_round(&mut self, now: Time) {
        let sample = now.since(self.round_start);
        self.complete = self.count;
        self.previous = if self.marked { self.count / 2 } else { self.count };
        self.count = 0;
        self.marked = false;
        self.round_start = now;
        let of = |factor: u64, span| u128::from(factor) * u128::from(nanos(span));
        let (old, new) = (self.a.millionths(), Factor::ONE.millionths() - self.a.millionths());
        let sum = (of(old, self.rtt) + of(new, sample)) / u128::from(Factor::ONE.millionths());
        self.rtt = Duration::from_nanos(u64::try_from(sum).unwrap_or(u64::MAX));
    }

    fn add(&mut self, seen: &Sighting<'_>) {
        let packets = frames(seen);
        self.count = self.count.saturating_add(packets);
        self.frame = self.frame.max(seen.packet.len / packets);
        self.marked |= seen.packet.ecn == Ecn::Ce || seen.packet.seen_before;
        self.responds = seen.packet.ecn != Ecn::Ect1;
    }

    pub(super) const fn on_mark(&mut self, _: Time) {
        self.marked = true;
    }

    pub(super) const fn on_drop(&mut self, _: Time) {
        self.marked = true;
    }

    /// The window in packets, and whether it was marked.
    fn next(&self) -> (u32, bool) {
        (self.count.max(self.previous), self.marked)
    }

    pub(super) fn estimate(&self, _: Time) -> Estimate {
        let frame = Bytes(self.frame.into());
        Estimate {
            round_start: self.round_start,
            rtt: self.rtt,
            window: frame * self.next().0.into(),
            growth: frame,
            marked: self.marked,
            responds: self.responds,
        }
    }
}

/// Frames that the packet stands for.
fn frames(seen: &Sighting<'_>) -> u32 {
    u32::from(seen.packet.segments.max(1))
}
