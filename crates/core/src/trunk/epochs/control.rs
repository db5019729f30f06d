//! The congestion window of all user packets of a trunk together. It is updated with each
//! *congestion ACK*, the answer of the receiving gateway to a selected user packet, a *boundary*.
//! Three modes set the window:
//!
//! - `Delay`: the congestion control Copa keeps the queue of the path almost empty.
//! - `Competition`: cross traffic fills the queue, because it has not been nearly empty for `max(5 RTT, 2 s)`. Virtual
//!   CUBIC connections set the window ([`virtual_flows`](super::virtual_flows)).
//! - `Check`: after 30 round trips of `Competition`, the window is reduced for two round trips. It
//!   then holds only the bytes that the path carries without a queue. If the queue runs empty, the
//!   cross traffic has ended, and the mode is `Delay` again. Otherwise `Competition` continues.
//!
//! Source: Copa (NSDI 2018), section 2.2 (modes); doi 10.1145/3447786.3456260 (Bundler).
//! Differs:
//! - Copa assumes cross traffic after five round trips. But a short transfer of another user can fill a queue for two
//!   seconds.
//! - Copa has no mode `Check`. Without it, a trunk whose own packets fill the queue would compete with itself for ever.
//! - In `Competition`, the least round-trip time is remembered for 300 s, not 10 s. Cross traffic keeps the queue full,
//!   so the round-trip time of an empty queue cannot be measured.

use std::time::Duration;

use super::PACKET;
use super::senders::Senders;
use super::virtual_flows::{VirtualFeedback, VirtualFlows};
use super::{INITIAL, LEAST};
use crate::packet::FlowKey;
use crate::random::Random;
use crate::tcp::congestion::copa::{Acknowledged, Arrived, Law, Packets, Path};
use crate::time::nanos;
use crate::{Rate, Time};

/// Measurements from the congestion ACK of a boundary.
pub(super) struct BoundaryMeasurement {
    /// Time from the departure of the boundary to its congestion ACK.
    pub(super) rtt: Duration,
    /// Bytes sent between the previous acknowledged boundary and this one.
    pub(super) bytes: u64,
    /// Part of `bytes` that did not arrive. Negative if packets from before the previous boundary
    /// arrived late.
    pub(super) missing: i64,
    /// Bytes and time between the arrivals of both boundaries at the receiver. `None` if unknown.
    pub(super) arrived: Option<Arrived>,
    /// `true` if the window was full when the boundary departed.
    pub(super) full: bool,
}

/// Mode of the congestion control: see the header of this file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CopaMode {
    /// No cross traffic fills the queue of the path. Copa keeps the queue almost empty.
    Delay,
    /// Cross traffic fills the queue. The window is the sum of the windows of the virtual connections.
    Competition,
    /// The window is reduced for two round trips, to check whether cross traffic still fills the queue.
    Check,
}

/// The congestion window of a trunk, and the state of all modes.
pub(super) struct AggregateWindow {
    mode: CopaMode,
    path: Path,
    copa: Law,
    ensemble: VirtualFlows,
    senders: Senders,
    /// The window of Copa when the queue of the path was last nearly empty.
    before: u64,
    /// Time of the last change of the mode.
    changed: Time,
    /// Time of the last estimate of the number of senders.
    counted: Time,
    /// Number of virtual connections: [`EACH`] for each estimated sender.
    count: u64,
}

impl AggregateWindow {
    pub(super) fn new(now: Time, random: Random) -> Self {
        Self {
            mode: CopaMode::Delay,
            path: Path::default(),
            copa: Law::new(now, PACKETS, INITIAL, true),
            ensemble: VirtualFlows::new(random),
            senders: Senders::default(),
            before: INITIAL,
            changed: now,
            counted: now,
            count: EACH,
        }
    }

    /// Bytes that may be in flight.
    pub(super) fn window(&self) -> u64 {
        match self.mode {
            CopaMode::Delay | CopaMode::Check => self.copa.window(),
            CopaMode::Competition => self.ensemble.window(),
        }
    }

    /// The pacing rate: `window / RTT`, with the standing round-trip time of Copa (the least one of the last half
    /// round trip). `None` before the first measurement.
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
    pub(super) const fn mode(&self) -> CopaMode {
        self.mode
    }

    /// A user packet of `bytes` departs.
    pub(super) fn on_sent(&mut self, key: &FlowKey, bytes: u64) {
        self.senders.sends(key, bytes);
    }

    /// Updates the window with the congestion ACK of a boundary.
    pub(super) fn on_progress(&mut self, now: Time, it: &BoundaryMeasurement) {
        let memory = if self.mode == CopaMode::Delay { MEMORY } else { LONG_MEMORY };
        self.path.on_boundary(now, it.rtt, it.arrived, memory);
        self.look_for_others(now);
        let srtt = self.path.srtt().unwrap_or_default();
        match self.mode {
            CopaMode::Delay => {
                let acknowledged = Acknowledged { rtt: it.rtt, bytes: it.bytes, full: it.full };
                self.copa.on_boundary(now, &acknowledged, &self.path);
            }
            CopaMode::Competition | CopaMode::Check => {
                let may_grow = it.full && self.mode == CopaMode::Competition;
                let (bytes, missing) = (it.bytes, it.missing);
                self.ensemble.on_boundary(now, &VirtualFeedback { bytes, missing, srtt, may_grow });
            }
        }
        self.count_senders(now, srtt);
    }

    /// Estimates the number of senders, once per `max(4 RTT, 500 ms)`.
    fn count_senders(&mut self, now: Time, srtt: Duration) {
        if now.since(self.counted) < (4 * srtt).max(COUNTED) {
            return;
        }
        (self.counted, self.count) = (now, EACH * self.senders.count());
        if self.mode == CopaMode::Competition {
            self.ensemble.follow(self.count);
        }
    }

    /// Changes the mode if cross traffic has begun or ended, or if a check is due.
    fn look_for_others(&mut self, now: Time) {
        let srtt = self.path.srtt().unwrap_or_default();
        if self.path.is_empty() {
            if self.mode != CopaMode::Delay {
                self.copa = Law::resumed(now, PACKETS, &self.path, self.window());
                self.set_mode(now, CopaMode::Delay);
            }
            self.before = self.copa.window();
            return;
        }
        match self.mode {
            CopaMode::Delay if self.path.filled_for(now) >= (5 * srtt).max(PATIENCE) => {
                // Begin with half of the rate before the cross traffic arrived. At the present
                // round-trip time, which is longer, this rate needs a larger window.
                self.ensemble.begin(self.count, self.path.lengthened(self.before) / 2);
                self.set_mode(now, CopaMode::Competition);
            }
            CopaMode::Competition if now.since(self.changed) >= CHECKED * srtt => {
                self.copa = Law::resumed(now, PACKETS, &self.path, self.ensemble.window());
                self.set_mode(now, CopaMode::Check);
            }
            CopaMode::Check if now.since(self.changed) >= 2 * srtt => {
                self.set_mode(now, CopaMode::Competition)
            }
            _ => {}
        }
    }

    fn set_mode(&mut self, now: Time, mode: CopaMode) {
        (self.changed, self.mode) = (now, mode);
    }

    /// Handles a timeout without a congestion ACK: begins again with a small window. Measured
    /// round-trip times are kept. `dead` is `true` if the other gateway is considered dead.
    pub(super) fn on_silence(&mut self, now: Time, dead: bool) {
        let window = if dead { PACKET } else { LEAST };
        self.copa = Law::new(now, PACKETS, window, true);
        self.set_mode(now, CopaMode::Delay);
    }
}

/// Copa keeps about two packets in the queue of the path.
const PACKETS: Packets = Packets { bytes: PACKET, wait: 2 };

/// Time for which the least round-trip time is remembered in the mode `Delay`.
const MEMORY: Duration = Duration::from_secs(10);

/// Time for which the least round-trip time is remembered in the other modes.
const LONG_MEMORY: Duration = Duration::from_secs(300);

/// Virtual connections for each sender. With two, the window of the trunk is mostly larger than the senders need, so
/// that their own congestion control is the limit.
const EACH: u64 = 2;

/// Cross traffic is assumed when the queue has been filled for this long.
const PATIENCE: Duration = Duration::from_secs(2);

/// Round trips in the mode `Competition` before each check.
const CHECKED: u32 = 30;

/// Least time between two estimates of the number of senders.
const COUNTED: Duration = Duration::from_millis(500);
