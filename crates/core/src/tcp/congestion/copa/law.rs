//! How much may be in flight where nobody else fills the queue: by the delay that it adds.
//!
//! Source: Copa (NSDI 2018), section 2.1 for the window and its velocity; for an aggregate as in
//! Bundler (doi 10.1145/3447786.3456260).
//! Differs: an aggregate tells a boundary at a time, not each ACK, and the window moves by the bytes in between; it grows
//! only when as much was under way as the window allowed; no step is more than the bytes acknowledged; a velocity ends
//! at once when the window turns, not at the end of its round trip. What is queued beyond the target and a
//! part of the window is taken back at once, as Nimbus does (doi 10.1145/3544216.3544256, section 3.2, with the rate of arrivals in place of a known
//! one): Copa's steps are packets, and take many round trips back from where its velocity has led an aggregate.

use std::time::Duration;

use super::path::Path;
use crate::Time;

/// What was acknowledged.
pub(crate) struct Acknowledged {
    /// Round-trip time of the boundary.
    pub(crate) rtt: Duration,
    /// Bytes since the one before.
    pub(crate) bytes: u64,
    /// Whether as much was under way as the window allowed.
    pub(crate) full: bool,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packets {
    /// Bytes of each.
    pub(crate) bytes: u64,
    /// So many are meant to wait: 1 / delta.
    pub(crate) wait: u64,
}

/// The window, of an aggregate or of a connection.
pub(crate) struct Law {
    packets: Packets,
    window: u64,
    slow_start: bool,
    velocity: u64,
    /// Which way the window went in the round trip before; its rounds in a row.
    trend: (bool, u32),
    /// Of this round trip: when it began, with what window.
    round: (Time, u64),
}

impl Law {
    /// With this window.
    pub(crate) const fn new(now: Time, packets: Packets, window: u64, slow_start: bool) -> Self {
        Self { packets, window, slow_start, velocity: 1, trend: (true, 0), round: (now, window) }
    }

    /// Where others who filled the queue have gone: what the path carries, and no more.
    pub(crate) fn resumed(now: Time, packets: Packets, path: &Path, window: u64) -> Self {
        let mut it = Self::new(now, packets, window, false);
        it.drain(path);
        it.round.1 = it.window;
        it
    }

    /// Whether nothing has waited yet.
    pub(crate) const fn in_slow_start(&self) -> bool {
        self.slow_start
    }

    /// Bytes that may be in flight.
    pub(crate) const fn window(&self) -> u64 {
        self.window
    }

    /// So many packets are meant to wait from now on.
    pub(crate) const fn wait_for(&mut self, packets: u64) {
        self.packets.wait = packets;
    }

    /// A boundary was acknowledged.
    pub(crate) fn on_boundary(&mut self, now: Time, it: &Acknowledged, path: &Path) {
        if now.since(self.round.0) >= path.srtt().unwrap_or_default() {
            self.end_round(now);
        }
        self.step(it, path);
    }

    /// Moves the window towards where its packets make the queue that is meant to be.
    fn step(&mut self, it: &Acknowledged, path: &Path) {
        // window / standing <= target packets / queued; slow start ends by what was seen last.
        let (least, standing) = (path.least(), path.standing());
        let seen = if self.slow_start { it.rtt } else { standing }.saturating_sub(least);
        let have = u128::from(self.window) * seen.as_nanos();
        let long = |packets: u64| u128::from(self.packets.bytes * packets) * standing.as_nanos();
        let grows = have <= long(self.packets.wait);
        if self.velocity > 1 && grows != self.trend.0 {
            (self.velocity, self.trend) = (1, (grows, 0));
        }
        if have > long(self.packets.wait + self.spare()) || (self.slow_start && !grows) {
            self.slow_start = false;
            return self.drain(path);
        }
        let step = if self.slow_start { it.bytes } else { self.moved(it.bytes) };
        if !grows {
            self.window = self.window.saturating_sub(step).max(LEAST * self.packets.bytes);
        } else if it.full {
            self.window = self.window.saturating_add(step).min(MOST);
        }
    }

    /// By how much it moves when `bytes` were acknowledged.
    fn moved(&self, bytes: u64) -> u64 {
        let moved =
            u128::from(bytes) * u128::from(self.velocity * self.packets.wait * self.packets.bytes);
        let step = moved / u128::from(self.window);
        u64::try_from(step).unwrap_or(u64::MAX).min(bytes)
    }

    /// Packets in the queue beyond the target that are not worth taking back at once.
    fn spare(&self) -> u64 {
        (self.window / self.packets.bytes / 16).max(1)
    }

    /// What overshot goes: the window is what the path carries, and the target.
    fn drain(&mut self, path: &Path) {
        let kept = path.carries(self.window).saturating_add(self.packets.wait * self.packets.bytes);
        self.window = self.window.min(kept).max(LEAST * self.packets.bytes);
    }

    /// Once in a round trip: the velocity.
    fn end_round(&mut self, now: Time) {
        let grew = self.window > self.round.1;
        self.trend = if grew == self.trend.0 { (grew, self.trend.1 + 1) } else { (grew, 0) };
        self.velocity = match self.trend.1 {
            rounds if rounds >= 3 && self.window != self.round.1 => self.velocity.saturating_mul(2),
            _ => 1,
        };
        self.velocity = self.velocity.min(1 << 16);
        self.round = (now, self.window);
    }
}

/// Packets: so few that a path without much in flight is still empty at times.
const LEAST: u64 = 2;

const MOST: u64 = 1 << 40;
