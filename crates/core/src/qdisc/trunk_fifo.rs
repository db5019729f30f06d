//! A router's queue for trunks: drops management packets early, but user packets only when it is
//! full.
//!
//! A trunk is a path between two gateways. It sends one management packet for each VMSS (virtual
//! maximum segment size) of user data. The loss of a management packet makes the trunk reduce its
//! rate, so user packets need not be lost. A management packet is dropped when `threshold`
//! management packets wait. With a `limit` of [`required_buffer`](crate::trunk::required_buffer),
//! no user packet is ever lost. Management packets have the highest drop precedence of assured
//! forwarding, AFx3 (RFC 2597).
//!
//! Source: `trunking`, section 5 (`threshold` is MP_Th of equation 1).
//! Differs: the paper does not print its "simple RED-like scheme". The option `early` replaces it:
//! - The probability rises from 0, at an average of `threshold / 2`, to 1, at an average of
//!   `threshold`. ECN-capable packets are marked in place of being dropped.
//! - The average rises within about 16 arrivals, which is fast enough for slow start. It falls
//!   within about 64 arrivals, a round trip. A faster fall would favour trunks with a small VMSS:
//!   their management packets arrive while the queue grows and the average lags behind. Management
//!   packets of trunks with a large VMSS arrive while the queue shrinks.
//! - The average halves after each 100 ms without a waiting management packet. Otherwise it would
//!   stay high between the rare retransmissions of a connection.

use std::time::Duration;

use super::{Qdisc, drop_tail};
use crate::packet::{Codepoint, FlowFifo, QueueIndex};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Cx, Packet, PacketId, Rate, Reason, Time, parameters};

parameters! {
    /// Limits of the queue.
    pub Config {
        /// Most frame bytes that may wait.
        limit: Bytes = Bytes(1 << 20), in more_than(Bytes::ZERO), "nothing could wait";
        /// Most management packets that may wait. Eight per expected connection are a good value.
        threshold: u32 = 64, in 1.., "no trunk could probe";
        /// Drops or marks some management packets while more than half of `threshold` wait on
        /// average.
        early: bool = true;
    }
}

impl Config {
    pub(super) fn build(&self, rate: Option<Rate>, random: Random) -> TrunkFifo {
        let line = drop_tail::Config { limit: self.limit }.build(rate, random.clone());
        TrunkFifo {
            line,
            threshold: self.threshold,
            early: self.early,
            random,
            management: 0,
            average: 0,
            halved: Time::ZERO,
        }
    }
}

pub(super) struct TrunkFifo {
    line: drop_tail::DropTail,
    threshold: u32,
    early: bool,
    random: Random,
    /// Number of management packets in the queue.
    management: u32,
    /// Average of `management`, in units of 1 / [`SCALE`].
    average: u64,
    /// Time at which the last management packet departed, or at which the average was last halved
    /// since then.
    halved: Time,
}

const SCALE: u64 = 1 << 10;

/// Number of arrivals within which the average rises to a new level, and number of arrivals within
/// which it falls.
const RISES: u64 = 16;
const FALLS: u64 = 64;

/// Time after which the average halves while no management packet waits.
const HALVES: Duration = Duration::from_millis(100);

impl TrunkFifo {
    /// Updates the average. Returns `true` if the management packet that arrives now is to be
    /// dropped or marked.
    fn must_signal(&mut self, now: Time) -> bool {
        while self.management == 0 && self.average > 0 && now.since(self.halved) >= HALVES {
            self.average /= 2;
            self.halved += HALVES;
        }
        let waiting = u64::from(self.management) * SCALE;
        self.average += waiting.saturating_sub(self.average) / RISES;
        self.average -= self.average.saturating_sub(waiting) / FALLS;
        let all = u64::from(self.threshold) * SCALE;
        self.early && self.random.below(all) < (self.average * 2).saturating_sub(all)
    }

    fn departed(&mut self, packet: Option<PacketId>, cx: &Cx<'_>) -> Option<PacketId> {
        if packet.as_ref().is_some_and(|packet| is_management(&cx.pool[packet])) {
            self.management -= 1;
            self.halved = cx.now;
        }
        packet
    }
}

/// Returns `true` if the packet has a DS codepoint of the highest drop precedence.
///
/// Source: RFC 2597, section 6.
fn is_management(packet: &Packet) -> bool {
    Codepoint::HIGH_DROP_PRECEDENCE.iter().any(|codepoint| codepoint.number() == packet.dscp)
}

impl Qdisc for TrunkFifo {
    fn packets(&self) -> &FlowFifo {
        self.line.packets()
    }

    fn packets_mut(&mut self) -> &mut FlowFifo {
        self.line.packets_mut()
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        let management = is_management(&cx.pool[&packet]);
        if management {
            let must_signal = self.must_signal(cx.now);
            let full = self.management >= self.threshold;
            if full || (must_signal && !cx.mark(&packet, Reason::Aqm)) {
                return cx.drop(packet, Reason::Aqm);
            }
        }
        let before = self.line.backlog().packets;
        self.line.enqueue(cx, packet);
        let taken = self.line.backlog().packets > before;
        self.management += u32::from(management && taken);
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.line.dequeue(cx);
        self.departed(packet, cx)
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
        let packet = self.line.dequeue_flow(cx, member);
        self.departed(packet, cx)
    }

    fn passes(&self) -> Option<Bytes> {
        self.line.passes()
    }

    fn is_one_line(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, chance};
    use super::*;
    use crate::packet::Ecn;

    const MANAGEMENT: u8 = 14;

    fn bench(limit: u64, threshold: u32, early: bool) -> Bench<TrunkFifo> {
        let config = Config { limit: Bytes(limit), threshold, early };
        Bench::new(config.build(None, chance()))
    }

    fn enqueue(bench: &mut Bench<TrunkFifo>, dscp: u8, len: u32) {
        bench.kind.dscp = dscp;
        bench.enqueue(0, len);
    }

    /// Catches: user packets that count towards the threshold; one management packet more than the
    /// threshold; departed packets that still count.
    #[test]
    fn management_packets_are_dropped_from_the_threshold_on_and_user_packets_are_not() {
        let mut bench = bench(1_000_000, 3, false);
        for _ in 0..10 {
            enqueue(&mut bench, MANAGEMENT, 40);
            enqueue(&mut bench, 10, 1_500);
        }
        let drops = bench.tally.drops;
        assert_eq!((drops.of(Reason::Aqm), drops.total()), (7, 7));
        assert_eq!(bench.dequeue(), Some((0, 40)));
        enqueue(&mut bench, MANAGEMENT, 41);
        enqueue(&mut bench, MANAGEMENT, 42);
        assert_eq!(bench.tally.drops.total(), 8);
        assert_eq!(bench.drain().len(), 13);
        assert_eq!(bench.qdisc.management, 0);
    }

    #[test]
    fn a_user_packet_that_does_not_fit_is_counted_as_a_full_queue() {
        let mut bench = bench(3_000, 3, false);
        enqueue(&mut bench, 0, 2_000);
        enqueue(&mut bench, 0, 2_000);
        enqueue(&mut bench, MANAGEMENT, 1_500);
        assert_eq!(bench.tally.drops.of(Reason::QueueFull), 2);
        assert_eq!((bench.qdisc.management, bench.drain().len()), (0, 1));
    }

    /// Drops and marks of 2,000 management packets that arrive while `waiting` of them are queued.
    fn signals(waiting: u32, ecn: Ecn) -> (u64, u64) {
        let mut bench = bench(1_000_000, 16, true);
        bench.kind.ecn = ecn;
        for step in 0..2_100 {
            if step == 100 {
                bench.tally = Default::default();
            }
            enqueue(&mut bench, MANAGEMENT, 40);
            if bench.waiting() > waiting {
                bench.dequeue();
            }
        }
        (bench.tally.drops.of(Reason::Aqm), bench.tally.marks.of(Reason::Aqm))
    }

    /// Catches: early drops that begin at a quarter of the threshold; drops of ECN-capable packets.
    #[test]
    fn with_early_some_packets_are_dropped_from_half_of_the_threshold_on() {
        for (waiting, expected) in [(8, 0..1), (12, 900..1_100), (14, 1_400..1_600)] {
            let (dropped, marked) = signals(waiting, Ecn::NotEct);
            assert!(expected.contains(&dropped) && marked == 0, "{waiting}: {dropped}");
            let (dropped, marked) = signals(waiting, Ecn::Ect0);
            assert!(expected.contains(&marked) && dropped == 0, "{waiting}: {marked}");
        }
    }

    /// Catches: a decision by the present number of packets instead of the average.
    #[test]
    fn a_burst_into_a_short_queue_is_not_hit() {
        let mut bench = bench(1_000_000, 16, true);
        (0..100).for_each(|_| {
            enqueue(&mut bench, MANAGEMENT, 40);
            bench.dequeue();
        });
        (0..16).for_each(|_| enqueue(&mut bench, MANAGEMENT, 40));
        assert_eq!((bench.waiting(), bench.tally.drops.total()), (16, 0));
    }

    /// Catches: an average that falls as fast as it rises, so that drops are six times as frequent
    /// in the shrinking phase.
    #[test]
    fn packets_of_the_shrinking_phase_are_hit_at_most_twice_as_often_as_those_of_the_growing_phase()
    {
        let mut bench = bench(1_000_000, 48, true);
        let (mut grows, mut came, mut hit) = (true, [0.0; 2], [0.0; 2]);
        for _ in 0..200_000 {
            let before = bench.tally.drops.of(Reason::Aqm);
            let (arrive, leave) = if grows { (2, 1) } else { (1, 2) };
            (0..arrive).for_each(|_| enqueue(&mut bench, MANAGEMENT, 40));
            (0..leave).for_each(|_| _ = bench.dequeue());
            let phase = usize::from(grows);
            came[phase] += f64::from(arrive);
            hit[phase] += if bench.tally.drops.of(Reason::Aqm) > before { 1.0 } else { 0.0 };
            grows = if grows { bench.waiting() < 32 } else { bench.waiting() < 18 };
        }
        let [shrinks, grows] = [hit[0] / came[0], hit[1] / came[1]];
        assert!(grows < shrinks && shrinks < 2.0 * grows, "{grows} {shrinks}");
    }

    /// Returns `true` if a packet is dropped that arrives `millis` after the last packet of a full
    /// queue departed. Further packets arrive at the times `others`.
    fn is_hit_after(millis: u64, others: &[u64]) -> bool {
        let mut bench = bench(1_000_000, 16, true);
        for _ in 0..200 {
            enqueue(&mut bench, MANAGEMENT, 40);
            if bench.waiting() > 15 {
                bench.dequeue();
            }
        }
        while bench.dequeue().is_some() {}
        for &other in others {
            bench.now = Time::from_millis(other);
            enqueue(&mut bench, MANAGEMENT, 40);
            bench.dequeue();
        }
        let before = bench.tally.drops.total();
        bench.now = Time::from_millis(millis);
        enqueue(&mut bench, MANAGEMENT, 40);
        bench.tally.drops.total() > before
    }

    /// Catches: an average that only falls at arrivals; an average that drops to zero at once; a
    /// time of 100 ms that restarts at each arrival.
    #[test]
    fn the_average_decays_while_no_management_packet_waits() {
        assert!(is_hit_after(90, &[]) && !is_hit_after(110, &[]));
        assert!(!is_hit_after(110, &[60]));
    }

    #[test]
    fn a_threshold_of_zero_is_refused() {
        assert!(
            toml::from_str::<Config>("threshold = 0")
                .unwrap_err()
                .to_string()
                .contains("at least 1")
        );
    }
}
