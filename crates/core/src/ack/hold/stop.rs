//! Held ACKs of a connection while a SYN claims its ports for a new connection.
//!
//! This file contains methods of `Holds`, whose fields are in `hold.rs`.
//!
//! A SYN proves nothing, as any host can send one. So the SYN only stops the ACKs, and its answer decides
//! whether they depart or are dropped.
//!
//! Source: RFC 5961, section 4.

use super::super::constants::FIRST_RTO;
use super::super::record::Kind;
use super::Holds;
use crate::packet::FlowIndex;
use crate::{Cx, Time};

impl<const FOR_DATA: bool> Holds<FOR_DATA> {
    /// Stops the held ACKs of `member` for [`FIRST_RTO`], because a SYN claims its ports.
    pub(in crate::ack) fn stop(&mut self, now: Time, member: FlowIndex) {
        if self.releasable(member) > 0 {
            self.flow(member).set_stopped(true);
            self.stops.set(member.0, now + FIRST_RTO);
        }
    }

    /// Lets the held ACKs of `member` depart again, because the old connection still exists.
    pub(in crate::ack) fn resume(&mut self, member: FlowIndex) {
        if self.stops.cancel(member.0) {
            self.flow(member).set_stopped(false);
        }
    }

    /// Returns a member whose SYN remained unanswered for [`FIRST_RTO`]. Its held ACKs may depart again.
    pub(in crate::ack) fn unanswered(&mut self, now: Time) -> Option<FlowIndex> {
        let member = FlowIndex(self.stops.pop(now)?);
        self.flow(member).set_stopped(false);
        Some(member)
    }

    /// Time at which [`unanswered`](Self::unanswered) next returns a member.
    pub(in crate::ack) fn next_unanswered(&self) -> Option<Time> {
        self.stops.next_deadline()
    }

    /// Drops the held ACKs of `member`, because the old connection has ended.
    pub(in crate::ack) fn discard(&mut self, cx: &mut Cx<'_>, member: FlowIndex) {
        while self.held(member) > 0 {
            let record = *self.records.get(self.oldest(&self.flows[member.index()]));
            self.unlink(cx, member, &record);
            if !record.kind().any(Kind::PACKET) {
                continue;
            }
            self.counts.packets -= 1;
            self.counts.absorbed += 1;
            if let Some(packet) = cx.pool.take_back(record.number) {
                cx.pool.release(packet);
            }
        }
    }
}
