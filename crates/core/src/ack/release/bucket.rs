//! P1, the bucket: an ACK departs when its flow's rate has carried the data that it requests.
//!
//! Source: `postack`, R001-9: `t(k) = max(arrival(k), t(k-1)) + cost(k) / r`.

use super::paced::{Paced, takes};
use crate::ack::Queue;
use crate::ack::constants::SHORTEST_RTO;
use crate::ack::hold::Holds;
use crate::ack::shares::Shares;
use crate::ack::uncalled::Uncalled;
use crate::packet::{Fifo, FlowIndex};
use crate::{Bytes, Cx, Time};

/// Scheduled departures of the flows' oldest held ACKs.
#[derive(Default)]
pub(in crate::ack) struct Bucket(Paced);

impl Bucket {
    /// Charges `member` for an ACK of `cost` bytes that departed before its scheduled time.
    pub(in crate::ack) fn passed(
        &mut self,
        now: Time,
        member: FlowIndex,
        cost: u32,
        shares: &Shares,
    ) {
        let takes = shares.of(member).time_for(Bytes(u64::from(cost)));
        let free = self.0.free(member);
        *free = (*free).max(now) + takes;
    }

    pub(in crate::ack) fn arm(
        &mut self,
        cx: &Cx<'_>,
        member: FlowIndex,
        holds: &Holds,
        shares: &Shares,
        queue: Queue,
    ) {
        if !self.0.is_set(member) && holds.releasable(member) > 0 {
            let rate = shares.drained(member, queue, SHORTEST_RTO);
            let takes = takes(holds, cx.pool, member, rate);
            let from = (*self.0.free(member)).max(cx.now);
            self.0.set(member, from + takes);
        }
    }

    pub(in crate::ack) fn serve(
        &mut self,
        cx: &mut Cx<'_>,
        queue: Queue,
        holds: &mut Holds,
        shares: &Shares,
        uncalled: &mut Uncalled,
        out: &mut Fifo,
    ) {
        while let Some((at, member)) = self.0.due(cx.now) {
            let Some(cost) = holds.release(cx, member, out) else { continue };
            uncalled.asked(member, cost);
            *self.0.free(member) = at;
            if holds.releasable(member) > 0 {
                // The next ACK arrived before this departure, so its arrival time does not matter.
                let rate = shares.drained(member, queue, SHORTEST_RTO);
                self.0.set(member, at + takes(holds, cx.pool, member, rate));
            }
        }
    }

    pub(in crate::ack) fn ready_at(&self) -> Option<Time> {
        self.0.next()
    }

    pub(in crate::ack) fn forget(&mut self, member: FlowIndex) {
        self.0.forget(member);
    }
}
