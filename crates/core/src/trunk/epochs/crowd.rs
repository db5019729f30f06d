//! How much of the aggregate may be in flight where others fill the queue: what as many TCP connections as it has would.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler), which lets its traffic pass where others fill the queue, so that its senders
//! compete themselves; RFC 9438 (CUBIC) for what each does.
//! Differs: what waits in the tunnel queue would all go to the router at once. So a window is kept, of virtual
//! connections for each sender. A packet that is lost is one of a connection by chance, in proportion to their windows,
//! and a connection makes its window smaller once in a round trip.

use std::time::Duration;

use super::PACKET;
use crate::Time;
use crate::random::Random;
use crate::tcp::congestion::{Ack, CongestionControl, CongestionSpec, Counting, Signal, Window};

/// Packets for each connection that one boundary may tell of as lost, or as come late: a connection is made smaller
/// once in a round trip, and what was too much once must not hide what is lost later.
const ROUND: u64 = 16;

/// What was acknowledged.
pub(super) struct Round {
    /// Bytes.
    pub(super) bytes: u64,
    /// Bytes that did not arrive; less than zero is what came late.
    pub(super) missing: i64,
    /// The round-trip time, smoothed.
    pub(super) srtt: Duration,
    /// Whether windows may grow.
    pub(super) may_grow: bool,
}

/// The virtual connections.
pub(super) struct Crowd {
    connections: Vec<Connection>,
    random: Random,
    /// Bytes that are lost and were no connection's yet.
    missing: i64,
}

struct Connection {
    window: Window,
    control: Box<dyn CongestionControl>,
    /// When its window was last made smaller.
    reduced: Option<Time>,
}

impl Crowd {
    /// Nobody.
    pub(super) const fn new(random: Random) -> Self {
        Self { connections: Vec::new(), random, missing: 0 }
    }

    /// So many connections begin, with `window` bytes together.
    pub(super) fn begin(&mut self, count: u64, window: u64) {
        self.connections = (0..count).map(|_| Connection::new(window / count)).collect();
        self.missing = 0;
    }

    /// Bytes that all of them may have in flight.
    pub(super) fn window(&self) -> u64 {
        self.connections.iter().map(|it| it.window.congestion).sum()
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.connections.len()).unwrap_or(u64::MAX)
    }

    /// One more, as large as the mean; or one less, whose window is the others'.
    pub(super) fn follow(&mut self, count: u64) {
        let (have, mean) = (self.len(), self.window() / self.len().max(1));
        if count > have {
            self.connections.push(Connection::new(mean));
        } else if count < have {
            self.connections.pop();
        }
    }

    /// Takes in what a boundary told.
    pub(super) fn on_boundary(&mut self, now: Time, it: &Round) {
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

    /// A packet of one of them is lost.
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

impl Connection {
    fn new(window: u64) -> Self {
        let spec = CongestionSpec::Cubic(Default::default());
        let floor = 2 * PACKET;
        let congestion = window.max(floor);
        let window = Window { congestion, threshold: congestion, segment: PACKET, floor };
        Self { window, control: spec.build(Counting::LINUX), reduced: None }
    }

    fn acknowledged(&mut self, now: Time, bytes: u64, it: &Round) {
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
