//! Multistage filters: a few counters find the flows that send many bytes within an interval.
//!
//! A stage hashes each flow to a counter. A flow passes when its counters of all stages are large.
//! Flows share counters, so a filter also passes some small flows. It never holds back a flow that sent at
//! least the threshold within the interval.
//!
//! Source: Estan and Varghese, "New directions in traffic measurement and accounting", SIGCOMM 2002 and
//! doi 10.1145/859716.859719, sections 3.2 and 3.3; `marking`, section 2.3 (the serial filter).

use crate::packet::{Packet, slot};
use crate::random::{halves, mixed};

/// Number of counters of a filter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// Stages, each with a hash function of its own.
    pub stages: u32,
    /// Counters in a stage.
    pub buckets: u32,
}

/// Hash of the flow of `packet`: addresses, ports, protocol and VLAN, in the packet's direction.
#[must_use]
pub fn fingerprint(seed: u64, packet: &Packet) -> u64 {
    let key = &packet.key;
    let (src, dst) = (halves(key.src.number()), halves(key.dst.number()));
    let ports = u64::from(key.src.port) << 48 | u64::from(key.dst.port) << 32;
    let rest = ports | u64::from(packet.vlan) << 8 | u64::from(key.protocol.0);
    [src.0, src.1, dst.0, dst.1, rest].iter().fold(mixed(seed), |hash, part| mixed(hash ^ part))
}

/// The counters of all stages.
#[derive(Clone, Debug)]
struct Stages {
    shape: Shape,
    counters: Vec<u32>,
}

impl Stages {
    fn new(shape: Shape) -> Self {
        let counters = vec![0; slot(shape.stages) * slot(shape.buckets)];
        Self { shape, counters }
    }

    /// The index of the flow's counter in `stage`. Two stages share the 64 bits of a hash.
    fn at(&self, stage: u32, fingerprint: u64) -> usize {
        let hash = match stage / 2 {
            0 => fingerprint,
            pair => mixed(fingerprint.wrapping_add(u64::from(pair))),
        };
        let half = if stage.is_multiple_of(2) { hash >> 32 } else { hash & u64::from(u32::MAX) };
        let bucket = u32::try_from((half * u64::from(self.shape.buckets)) >> 32).unwrap_or(0);
        slot(stage) * slot(self.shape.buckets) + slot(bucket)
    }
}

/// A serial filter: a packet reaches the next stage only if its counter of this stage is large.
///
/// With threshold T and d stages, a counter is large from T/d bytes on. Each stage counts less than
/// T/d bytes of a flow before it passes the stage, so a flow passes after T bytes at the latest.
#[derive(Clone, Debug)]
pub struct Serial {
    stages: Stages,
    /// T/d, in bytes.
    share: u32,
    /// Number of counters that are not large yet. At zero, every packet passes, and no hash is
    /// needed.
    small: usize,
}

impl Serial {
    /// An empty filter for flows that send `threshold` bytes between two calls of [`clear`](Self::clear).
    #[must_use]
    pub fn new(shape: Shape, threshold: u32) -> Self {
        let share = threshold / shape.stages.max(1);
        let mut filter = Self { stages: Stages::new(shape), share, small: 0 };
        filter.clear();
        filter
    }

    /// Counts a packet of `bytes`. Returns `true` if the packet passes every stage. Computes the
    /// `fingerprint` of the flow only if the answer depends on it.
    pub fn passes(&mut self, fingerprint: impl FnOnce() -> u64, bytes: u32) -> bool {
        self.small == 0 || self.count(fingerprint(), bytes)
    }

    fn count(&mut self, fingerprint: u64, bytes: u32) -> bool {
        (0..self.stages.shape.stages).all(|stage| {
            let at = self.stages.at(stage, fingerprint);
            let counter = &mut self.stages.counters[at];
            let before = *counter;
            *counter = before.saturating_add(bytes);
            self.small -= usize::from(before < self.share && *counter >= self.share);
            *counter >= self.share
        })
    }

    /// Sets all counters to zero.
    pub fn clear(&mut self) {
        self.stages.counters.fill(0);
        self.small = if self.share == 0 { 0 } else { self.stages.counters.len() };
    }
}

/// A parallel filter with conservative update: every packet reaches all stages.
///
/// A flow passes when its smallest counter, including this packet, reaches the threshold. Each
/// counter is raised to that sum at most. A packet that passes changes no counter, because the flow
/// is tracked from then on. Each counter of a flow is at least the bytes that the flow sent, so a
/// flow passes after the threshold at the latest.
///
/// Shielding is up to the caller: it offers no packets of tracked flows.
#[derive(Clone, Debug)]
pub struct Parallel {
    stages: Stages,
    threshold: u32,
}

impl Parallel {
    /// An empty filter for flows that send `threshold` bytes between two calls of [`clear`](Self::clear).
    #[must_use]
    pub fn new(shape: Shape, threshold: u32) -> Self {
        Self { stages: Stages::new(shape), threshold }
    }

    /// Counts a packet of `bytes`. Returns `true` if its flow may have sent the threshold.
    pub fn passes(&mut self, fingerprint: u64, bytes: u32) -> bool {
        let Stages { shape, .. } = self.stages;
        let places = (0..shape.stages).map(|stage| self.stages.at(stage, fingerprint));
        let least = places.map(|at| self.stages.counters[at]).min().unwrap_or(0);
        let sum = least.saturating_add(bytes);
        if sum >= self.threshold {
            return true;
        }
        for stage in 0..shape.stages {
            let at = self.stages.at(stage, fingerprint);
            let counter = &mut self.stages.counters[at];
            *counter = sum.max(*counter);
        }
        false
    }

    /// Sets all counters to zero, and the threshold for the next interval.
    pub fn clear(&mut self, threshold: u32) {
        self.threshold = threshold;
        self.stages.counters.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::packet::{Endpoint, FlowKey, Protocol};

    fn packet(flow: u16) -> Packet {
        let [high, low] = flow.to_be_bytes();
        let src = Endpoint::v4([10, 0, high, low], 1_024);
        let key = FlowKey { src, dst: Endpoint::v4([192, 0, 2, 1], 80), protocol: Protocol::TCP };
        Packet { key, vlan: 7, ..Packet::default() }
    }

    /// Packets of few flows, as flow and length.
    fn packets() -> impl Strategy<Value = Vec<(u16, u32)>> {
        prop::collection::vec((0u16..24, 40u32..1_515), 1..400)
    }

    fn shapes() -> impl Strategy<Value = Shape> {
        (1u32..5, 1u32..12).prop_map(|(stages, buckets)| Shape { stages, buckets })
    }

    /// Bytes of each flow, and whether any of its packets passed.
    fn run(
        packets: &[(u16, u32)],
        mut passes: impl FnMut(u64, u32) -> bool,
    ) -> BTreeMap<u16, (u32, bool)> {
        let mut flows = BTreeMap::<u16, (u32, bool)>::new();
        for &(flow, bytes) in packets {
            let of = flows.entry(flow).or_default();
            of.0 += bytes;
            of.1 |= passes(fingerprint(1, &packet(flow)), bytes);
        }
        flows
    }

    proptest! {
        /// Catches: the largest counter in place of the smallest; raising one counter only; a sum without the
        /// packet; `>` in place of `>=`.
        #[test]
        fn the_parallel_filter_passes_every_large_flow(
            packets in packets(),
            shape in shapes(),
            threshold in 100u32..20_000,
        ) {
            let mut filter = Parallel::new(shape, threshold);
            for (flow, (bytes, passed)) in run(&packets, |hash, bytes| filter.passes(hash, bytes)) {
                prop_assert!(passed || bytes < threshold, "flow {flow} sent {bytes} of {threshold}");
            }
        }

        /// Catches: a threshold T in each stage, with which a flow passes after d T bytes.
        #[test]
        fn the_serial_filter_passes_every_large_flow(
            packets in packets(),
            shape in shapes(),
            threshold in 100u32..20_000,
        ) {
            let mut filter = Serial::new(shape, threshold);
            for (flow, (bytes, passed)) in run(&packets, |hash, bytes| filter.passes(|| hash, bytes)) {
                prop_assert!(passed || bytes < threshold, "flow {flow} sent {bytes} of {threshold}");
            }
        }

        /// A model with one map for each stage.
        ///
        /// Catches: counting in a stage that the packet does not reach; counting only packets that do not
        /// pass.
        /// Catches: a threshold other than T/d; a filter that passes every packet while a counter is small.
        #[test]
        fn the_serial_filter_is_the_standard_one(
            packets in packets(),
            shape in shapes(),
            threshold in 100u32..20_000,
        ) {
            let mut filter = Serial::new(shape, threshold);
            let places = Stages::new(shape);
            let mut counters = BTreeMap::<usize, u32>::new();
            for (flow, bytes) in packets {
                let hash = fingerprint(1, &packet(flow));
                let mut reached = true;
                for stage in 0..shape.stages {
                    if reached {
                        let counter = counters.entry(places.at(stage, hash)).or_default();
                        *counter += bytes;
                        reached = *counter >= threshold / shape.stages;
                    }
                }
                prop_assert_eq!(filter.passes(|| hash, bytes), reached);
                // Once all counters are large, no hash is computed.
                let large = filter.stages.counters.iter().filter(|it| **it >= filter.share);
                prop_assert_eq!(filter.small, filter.stages.counters.len() - large.count());
            }
        }

        /// Catches: adding the packet to every counter of the flow; counting packets that pass.
        #[test]
        fn conservative_update_counts_no_more_than_needed(
            packets in packets(),
            shape in shapes(),
            threshold in 100u32..20_000,
        ) {
            let mut filter = Parallel::new(shape, threshold);
            for (flow, bytes) in packets {
                let hash = fingerprint(1, &packet(flow));
                let before = filter.stages.counters.clone();
                let passed = filter.passes(hash, bytes);
                let own: Vec<_> = (0..shape.stages).map(|stage| filter.stages.at(stage, hash)).collect();
                let least = own.iter().map(|at| before[*at]).min().unwrap();
                for (at, (was, is)) in before.iter().zip(&filter.stages.counters).enumerate() {
                    let raised = (*was).max(least + bytes);
                    let expected = if own.contains(&at) && !passed { raised } else { *was };
                    prop_assert_eq!(*is, expected);
                }
                prop_assert!(filter.stages.counters.iter().all(|counter| *counter < threshold));
            }
        }
    }

    /// Catches: one hash function for all stages, with which flows that share one counter share all.
    #[test]
    fn stages_hash_independently() {
        let stages = Stages::new(Shape { stages: 3, buckets: 8 });
        let (mut same_first, mut same_all) = (0u32, 0u32);
        for one in 0..200 {
            for other in 0..one {
                let of = [one, other].map(|flow| fingerprint(5, &packet(flow)));
                let same = |stage| stages.at(stage, of[0]) == stages.at(stage, of[1]);
                same_first += u32::from(same(0));
                same_all += u32::from((0..3).all(same));
            }
        }
        // 19,900 pairs: an eighth, and 1/512 of them, within four deviations.
        assert!((2_300..2_674).contains(&same_first), "{same_first}");
        assert!((14..64).contains(&same_all), "{same_all}");
    }

    /// Catches: a part of the key left out; a constant seed.
    #[test]
    fn the_fingerprint_depends_on_every_part_of_the_key_and_on_the_seed() {
        let base = packet(1);
        let with = |change: fn(&mut Packet)| {
            let mut packet = base;
            change(&mut packet);
            fingerprint(3, &packet)
        };
        let mut all = vec![
            fingerprint(3, &base),
            fingerprint(4, &base),
            with(|packet| packet.key = packet.key.reverse()),
            with(|packet| packet.key.src = Endpoint::v4([10, 0, 0, 2], 1_024)),
            with(|packet| packet.key.dst = Endpoint::v6([9; 16], 80)),
            with(|packet| packet.key.dst = Endpoint::v6([10; 16], 80)),
            with(|packet| packet.key.src.port = 1_025),
            with(|packet| packet.key.dst.port = 81),
            with(|packet| packet.key.protocol = Protocol::UDP),
            with(|packet| packet.vlan = 8),
        ];
        let before = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), before);
        assert_eq!(with(|packet| packet.dscp = 46), fingerprint(3, &base));
    }

    /// Catches: counters that outlive their interval; a threshold that cannot be changed.
    #[test]
    fn an_interval_begins_with_empty_counters() {
        let shape = Shape { stages: 3, buckets: 8 };
        let (mut serial, mut parallel) = (Serial::new(shape, 3_000), Parallel::new(shape, 3_000));
        let hash = fingerprint(1, &packet(1));
        let turns = |passes: &mut dyn FnMut() -> bool| (0..9).find(|_| passes());
        assert_eq!(turns(&mut || serial.passes(|| hash, 500)), Some(3));
        assert_eq!(turns(&mut || parallel.passes(hash, 500)), Some(5));
        serial.clear();
        parallel.clear(2_000);
        assert_eq!(turns(&mut || serial.passes(|| hash, 500)), Some(3));
        assert_eq!(turns(&mut || parallel.passes(hash, 500)), Some(3));
    }
}
