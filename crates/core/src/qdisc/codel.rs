//! CoDel: one queue, from which packets are dropped if the delay exceeds a target for longer than
//! an interval.
//!
//! A *hit* is a drop or a mark.
//!
//! Source: RFC 8289. The control law and its differences are in `law.rs`.

use std::time::Duration;

use super::Qdisc;
use super::law::{CodelLaw, CodelQueue, Departing, Standing};
use crate::packet::{FlowFifo, QueueIndex};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Cx, PacketId, Rate, Reason, parameters};

parameters! {
    /// Limits of the delay and of the backlog.
    ///
    /// Source: RFC 8289, section 4.
    pub Config, checked {
        /// Largest backlog in frame bytes.
        limit: Bytes = Bytes(4 << 20), in more_than(Bytes::ZERO), "nothing could wait";
        /// Queueing delay that is tolerated permanently. At low rates, it rises to the time that
        /// two full packets take.
        target: Duration = Duration::from_millis(5);
        /// Time for which a longer queueing delay is tolerated: the longest usual round-trip time.
        /// If `target` rises at low rates, the interval rises by as much.
        interval: Duration = Duration::from_millis(100);
        /// Size of a full packet. While the backlog is at most this, no packet is dropped or
        /// marked.
        packet: Bytes = Bytes(1_514);
        /// ECN-capable packets are marked instead of being dropped.
        ecn: bool = true;
    }
}

impl Config {
    fn check(&self) -> Result<(), &'static str> {
        check(self.target, self.interval)
    }

    pub(super) fn build(&self, rate: Option<Rate>, _: Random) -> Codel {
        let Self { limit, target, interval, packet, ecn } = *self;
        let usual = Standing { target, interval, packet, ecn };
        let (standing, line) = (usual.at(rate), FlowFifo::default());
        Codel { limit, usual, standing, law: CodelLaw::default(), line }
    }
}

/// Checks that `target` is less than `interval`.
pub(super) fn check(target: Duration, interval: Duration) -> Result<(), &'static str> {
    if target >= interval {
        return Err("`target` must be less than `interval`");
    }
    Ok(())
}

/// The queue, and the state of CoDel.
pub(super) struct Codel {
    limit: Bytes,
    /// Parameters of CoDel as configured, and adapted to the present rate.
    usual: Standing,
    standing: Standing,
    law: CodelLaw,
    line: FlowFifo,
}

/// The packets from which the law removes the oldest: all packets, or the packets of `flow`.
struct CodelPackets<'a> {
    line: &'a mut FlowFifo,
    flow: Option<QueueIndex>,
}

impl CodelQueue for CodelPackets<'_> {
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        match self.flow {
            Some(member) => self.line.pop_flow(cx.pool, member),
            None => self.line.pop(cx.pool),
        }
    }

    fn backlog(&self) -> Bytes {
        self.line.bytes()
    }
}

impl Qdisc for Codel {
    fn packets(&self) -> &FlowFifo {
        &self.line
    }

    fn packets_mut(&mut self) -> &mut FlowFifo {
        &mut self.line
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        cx.pool[&packet].queued = cx.now;
        self.put_back(cx, packet);
    }

    fn put_back(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        if self.line.bytes() + cx.pool[&packet].frame_len() > self.limit {
            cx.drop(packet, Reason::QueueFull);
        } else {
            self.line.push(cx.pool, packet);
        }
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let mut line = CodelPackets { line: &mut self.line, flow: None };
        self.law.dequeue(&self.standing, cx, &mut line, Departing::Oldest)
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
        // A flow without packets must not end the dropping state: the queue may have packets of
        // other flows.
        self.line.peek_flow(cx.pool, member)?;
        let mut line = CodelPackets { line: &mut self.line, flow: Some(member) };
        self.law.dequeue(&self.standing, cx, &mut line, Departing::Promised)
    }

    fn is_one_line(&self) -> bool {
        true
    }

    fn set_rate(&mut self, rate: Rate) {
        self.standing = self.usual.at(Some(rate));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, chance};
    use super::*;
    use crate::Time;
    use crate::packet::Ecn;

    /// Times in milliseconds at which packets are dropped or marked. The queue always holds about
    /// 200 packets: one arrives and one departs in each millisecond.
    fn hits(ecn: Ecn, until: u64) -> Vec<u64> {
        let mut bench = Bench::new(Config::default().build(None, chance()));
        bench.kind.ecn = ecn;
        (0..200).for_each(|_| bench.enqueue(0, 1_000));
        let mut hits = Vec::new();
        for millis in 1..=until {
            bench.now = Time::from_millis(millis);
            bench.enqueue(0, 1_000);
            assert_eq!(bench.dequeue_flow(5), None);
            let before = (bench.tally.drops.total(), bench.tally.marks.total());
            bench.dequeue().unwrap();
            if before != (bench.tally.drops.total(), bench.tally.marks.total()) {
                hits.push(millis);
            }
        }
        let counts = if ecn == Ecn::Ect0 { bench.tally.marks } else { bench.tally.drops };
        assert_eq!(counts.of(Reason::Aqm), u64::try_from(hits.len()).unwrap());
        hits
    }

    /// RFC 8289, section 5: packets wait for more than 5 ms from the fifth millisecond on. The
    /// first packet is hit one interval later, and the second after another interval. The next
    /// spacings are the interval over the root of 2, of 3, and so on. A hit happens at the first
    /// departure after its due time.
    ///
    /// Catches: spacings that are counted from the time of a drop instead of its due time; one
    /// interval too few or too many; a flow without packets that makes CoDel assume an empty queue.
    #[test]
    fn hits_follow_the_control_law() {
        let mut due = vec![105.0f64, 205.0];
        for count in 2..12 {
            due.push(due.last().unwrap() + 100.0 / f64::from(count).sqrt());
        }
        let due: Vec<_> = due.into_iter().map(|at| format!("{}", at.ceil())).collect();
        for ecn in [Ecn::NotEct, Ecn::Ect0] {
            let hits: Vec<_> = hits(ecn, 600).into_iter().map(|at| at.to_string()).collect();
            assert_eq!(hits, due[..hits.len()]);
            assert_eq!(hits.len(), 10);
        }
    }

    /// Drops, and the longest queue, in each second of a run of ns-3.37 (`CoDelQueueDisc`). Packets
    /// of 1,000 bytes arrive every 0.72 ms at a link of 10 Mbit/s. From the fifth second on,
    /// dropping ends and begins again. At first, ns-3 drops some packets earlier, because it
    /// approximates the square roots as Linux does.
    ///
    /// Catches: dropping that resumes at the full earlier rate; dropping that always resumes at the
    /// lowest rate.
    #[test]
    fn the_number_of_drops_is_that_of_ns_3() {
        let ns_3 = [
            (26, 113),
            (75, 176),
            (126, 191),
            (176, 190),
            (225, 153),
            (168, 66),
            (89, 87),
            (140, 93),
            (190, 86),
            (131, 43),
        ];
        let config = Config { packet: Bytes(1_500), ecn: false, ..Config::default() };
        let mut bench = Bench::new(config.build(None, chance()));
        let (mut comes, mut free_at, mut total) = (0, 0, 0);
        for (second, (drops, longest)) in (1..).zip(ns_3) {
            let (before, mut most) = (bench.tally.drops.total(), 0);
            while comes < second * 1_000_000 {
                while free_at <= comes && bench.waiting() > 0 {
                    bench.now = Time::from_micros(free_at);
                    free_at += if bench.dequeue().is_some() { 800 } else { 0 };
                }
                free_at = if bench.waiting() == 0 { free_at.max(comes) } else { free_at };
                bench.now = Time::from_micros(comes);
                bench.enqueue(0, 1_000);
                most = most.max(bench.waiting());
                comes += 720;
            }
            let dropped = bench.tally.drops.total() - before;
            total += dropped;
            // The runs agree in the first seconds. Later, the dropping states begin at different
            // times.
            let off = if second <= 4 { 50 } else { 7 };
            assert!(
                dropped.abs_diff(drops) <= 2 + drops / off,
                "{second} s: {dropped}, not {drops}"
            );
            assert!(most.abs_diff(longest) <= 2 + longest / 7, "{second} s: {most}, not {longest}");
        }
        let of_ns_3: u64 = ns_3.iter().map(|(drops, _)| drops).sum();
        assert!(total.abs_diff(of_ns_3) <= of_ns_3 / 50, "{total}, not {of_ns_3}");
    }

    /// RFC 8289, section 5.4: no packet is hit while the queue holds at most one full packet,
    /// however long that packet has waited.
    ///
    /// Catches: a backlog that includes the departing packet.
    #[test]
    fn the_last_packets_are_never_hit() {
        let mut bench = Bench::new(Config::default().build(None, chance()));
        bench.enqueue(0, 1_514);
        for tens in 1..100 {
            bench.now = Time::from_millis(10 * tens);
            bench.enqueue(0, 1_514);
            assert_eq!(bench.dequeue(), Some((0, 1_514)));
        }
        assert_eq!((bench.tally.drops.total(), bench.waiting()), (0, 1));
    }

    /// Catches: a long delay of one burst that still counts in the next burst.
    #[test]
    fn a_burst_shorter_than_the_interval_is_not_hit() {
        let mut bench = Bench::new(Config::default().build(None, chance()));
        for burst in 0..20 {
            bench.now = Time::from_millis(50 * burst);
            (0..10).for_each(|_| bench.enqueue(0, 1_000));
            bench.now = Time::from_millis(50 * burst + 20);
            assert_eq!(bench.drain().len(), 10);
        }
        assert_eq!(bench.tally.drops.total(), 0);
    }

    /// Catches: a dropping state that does not end while packets wait for less than the target, so
    /// that all overdue packets are dropped at once afterwards.
    #[test]
    fn congestion_after_a_short_delay_begins_with_one_hit() {
        let mut bench = Bench::new(Config::default().build(None, chance()));
        let congest = |bench: &mut Bench<Codel>, from: u64| {
            bench.now = Time::from_millis(from);
            (0..150).for_each(|_| bench.enqueue(0, 1_000));
            let before = bench.tally.drops.total();
            for millis in from..from + 120 {
                bench.now = Time::from_millis(millis);
                bench.dequeue();
            }
            bench.tally.drops.total() - before
        };
        assert_eq!(congest(&mut bench, 0), 1);
        // The remaining packets wait for less than the target, so the dropping state ends.
        for millis in 1_000..1_040 {
            bench.now = Time::from_millis(millis);
            bench.dequeue();
        }
        bench.enqueue(0, 1_000);
        bench.dequeue();
        assert_eq!(congest(&mut bench, 10_000), 1);
    }

    /// RFC 8289, section 5.5: all overdue drops happen at once. Like Linux, CoDel marks only one
    /// packet per departure.
    ///
    /// Catches: several marks for the overdue hits.
    #[test]
    fn after_a_pause_many_packets_are_dropped_or_one_is_marked() {
        for (ecn, at_least, at_most) in [(Ecn::NotEct, 20, 200), (Ecn::Ect0, 1, 1)] {
            let mut bench = Bench::new(Config::default().build(None, chance()));
            bench.kind.ecn = ecn;
            (0..400).for_each(|_| bench.enqueue(0, 1_000));
            for millis in 1..=110 {
                bench.now = Time::from_millis(millis);
                bench.dequeue();
            }
            let hits = |bench: &Bench<Codel>| bench.tally.drops.total() + bench.tally.marks.total();
            assert_eq!(hits(&bench), 1);
            bench.now = Time::from_secs(2);
            bench.dequeue();
            assert!((at_least..=at_most).contains(&(hits(&bench) - 1)), "{:?}", bench.tally);
        }
    }

    #[test]
    fn a_time_without_a_unit_is_refused_with_an_example() {
        let error = |text: &str| toml::from_str::<Config>(text).unwrap_err().to_string();
        assert!(error("target = 5").contains("`5` has no unit; write for example \"10 ms\""));
        assert!(error("interval = \"5 ms\"").contains("`target` must be less than `interval`"));
    }

    /// An allocation has paid for the oldest packet of a flow, so this packet must depart.
    ///
    /// Catches: a drop of that packet; a drop of another flow's packet.
    #[test]
    fn if_the_caller_selects_the_flow_its_oldest_packet_departs_and_the_next_is_dropped() {
        let mut bench = Bench::new(Config::default().build(None, chance()));
        for len in 1_000..1_150 {
            bench.enqueue(len % 2, len);
        }
        let (mut expected, mut dropped) = (1_000, 0);
        for millis in 1..60 {
            bench.now = Time::from_millis(5 * millis);
            assert_eq!(bench.dequeue_flow(0), Some((0, expected)));
            let more = bench.tally.drops.of(Reason::Aqm) - dropped;
            dropped += more;
            expected += 2 + 2 * u32::try_from(more).unwrap();
        }
        assert!(dropped >= 3, "{dropped}");
        assert_eq!(bench.dequeue_flow(7), None);
        bench.drain();
    }
}
