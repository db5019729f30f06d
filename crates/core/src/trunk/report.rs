//! Counters and state of a trunk, for reports. A trunk carries user packets between two gateways,
//! and finds its rate with *management packets*: TCP headers without payload.

use std::time::Duration;

use crate::itcp;
use crate::qdisc::Backlog;

/// Report of a trunk.
#[derive(Clone, Debug)]
pub struct TrunkReport {
    /// Name of the trunk.
    pub name: String,
    /// Counters of packets and bytes since the start.
    pub counts: TrunkCounters,
    /// Backlog of the tunnel queue.
    pub backlog: Backlog,
    /// State of the congestion control.
    pub state: TrunkState,
    /// Report of the rate adjuster that sets the weight. `None` for a trunk without a weight.
    pub weight: Option<itcp::AdjusterReport>,
}

/// State of the congestion control of a trunk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TrunkState {
    /// Congestion window: management packets that may be in flight. With [`Epochs`](super::Probing::Epochs): user
    /// bytes that may be in flight, divided by 1500.
    pub window: u64,
    /// Mean of the smoothed round-trip times of the management connections. `None` before the first ACK.
    pub rtt: Option<Duration>,
    /// User bytes that may be sent now. Negative if the last user packets were longer than the credit. With epochs: the
    /// window minus the user bytes in flight.
    pub credit: i64,
    /// Management connections that have had two timeouts in a row without an ACK.
    pub silent: usize,
    /// Management connections in use. A trunk with a weight uses `round(weight)` of them, other trunks use all.
    pub active: u16,
}

/// Counters of a trunk at one gateway.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TrunkCounters {
    /// Management packets sent.
    pub management: u64,
    /// Management packets that were retransmissions.
    pub again: u64,
    /// Bytes of user packets sent for credit, from the IP header on.
    pub elastic: u64,
    /// Bytes of user packets sent for the guarantee, from the IP header on.
    pub guaranteed: u64,
    /// Bytes of user packets that bypassed the trunk because the other gateway was considered dead.
    pub past: u64,
    /// With epochs: bytes of user packets that did not reach the other gateway in time, by its reports. The counter
    /// does not decrease if such a packet arrives late.
    pub missing: u64,
    /// Packets that the trunk created: management packets, handshakes and ACKs.
    pub made: u64,
    /// Packets of the other gateway that ended here: management packets, handshakes and ACKs.
    pub absorbed: u64,
}

impl TrunkCounters {
    /// The increase of each counter since `before`, an earlier reading.
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
