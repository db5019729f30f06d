//! Release rules: when the next held ACK departs.
//!
//! | Rule | An ACK departs | File |
//! |---|---|---|
//! | gate (P3) | while backlog plus outstanding credit is below the target | `gate.rs` |
//! | bucket (P1) | when its flow's rate has carried the data that it requests | `bucket.rs` |
//! | virtual queue (P2) | when its data would have departed from a queue of its flow | `virtual_queue.rs` |
//! | paced (TCR) | when its flow's rate has carried the data of the ACK before | `paced.rs` |
//!
//! Source: `postack`, R001-4 (paced) and R001-9 (the others).

mod bucket;
mod credit;
mod gate;
mod paced;
mod virtual_queue;

pub(super) use bucket::Bucket;
pub(super) use gate::{Gate, lasts, lasts_us, micros, quantum};
pub(super) use paced::{Bound, Paced};
pub(super) use virtual_queue::VirtualQueue;

use crate::Time;
use crate::packet::FlowIndex;

/// A release rule of PostACK and its state.
pub(super) enum Rule {
    Gate(Gate),
    Bucket(Bucket),
    VirtualQueue(VirtualQueue),
}

impl Rule {
    /// Lets the outstanding credit get older until `now`, before the next use of the rule.
    pub(super) fn advance(&mut self, now: Time) {
        if let Self::Gate(gate) = self {
            gate.advance(now);
        }
    }

    /// Lets ACKs of `member` that were stopped depart again.
    pub(super) fn go_on(&mut self, now: Time, member: FlowIndex) {
        if let Self::VirtualQueue(queue) = self {
            queue.go_on(now, member);
        }
    }
}
