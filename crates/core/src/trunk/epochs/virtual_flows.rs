//! Virtual TCP connections, which give a trunk a fair window while cross traffic fills the queue of the path.
//!
//! A virtual connection sends nothing. It is a congestion control (CUBIC) with a window, to which the trunk reports
//! acknowledged and lost bytes. Each sender of the trunk counts as two virtual connections. The window of the trunk
//! is the sum of their windows. So a trunk with ten senders competes with other traffic like twenty TCP connections.
//!
//! A lost packet is assigned to one virtual connection, chosen at random in proportion to the windows. A connection
//! reduces its window at most once per round trip.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler); RFC 9438 (CUBIC) for each connection.
//! Differs: Bundler lets all packets pass without pacing during competition, and leaves congestion control to the
//! senders. Here this would send the whole tunnel queue to the router at once.

use std::time::Duration;

use super::PACKET;
use crate::Time;
use crate::random::Random;
use crate::tcp::congestion::{Ack, CongestionControl, CongestionSpec, Counting, Signal, Window};

/// Greatest absolute value of [`VirtualFlows::missing`], in packets for each connection.
///
/// The bound holds in both directions. Many lost packets at once have no further effect, because a connection reduces its
/// window at most once per round trip. Many late packets, which are subtracted, must not hide all later losses.
const ROUND: u64 = 16;

/// Measurements from a congestion ACK: the other gateway reports that a boundary, a selected user packet, has arrived.
pub(super) struct VirtualFeedback {
    /// Bytes sent between the previous acknowledged boundary and this one.
    pub(super) bytes: u64,
    /// Part of `bytes` that did not arrive. Negative if packets from before the previous boundary
    /// arrived late.
    pub(super) missing: i64,
    /// The smoothed round-trip time.
    pub(super) srtt: Duration,
    /// `true` if windows may grow: the trunk used all of its window.
    pub(super) may_grow: bool,
}

/// The virtual connections.
pub(super) struct VirtualFlows {
    connections: Vec<VirtualFlow>,
    random: Random,
    /// Lost bytes, minus late bytes, that have not been assigned to a connection yet.
    missing: i64,
}

/// A virtual connection: a congestion control without packets.
struct VirtualFlow {
    window: Window,
    control: Box<dyn CongestionControl>,
    /// Time at which the window was last reduced.
    reduced: Option<Time>,
}

impl VirtualFlows {
    /// No connections.
    pub(super) const fn new(random: Random) -> Self {
        Self { connections: Vec::new(), random, missing: 0 }
    }

    /// Replaces all connections by `count` new ones, whose windows add up to `window` bytes.
    pub(super) fn begin(&mut self, count: u64, window: u64) {
        self.connections = (0..count).map(|_| VirtualFlow::new(window / count)).collect();
        self.missing = 0;
    }

    /// The sum of the windows, in bytes.
    pub(super) fn window(&self) -> u64 {
        self.connections.iter().map(|it| it.window.congestion).sum()
    }

    /// Number of connections.
    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.connections.len()).unwrap_or(u64::MAX)
    }

    /// Adds or removes one connection if their number is not `count`. A new connection gets the
    /// mean window. The window of a removed connection is lost.
    pub(super) fn follow(&mut self, count: u64) {
        let (have, mean) = (self.len(), self.window() / self.len().max(1));
        if count > have {
            self.connections.push(VirtualFlow::new(mean));
        } else if count < have {
            self.connections.pop();
        }
    }

    /// Updates all windows with the measurements of an acknowledged boundary.
    pub(super) fn on_boundary(&mut self, now: Time, it: &VirtualFeedback) {
        let most = 0_i64.saturating_add_unsigned(ROUND * PACKET * self.len().max(1));
        self.missing = self.missing.saturating_add(it.missing).clamp(-most, most);
        while self.missing >= 0_i64.saturating_add_unsigned(PACKET) {
            self.missing = self.missing.saturating_sub_unsigned(PACKET);
            self.lose(now, it.srtt);
        }
        let all = u128::from(self.window()).max(1);
        for connection in &mut self.connections {
            let part = u128::from(it.bytes) * u128::from(connection.window.congestion) / all;
            connection.acknowledged(now, u64::try_from(part).unwrap_or(u64::MAX), it);
        }
    }

    /// Assigns a lost packet to one connection, chosen at random in proportion to the windows.
    fn lose(&mut self, now: Time, srtt: Duration) {
        let mut at = self.random.below(self.window().max(1));
        let mut hit = self.connections.iter_mut().find(|it| {
            let within = at < it.window.congestion;
            at = at.saturating_sub(it.window.congestion);
            within
        });
        if let Some(connection) = &mut hit {
            connection.lost(now, srtt);
        }
    }
}

impl VirtualFlow {
    fn new(window: u64) -> Self {
        let spec = CongestionSpec::Cubic(Default::default());
        let floor = 2 * PACKET;
        let congestion = window.max(floor);
        let window = Window { congestion, threshold: congestion, segment: PACKET, floor };
        Self { window, control: spec.build(Counting::LINUX), reduced: None }
    }

    fn acknowledged(&mut self, now: Time, bytes: u64, it: &VirtualFeedback) {
        let recovers = self.reduced.is_some_and(|at| now.since(at) < it.srtt);
        let flight = self.window.congestion;
        let ack = Ack {
            now,
            bytes,
            flight_before: flight,
            flight,
            acknowledged: 0,
            sent: 0,
            rtt: None,
            smoothed_rtt: it.srtt,
            least_rtt: it.srtt,
            echo: false,
            marked: 0,
            may_grow: it.may_grow && !recovers,
            in_recovery: recovers,
            lost: 0,
            delivery: None,
        };
        self.control.on_ack(&mut self.window, &ack);
    }

    fn lost(&mut self, now: Time, srtt: Duration) {
        if self.reduced.is_none_or(|at| now.since(at) >= srtt) {
            let flight = self.window.congestion;
            self.control.on_signal(now, &mut self.window, flight, Signal::Loss);
            self.window.congestion = self.window.threshold;
            self.reduced = Some(now);
        }
    }
}
