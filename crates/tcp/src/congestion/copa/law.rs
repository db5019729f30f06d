//! The window of a path without cross traffic, by the delay that its queue adds. The window grows while
//!
//! `window / standing <= target packets / queued`,
//!
//! and shrinks otherwise. Here `standing` is the least round-trip time of the last half round trip,
//! and `queued` is the delay that the queue adds.
//!
//! Source: Copa (NSDI 2018), section 2.1 for the window and its velocity; for an aggregate as in Bundler
//! (doi 10.1145/3447786.3456260).
//!
//! Differs: an aggregate reports one boundary (a user packet that the other gateway acknowledges)
//! at a time, not each ACK. The window moves by the bytes since the previous boundary. The window
//! grows only if it was full. No step exceeds the acknowledged bytes. If the window changes its
//! direction, the velocity is reset at once, not at the end of the round trip.
//!
//! Differs: a queue beyond the target and a part of the window is drained at once, as in Nimbus
//! (doi 10.1145/3544216.3544256, section 3.2). The rate of arrivals replaces the known rate of the
//! link. Copa itself moves the window in steps of packets. After a high velocity, these steps would
//! take many round trips to reduce the window of an aggregate.

use std::time::Duration;

use tidegate_base::Time;

use super::path::Path;

/// An acknowledged boundary.
pub struct Acknowledged {
    /// Round-trip time of the boundary.
    pub rtt: Duration,
    /// Bytes since the previous boundary.
    pub bytes: u64,
    /// The bytes in flight filled the window.
    pub full: bool,
}

/// Packets of the sender, and the target of the queue.
#[derive(Clone, Copy, Debug)]
pub struct Packets {
    /// Bytes of a packet.
    pub bytes: u64,
    /// Target of packets in the queue: 1 / delta.
    pub wait: u64,
}

/// The window, of an aggregate or of a connection.
pub struct Law {
    packets: Packets,
    window: u64,
    slow_start: bool,
    velocity: u64,
    /// Direction of the window in the last round trip (`true`: growth), and the number of earlier
    /// rounds in this direction.
    trend: (bool, u32),
    /// Start of the present round trip, and the window at that time.
    round: (Time, u64),
}

impl Law {
    /// A law that begins with `window`.
    pub const fn new(now: Time, packets: Packets, window: u64, slow_start: bool) -> Self {
        Self { packets, window, slow_start, velocity: 1, trend: (true, 0), round: (now, window) }
    }

    /// The law after the end of cross traffic: the window is at most the bytes that the path
    /// carries, plus the target of the queue.
    pub fn resumed(now: Time, packets: Packets, path: &Path, window: u64) -> Self {
        let mut it = Self::new(now, packets, window, false);
        it.drain(path);
        it.round.1 = it.window;
        it
    }

    /// Returns `true` in slow start.
    pub const fn in_slow_start(&self) -> bool {
        self.slow_start
    }

    /// Bytes that may be in flight.
    pub const fn window(&self) -> u64 {
        self.window
    }

    /// Sets the target of packets in the queue.
    pub const fn wait_for(&mut self, packets: u64) {
        self.packets.wait = packets;
    }

    /// Handles an acknowledged boundary.
    pub fn on_boundary(&mut self, now: Time, it: &Acknowledged, path: &Path) {
        if now.since(self.round.0) >= path.srtt().unwrap_or_default() {
            self.end_round(now);
        }
        self.step(it, path);
    }

    /// Moves the window towards the target of the queue.
    fn step(&mut self, it: &Acknowledged, path: &Path) {
        // Condition: window / standing <= target packets / queued. In slow start, the newest
        // round-trip time replaces the standing one.
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

    /// Bytes by which the window moves when `bytes` were acknowledged.
    fn moved(&self, bytes: u64) -> u64 {
        let moved =
            u128::from(bytes) * u128::from(self.velocity * self.packets.wait * self.packets.bytes);
        let step = moved / u128::from(self.window);
        u64::try_from(step).unwrap_or(u64::MAX).min(bytes)
    }

    /// Packets in the queue beyond the target that are not drained at once.
    fn spare(&self) -> u64 {
        (self.window / self.packets.bytes / 16).max(1)
    }

    /// Drains the queue: the window becomes at most the bytes that the path carries, plus the
    /// target of the queue.
    fn drain(&mut self, path: &Path) {
        let kept = path.carries(self.window).saturating_add(self.packets.wait * self.packets.bytes);
        self.window = self.window.min(kept).max(LEAST * self.packets.bytes);
    }

    /// Sets the velocity at the end of a round trip.
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

/// Least window in packets. With it, the queue still runs empty at times, even if the path holds
/// few bytes.
const LEAST: u64 = 2;

const MOST: u64 = 1 << 40;
