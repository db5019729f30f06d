//! Held ACKs of a connection whose ports a SYN claims for a new one.
//!
//! Source: RFC 5961, section 4: a SYN proves nothing, as anybody can send one. So it only stops the ACKs;
//! the answer decides what becomes of them.

use std::time::Duration;

use super::super::record::Kind;
use super::Holds;
use crate::packet::Member;
use crate::{Cx, Time};

/// If nobody answers the SYN, the old connection goes on after this.
///
/// Source: RFC 6298, section 2: the SYN is sent again after a second, and stops the ACKs again.
const UNANSWERED: Duration = Duration::from_secs(1);

impl Holds {
    /// A SYN claims the ports of `member`: its held ACKs do not depart for [`UNANSWERED`].
    pub(in crate::ack) fn stop(&mut self, now: Time, member: Member) {
        if self.releasable(member) > 0 {
            self.flow(member).set_stopped(true);
            self.stops.set(member.0, now + UNANSWERED);
        }
    }

    /// The old connection still exists: its held ACKs may depart again.
    pub(in crate::ack) fn resume(&mut self, member: Member) {
        if self.stops.cancel(member.0) {
            self.flow(member).set_stopped(false);
        }
    }

    /// A member whose SYN nobody answered in time: its held ACKs may depart again.
    pub(in crate::ack) fn unanswered(&mut self, now: Time) -> Option<Member> {
        let member = Member(self.stops.pop(now)?);
        self.flow(member).set_stopped(false);
        Some(member)
    }

    /// The time at which [`unanswered`](Self::unanswered) has one.
    pub(in crate::ack) fn next_unanswered(&self) -> Option<Time> {
        self.stops.next_deadline()
    }

    /// The old connection of `member` is gone: drops its held ACKs.
    pub(in crate::ack) fn discard(&mut self, cx: &mut Cx<'_>, member: Member) {
        while self.held(member) > 0 {
            let first = self.flow(member).first;
            let record = *self.records.get(first);
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
