//! How much of the aggregate may be in flight: by the delay that it adds, or, where others fill the
//! queue, as many TCP connections would have.
//!
//! Source: Copa (NSDI 2018), section 2.2, for the two modes and the queue that others do not let run empty;
//! doi 10.1145/3447786.3456260 (Bundler) for what follows from it.
//! Differs: a queue that others fill is one that was not nearly empty for two seconds, not five round trips only, for short
//! transfers of others fill it as long as that. As a window that keeps its own queue from emptying would compete
//! with itself, now and then all that is its own is taken out of the queue: if that then runs empty, nobody else fills
//! it. Meanwhile the least round-trip time is remembered for longer: others let it not be seen.

use std::time::Duration;

use super::PACKET;
use super::crowd::{Crowd, Round};
use super::senders::Senders;
use super::{INITIAL, LEAST};
use crate::packet::FlowKey;
use crate::random::Random;
use crate::tcp::congestion::copa::{Acknowledged, Arrived, Law, Packets, Path, nanos};
use crate::{Rate, Time};

/// What was acknowledged.
pub(super) struct Progress {
    /// Round-trip time of the boundary.
    pub(super) rtt: Duration,
    /// Bytes since the one before.
    pub(super) bytes: u64,
    /// Of these, how many did not arrive; less than zero is what came late.
    pub(super) missing: i64,
    /// What arrived since the one before, if that is known.
    pub(super) arrived: Option<Arrived>,
    /// Whether as much was under way as the window allowed.
    pub(super) full: bool,
}

/// How it looks at the queue of the path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mode {
    /// Nobody else fills it: it is kept almost empty.
    Delay,
    /// Somebody does: as much is taken as so many TCP connections would.
    Competition,
    /// It is looked whether somebody does: nothing of its own is in it.
    Check,
}

/// The window of the aggregate, in either mode.
pub(super) struct Control {
    mode: Mode,
    path: Path,
    copa: Law,
    crowd: Crowd,
    senders: Senders,
    /// What the window was when the queue was nearly empty last.
    before: u64,
    /// When the mode changed, and when senders were last counted.
    turned: Time,
    counted: Time,
    /// Virtual connections that stand for them.
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

    /// The rate at which they leave; `None` before a round-trip time is known.
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

    /// A user packet of so many bytes leaves.
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

    /// Once in a while: how many senders there are.
    fn count_senders(&mut self, now: Time, srtt: Duration) {
        if now.since(self.counted) < (4 * srtt).max(COUNTED) {
            return;
        }
        (self.counted, self.count) = (now, EACH * self.senders.count());
        if self.mode == Mode::Competition {
            self.crowd.follow(self.count);
        }
    }

    /// Whether others fill the queue.
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
                // Half of the rate that it had before they came.
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

    /// Nothing was heard for too long: as from the beginning, but what delays there are is still known.
    pub(super) fn on_silence(&mut self, now: Time, gone: bool) {
        let window = if gone { PACKET } else { LEAST };
        self.copa = Law::new(now, PACKETS, window, true);
        self.turn(now, Mode::Delay);
    }
}

/// Two are meant to wait.
const PACKETS: Packets = Packets { bytes: PACKET, wait: 2 };

/// How long the least round-trip time is remembered; and while others fill the queue.
const MEMORY: Duration = Duration::from_secs(10);
const LONG_MEMORY: Duration = Duration::from_secs(300);

/// Virtual connections for each sender: so many that it is mostly the senders themselves that decide.
const EACH: u64 = 2;

/// How long a queue is not nearly empty that others fill.
const PATIENCE: Duration = Duration::from_secs(2);

/// Round trips of competition from one check whether there is any to the next.
const CHECKED: u32 = 30;

/// How often senders are counted, at most.
const COUNTED: Duration = Duration::from_millis(500);
