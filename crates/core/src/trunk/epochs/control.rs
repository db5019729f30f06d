//! The window of an aggregate: bounded by delay, or, beside cross traffic, by the windows of
//! virtual TCP connections.
//!
//! - `Delay`: Copa keeps the queue of the path almost empty.
//! - `Competition`: the queue has not been nearly empty for `max(5 RTT, 2 s)`. Virtual CUBIC
//!   connections set the window ([`crowd`](super::crowd)).
//! - `Check`: every 30 round trips of competition, the window drops to the bytes that the path
//!   carries, for two round trips. If the queue then runs empty, the mode is `Delay` again.
//!
//! Source: Copa (NSDI 2018), section 2.2, for the modes; doi 10.1145/3447786.3456260 (Bundler).
//! Differs:
//! - Copa waits for five round trips only. Short transfers of cross traffic can fill a queue for
//!   two seconds.
//! - Copa has no check. A window that keeps its own queue full would compete with itself.
//! - During competition, the least round-trip time is remembered for 300 s, not 10 s. Cross traffic
//!   hides it.

use std::time::Duration;

use super::PACKET;
use super::crowd::{Crowd, Round};
use super::senders::Senders;
use super::{INITIAL, LEAST};
use crate::packet::FlowKey;
use crate::random::Random;
use crate::tcp::congestion::copa::{Acknowledged, Arrived, Law, Packets, Path};
use crate::time::nanos;
use crate::{Rate, Time};

/// Measurements that an acknowledged boundary brings.
pub(super) struct Progress {
    /// Round-trip time of the boundary.
    pub(super) rtt: Duration,
    /// Bytes sent since the boundary acknowledged before.
    pub(super) bytes: u64,
    /// Bytes of these that did not arrive. Negative if earlier packets arrived late.
    pub(super) missing: i64,
    /// Bytes and time between the two arrivals at the receiver, if known.
    pub(super) arrived: Option<Arrived>,
    /// `true` if the window was full when the boundary departed.
    pub(super) full: bool,
}

/// Treatment of the queue of the path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mode {
    /// No cross traffic fills the queue. It is kept almost empty.
    Delay,
    /// Cross traffic fills the queue. The window is that of the virtual TCP connections.
    Competition,
    /// A check for cross traffic: the aggregate keeps no bytes of its own in the queue.
    Check,
}

/// The window of the aggregate, in each mode.
pub(super) struct Control {
    mode: Mode,
    path: Path,
    copa: Law,
    crowd: Crowd,
    senders: Senders,
    /// The window when the queue was last nearly empty.
    before: u64,
    /// Time of the last change of the mode, and of the last count of senders.
    turned: Time,
    counted: Time,
    /// Number of virtual connections that stand for the senders.
    count: u64,
}

impl Control {
    pub(super) fn new(now: Time, random: Random) -> Self {
        Self {
            mode: Mode::Delay,
            path: Path::default(),
            copa: Law::new(now, PACKETS, INITIAL, true),
            crowd: Crowd::new(random),
            senders: Senders::default(),
            before: INITIAL,
            turned: now,
            counted: now,
            count: EACH,
        }
    }

    /// Bytes that may be in flight.
    pub(super) fn window(&self) -> u64 {
        match self.mode {
            Mode::Delay | Mode::Check => self.copa.window(),
            Mode::Competition => self.crowd.window(),
        }
    }

    /// The pacing rate: `window / standing RTT`. `None` before the first round-trip time.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.path.srtt()?;
        let standing = nanos(self.path.standing()).max(1);
        let bps = u128::from(self.window()) * 8_000_000_000 / u128::from(standing);
        Some(Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
    }

    pub(super) const fn srtt(&self) -> Option<Duration> {
        self.path.srtt()
    }

    #[cfg(test)]
    pub(super) const fn mode(&self) -> Mode {
        self.mode
    }

    /// A user packet of `bytes` departs.
    pub(super) fn on_sent(&mut self, key: &FlowKey, bytes: u64) {
        self.senders.sends(key, bytes);
    }

    /// A boundary was acknowledged.
    pub(super) fn on_progress(&mut self, now: Time, it: &Progress) {
        let memory = if self.mode == Mode::Delay { MEMORY } else { LONG_MEMORY };
        self.path.on_boundary(now, it.rtt, it.arrived, memory);
        self.look_for_others(now);
        let srtt = self.path.srtt().unwrap_or_default();
        match self.mode {
            Mode::Delay => {
                let acknowledged = Acknowledged { rtt: it.rtt, bytes: it.bytes, full: it.full };
                self.copa.on_boundary(now, &acknowledged, &self.path);
            }
            Mode::Competition | Mode::Check => {
                let may_grow = it.full && self.mode == Mode::Competition;
                let (bytes, missing) = (it.bytes, it.missing);
                self.crowd.on_boundary(now, &Round { bytes, missing, srtt, may_grow });
            }
        }
        self.count_senders(now, srtt);
    }

    /// Counts the senders, at most once per `max(4 RTT, 500 ms)`.
    fn count_senders(&mut self, now: Time, srtt: Duration) {
        if now.since(self.counted) < (4 * srtt).max(COUNTED) {
            return;
        }
        (self.counted, self.count) = (now, EACH * self.senders.count());
        if self.mode == Mode::Competition {
            self.crowd.follow(self.count);
        }
    }

    /// Detects cross traffic, and changes the mode.
    fn look_for_others(&mut self, now: Time) {
        let srtt = self.path.srtt().unwrap_or_default();
        if self.path.is_empty() {
            if self.mode != Mode::Delay {
                self.copa = Law::resumed(now, PACKETS, &self.path, self.window());
                self.turn(now, Mode::Delay);
            }
            self.before = self.copa.window();
            return;
        }
        match self.mode {
            Mode::Delay if self.path.filled_for(now) >= (5 * srtt).max(PATIENCE) => {
                // Half of the rate before the cross traffic arrived, at the present round-trip
                // time.
                self.crowd.begin(self.count, self.path.lengthened(self.before) / 2);
                self.turn(now, Mode::Competition);
            }
            Mode::Competition if now.since(self.turned) >= CHECKED * srtt => {
                self.copa = Law::resumed(now, PACKETS, &self.path, self.crowd.window());
                self.turn(now, Mode::Check);
            }
            Mode::Check if now.since(self.turned) >= 2 * srtt => self.turn(now, Mode::Competition),
            _ => {}
        }
    }

    fn turn(&mut self, now: Time, mode: Mode) {
        (self.turned, self.mode) = (now, mode);
    }

    /// A timeout without feedback: starts again from a small window. Measured delays are kept.
    /// `gone`: the peer is considered dead.
    pub(super) fn on_silence(&mut self, now: Time, gone: bool) {
        let window = if gone { PACKET } else { LEAST };
        self.copa = Law::new(now, PACKETS, window, true);
        self.turn(now, Mode::Delay);
    }
}

/// Copa aims at two packets in the queue.
const PACKETS: Packets = Packets { bytes: PACKET, wait: 2 };

/// Memory of the least round-trip time in the mode `Delay`, and in the other modes.
const MEMORY: Duration = Duration::from_secs(10);
const LONG_MEMORY: Duration = Duration::from_secs(300);

/// Virtual connections for each sender. Two leave most of the limit to the senders themselves.
const EACH: u64 = 2;

/// A queue that stays filled for this long has cross traffic.
const PATIENCE: Duration = Duration::from_secs(2);

/// Round trips of competition between two checks.
const CHECKED: u32 = 30;

/// Least time between two counts of senders.
const COUNTED: Duration = Duration::from_millis(500);
