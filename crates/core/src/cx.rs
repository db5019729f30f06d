//! The context of every call to a mechanism: the time, the packets and the counters. A mechanism is
//! a state machine such as a queue or a link, which has no I/O and no clock.

mod count;
mod count_by;

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use count::Count;
pub use count_by::{CountBy, Countable};

use crate::countable;
use crate::packet::Controlled;
use crate::reports::{Quantify, ReportValue, Told};
use crate::{PacketId, PacketPool, Time};

/// The time, the packets and the counters, lent to a mechanism for one call.
///
/// A mechanism has no other access to its environment, so a simulation of it is deterministic.
///
/// ```
/// use tidegate_core::packet::Ecn;
/// use tidegate_core::{Cx, Packet, PacketPool, Reason, Tally, Time};
///
/// let (mut pool, mut tally) = (PacketPool::with_capacity(2), Tally::default());
/// let capable = pool.insert(Packet { ecn: Ecn::Ect0, ..Packet::default() }).unwrap();
/// let other = pool.insert(Packet::default()).unwrap();
/// let mut cx = Cx { now: Time::ZERO, pool: &mut pool, tally: &mut tally };
/// // Only an ECN-capable packet can be marked. A queue drops the other packet.
/// assert!(cx.mark(&capable, Reason::Aqm));
/// assert!(!cx.mark(&other, Reason::Aqm));
/// cx.drop(other, Reason::Aqm);
/// assert_eq!((tally.marks.total(), tally.drops.of(Reason::Aqm)), (1, 1));
/// # pool.release(capable);
/// ```
#[derive(Debug)]
pub struct Cx<'a> {
    /// Current time.
    pub now: Time,
    /// All packets of the run.
    pub pool: &'a mut PacketPool,
    /// Counters of drops and marks.
    pub tally: &'a mut Tally,
}

countable! {
    /// The reason for dropping a packet, or for marking it "congestion experienced" instead.
    pub enum Reason, counts ByReason {
        /// The queue is full.
        QueueFull = "queue-full",
        /// The flow already has as many waiting packets as one flow may have.
        FlowFull = "flow-full",
        /// Active queue management: the queue grows too long, and a drop or mark signals a sender
        /// before the queue is full.
        Aqm = "aqm",
        /// The marking predictor expects the queue to overflow, and signals a sender in advance.
        /// Packets that are not ECN-capable are dropped (RFC 3168, section 5).
        Predicted = "predicted",
        /// The marking predictor expects the queue to overflow although all responsive senders have
        /// been signalled. The sender of this packet does not respond to marks.
        Unmarkable = "unmarkable",
        /// The packet is out of profile, and the policy drops such packets.
        OutOfProfile = "out-of-profile",
        /// The packet is longer than the `max_packet` of a policy that shapes.
        OverMaxPacket = "over-max-packet",
        /// The packet was lost at random on an emulated link.
        LinkLoss = "link-loss",
        /// No port leads to the packet's destination.
        NoRoute = "no-route",
        /// The packet stayed in a port's ring while the driver hung, and is now too old to send.
        Stale = "stale",
        /// The packet is longer than the egress port can send.
        TooLong = "too-long",
        /// All packet buffers were in use. Or the packet would have had to wait, while the last
        /// buffers were reserved for packets that depart at once.
        NoBuffer = "no-buffer",
        /// The egress port refused the packet.
        Refused = "refused",
        /// A component that held the packet was shut down, and no successor took the packet over.
        ShutDown = "shut-down",
        /// A later ACK of the same flow supersedes this ACK, which carries no data. Such a drop is
        /// not a loss.
        RedundantAck = "redundant-ack",
    }
}

/// Numbers of dropped and marked packets, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Packets dropped.
    pub drops: ByReason,
    /// Packets marked "congestion experienced", which are forwarded.
    pub marks: ByReason,
    /// Dropped packets of ACK-controlled flows.
    pub controlled: Controlled,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.drops += more.drops;
        self.marks += more.marks;
        self.controlled += more.controlled;
    }
}

impl ByReason {
    /// Number of lost packets: all drops except redundant ACKs, whose information a later ACK
    /// repeats.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.total() - self.of(Reason::RedundantAck)
    }

    /// The counts above zero, by name. Redundant ACKs are no losses and are absent.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let shown = |(reason, count): &(Reason, u64)| *count > 0 && *reason != Reason::RedundantAck;
        self.iter().filter(shown).map(|(reason, count)| (reason.name(), count)).collect()
    }
}

impl Quantify for ByReason {
    fn quantity(&self) -> ReportValue {
        let counts = self.by_name().into_iter();
        ReportValue::Each("reason", counts.map(|(name, count)| (name.to_owned(), count)).collect())
    }
}

impl Told for ByReason {
    fn tell<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.by_name().serialize(to)
    }

    /// Reads the counts. Skips reasons that this version does not know.
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let counts = BTreeMap::<String, u64>::deserialize(from)?;
        let known = |name: &str| Reason::ALL.into_iter().find(|reason| reason.name() == name);
        let counts = counts.iter().filter_map(|(name, count)| Some((known(name)?, *count)));
        Ok(counts.collect())
    }
}

impl Cx<'_> {
    /// Drops `packet`: counts it under `reason`, and frees its buffer.
    pub fn drop(&mut self, packet: PacketId, reason: Reason) {
        self.tally.drops.count(reason);
        self.tally.controlled.add(&self.pool[&packet]);
        self.pool.release(packet);
    }

    /// Marks `packet` "congestion experienced" if it is ECN-capable. Counts the mark under
    /// `reason`. Returns `true` if the packet has the mark.
    pub fn mark(&mut self, packet: &PacketId, reason: Reason) -> bool {
        let marked = self.pool[packet].mark_congestion();
        if marked {
            self.tally.marks.count(reason);
        }
        marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packet;
    use crate::packet::Ecn;

    #[test]
    fn only_ecn_capable_packets_are_counted_as_marked() {
        let mut pool = PacketPool::with_capacity(2);
        let mut tally = Tally::default();
        let mut marked = |ecn| {
            let packet = pool.insert(Packet { ecn, ..Packet::default() }).unwrap();
            let mut cx = Cx { now: Time::ZERO, pool: &mut pool, tally: &mut tally };
            cx.mark(&packet, Reason::Aqm)
        };
        assert!(marked(Ecn::Ect0) && !marked(Ecn::NotEct));
        assert_eq!(
            (tally.marks.of(Reason::Aqm), tally.marks.total(), tally.drops.total()),
            (1, 1, 0)
        );
    }

    #[test]
    fn every_reason_has_its_own_count_and_name() {
        let mut drops = ByReason::default();
        Reason::ALL.iter().for_each(|reason| drops.count(*reason));
        assert!(drops.iter().all(|(_, count)| count == 1));
        let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
