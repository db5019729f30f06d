//! Counters and state of a trunk, for reports. A trunk carries user packets between two gateways,
//! and finds its rate with *management packets*: TCP headers without payload.

use std::time::Duration;

use crate::itcp;
use crate::qdisc::Backlog;
use crate::report;
use crate::reports::ReportValue;

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

report! {
    /// Counters of a trunk at one gateway.
    #[derive(Copy, Eq)]
    pub TrunkCounters, counted {
        /// Management packets sent.
        management as "management_packets": u64 => {
            counter "tidegate_trunk_management_packets_total",
        };
        /// Management packets sent again, because one was lost.
        again as "lost_packets": u64 => { counter "tidegate_trunk_lost_packets_total" };
        /// Bytes of user packets sent for credit, from the IP header on.
        elastic as "elastic_bytes": u64 => {
            counter "tidegate_trunk_sent_bytes_total"
                "User bytes sent, from the IP header on: paid by credit, by the guarantee, or sent without the trunk."
                = |it| it.sent(),
        };
        /// Bytes of user packets sent for the guarantee, from the IP header on.
        guaranteed as "guaranteed_bytes": u64;
        /// Bytes of user packets that bypassed the trunk because the other gateway was considered
        /// dead.
        past as "past_bytes": u64;
    }
    apart {
        /// With epochs: bytes of user packets that did not reach the other gateway in time, by its
        /// reports. The counter does not decrease if such a packet arrives late.
        missing: u64;
        /// Packets that the trunk created: management packets, handshakes and ACKs.
        made: u64;
        /// Packets of the other gateway that ended here: management packets, handshakes and ACKs.
        absorbed: u64;
    }
}

impl TrunkCounters {
    /// Bytes of all user packets that were sent.
    #[must_use]
    pub const fn sent_bytes(&self) -> u64 {
        self.elastic + self.guaranteed + self.past
    }

    /// The bytes of [`sent_bytes`](Self::sent_bytes), by the reason for which they were sent.
    fn sent(&self) -> ReportValue {
        let all = [("credit", self.elastic), ("guarantee", self.guaranteed), ("past", self.past)];
        ReportValue::Each("by", all.map(|(by, bytes)| (by.to_owned(), bytes)).into())
    }
}
