//! Reports of the control traffic of the link.

use crate::packet::Direction;
use crate::qdisc::Backlog;
use crate::{Count, Rate, report};

report! {
    /// State of the control traffic of a link in one direction.
    #[derive(Copy, Eq)]
    pub ControlReport {
        /// The rate that the link reserves for control traffic.
        allowance as "allowance_bps": Rate;
        /// Packets that departed, and the bytes that the link was charged for them.
        sent: Count => {
            counter "tidegate_control_sent_bytes_total" of bytes
                "Bytes of control traffic sent, as charged on the link.",
        };
        /// Bytes of control traffic sent beyond its allowance.
        borrowed_bytes: u64 => { counter "tidegate_control_borrowed_bytes_total" };
        /// Waiting packets and bytes.
        backlog as "waiting": Backlog => {
            gauge "tidegate_control_waiting_bytes" of bytes "Bytes of control traffic that wait.",
        };
        /// Packets of control traffic dropped.
        drops as "dropped_packets": u64 => { counter "tidegate_control_dropped_packets_total" };
    }
    apart {
        /// Direction of the packets.
        direction: Direction;
        /// Number of packets that arrived.
        arrived: u64;
    }
}

impl ControlReport {
    /// The state before the first packet.
    pub(crate) fn new(direction: Direction, allowance: Rate) -> Self {
        Self { direction, allowance, ..Self::default() }
    }
}
