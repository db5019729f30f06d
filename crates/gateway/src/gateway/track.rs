//! Tracks TCP: the headers of a packet update the state of its flow. An ACK may let the aggregate of the data that it
//! acknowledges send at once.
//!
//! This file contains methods of `Gateway`, whose fields are in `gateway.rs`.

use tidegate_core::allocation::Share;
use tidegate_core::flow::{AckKind, Arrival, Claiming, Handle, Rtt};
use tidegate_core::packet::{Direction, FlowId};
use tidegate_core::{Bytes, PacketId, Time};

use super::Gateway;
use crate::aggregate::Trigger;

impl Gateway {
    /// Updates the flow `flow_id` from the headers of its packet `id`. Triggers the aggregates that may send
    /// because of the packet.
    pub(super) fn track(
        &mut self,
        now: Time,
        direction: Direction,
        flow_id: FlowId,
        id: &PacketId,
    ) {
        let (packet, flow) = (&mut self.pool[id], self.sorter.flow_mut(flow_id));
        let arrival = flow.on_arrival(now, packet, direction);
        if packet.tcp.is_none() {
            return;
        }
        let handles = Direction::BOTH.map(|way| flow.handle(way));
        let rtt = arrival.rtt.then(|| flow.rtt());
        if arrival.connection || arrival.claiming != Claiming::No {
            self.begin_again(now, handles, arrival);
        }
        if let Some(rtt) = rtt {
            self.learned(now, handles, rtt);
        }
        self.trigger_by(now, direction, handles, arrival);
    }

    /// Notifies the aggregates of a flow of its round-trip time.
    fn learned(&mut self, now: Time, handles: [Handle; 2], rtt: Rtt) {
        for handle in handles {
            if let Some(aggregate) = self.aggregates.meant(handle) {
                let weight = aggregate.share(handle.flow_index).weight;
                aggregate.update(now, handle.flow_index, Share { weight, rtt: rtt.end_to_end() });
            }
        }
    }

    fn trigger_by(
        &mut self,
        now: Time,
        direction: Direction,
        handles: [Handle; 2],
        arrival: Arrival,
    ) {
        if arrival.connection {
            self.trigger(now, handles[direction.index()].aggregate, Trigger::Connection);
        }
        let (with_data, without) = match arrival.ack {
            AckKind::OpensWindow => (Trigger::Ack, Trigger::IdleAck),
            AckKind::Duplicate => (Trigger::DuplicateAck, Trigger::DuplicateAck),
            AckKind::Other => return,
        };
        let acknowledged = handles[direction.reverse().index()];
        let Some(aggregate) = self.aggregates.meant(acknowledged) else { return };
        let has_data = aggregate.waiting(acknowledged.flow_index) > Bytes::ZERO;
        let why = if has_data { with_data } else { without };
        self.trigger(now, acknowledged.aggregate, why);
    }
}
