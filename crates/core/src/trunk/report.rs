//! Counters and state of a trunk, for reports.

use std::time::Duration;

use crate::itcp;
use crate::qdisc::Backlog;

/// Report of a trunk.
#[derive(Clone, Debug)]
pub struct TrunkReport {
    /// Its name.
    pub name: String,
    /// Packets and bytes sent, made and received.
    pub counts: TrunkCounters,
    /// Backlog of the tunnel queue.
    pub backlog: Backlog,
    /// State of its congestion control.
    pub state: TrunkState,
    /// The weight, the last round of its adjuster, and the decisions. `None` for a trunk without a weight.
    pub weight: Option<itcp::AdjusterReport>,
}

/// State of the congestion control of a trunk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TrunkState {
    /// Management packets that may be in flight. With epochs, the window in units of 1500 bytes.
    pub window: u64,
    /// Mean of the smoothed round-trip times of its connections. `None` before the first answer.
    pub rtt: Option<Duration>,
    /// User bytes that may be sent. Negative credit is borrowed. With epochs, the window minus the bytes sent
    /// since the last acknowledged boundary.
    pub credit: i64,
    /// Management connections whose last two timeouts in a row brought no answer.
    pub silent: usize,
    /// Connections that ask for credit now: all, or `round(weight)` of them.
    pub active: u16,
}

/// Counters of a trunk, at one end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TrunkCounters {
    /// Management packets sent.
    pub management: u64,
    /// Retransmissions among them.
    pub again: u64,
    /// Bytes of user packets sent for credit, from the IP header on.
    pub elastic: u64,
    /// Bytes of user packets sent for the guarantee, from the IP header on.
    pub guaranteed: u64,
    /// Bytes of user packets that bypassed the trunk because the other end was considered dead.
    pub past: u64,
    /// With epochs, bytes of user packets that did not arrive, as reported by the other end. Packets that arrive late
    /// are not subtracted.
    pub missing: u64,
    /// Packets made: management packets, handshakes and ACKs.
    pub made: u64,
    /// Packets terminated here.
    pub absorbed: u64,
}

impl TrunkCounters {
    /// The difference between these counters and `before`, an earlier state of them.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            management: self.management - before.management,
            again: self.again - before.again,
            elastic: self.elastic - before.elastic,
            guaranteed: self.guaranteed - before.guaranteed,
            past: self.past - before.past,
            missing: self.missing - before.missing,
            made: self.made - before.made,
            absorbed: self.absorbed - before.absorbed,
        }
    }
}

impl std::ops::Add for TrunkCounters {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            management: self.management + more.management,
            again: self.again + more.again,
            elastic: self.elastic + more.elastic,
            guaranteed: self.guaranteed + more.guaranteed,
            past: self.past + more.past,
            missing: self.missing + more.missing,
            made: self.made + more.made,
            absorbed: self.absorbed + more.absorbed,
        }
    }
}

impl std::ops::AddAssign for TrunkCounters {
    fn add_assign(&mut self, more: Self) {
        *self = *self + more;
    }
}
