//! Multistage filters: they find the flows that send many bytes within an interval, with a few counters for all flows.
//!
//! Each stage has a hash function that assigns a flow to one of its counters. A flow *passes* when its counters in all
//! stages are large. Several flows may share a counter, so some small flows pass too. But every flow that sends at least
//! the threshold within the interval passes.
//!
//! Source: Estan and Varghese, "New directions in traffic measurement and accounting", SIGCOMM 2002 and
//! doi 10.1145/859716.859719, sections 3.2 and 3.3; `marking`, section 2.3 (the serial filter).

use crate::packet::{Packet, slot};
use crate::random::{halves, mixed};

/// Number of counters of a filter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// Number of stages. Each stage has its own hash function.
    pub stages: u32,
    /// Number of counters in each stage.
    pub buckets: u32,
}

/// Hash of the flow of `packet` in its direction: addresses, ports, protocol and VLAN.
#[must_use]
pub fn fingerprint(seed: u64, packet: &Packet) -> u64 {
    let key = &packet.key;
    let (src, dst) = (halves(key.src.number()), halves(key.dst.number()));
    let ports = u64::from(key.src.port) << 48 | u64::from(key.dst.port) << 32;
    let rest = ports | u64::from(packet.vlan) << 8 | u64::from(key.protocol.0);
    [src.0, src.1, dst.0, dst.1, rest].iter().fold(mixed(seed), |hash, part| mixed(hash ^ part))
}

/// The byte counters of all stages.
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

    /// Index of a flow's counter in `stage`. Two stages use one hash of 64 bits, 32 bits each.
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

/// A serial filter: a packet reaches the next stage only if its counter in this stage is large.
///
/// With the threshold `T` and `d` stages, a counter of `T / d` bytes or more is large. So each stage holds back less than
/// `T / d` bytes of a flow, and a flow passes after `T` bytes at the latest.
#[derive(Clone, Debug)]
pub struct Serial {
    stages: Stages,
    /// `T / d` in bytes: the threshold of one stage.
    share: u32,
    /// Number of counters that are not large yet. If it is zero, every packet passes, and hashes are not computed.
    small: usize,
}

impl Serial {
    /// An empty filter. It passes each flow that sends `threshold` bytes between two calls of [`clear`](Self::clear).
    #[must_use]
    pub fn new(shape: Shape, threshold: u32) -> Self {
        let share = threshold / shape.stages.max(1);
        let mut filter = Self { stages: Stages::new(shape), share, small: 0 };
        filter.clear();
        filter
    }

    /// Counts a packet of `bytes`. Returns `true` if the packet passes all stages. Calls `fingerprint`, which computes the
    /// hash of the flow, only if it is needed.
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

/// A parallel filter with conservative update: every packet is counted in all stages.
///
/// A flow passes when the sum of its smallest counter and this packet reaches the threshold.
/// Otherwise its counters in all stages are raised to this sum, unless they are larger already
/// (conservative update). Each counter of a flow is at least the number of bytes that the flow has
/// sent. So a flow passes at the latest when it has sent the threshold.
///
/// A packet that passes changes no counter, because its flow is tracked from then on. The caller
/// must not pass later packets of tracked flows to the filter (shielding).
#[derive(Clone, Debug)]
pub struct Parallel {
    stages: Stages,
    threshold: u32,
}

impl Parallel {
    /// An empty filter. It passes each flow that sends `threshold` bytes between two calls of [`clear`](Self::clear).
    #[must_use]
    pub fn new(shape: Shape, threshold: u32) -> Self {
        Self { stages: Stages::new(shape), threshold }
    }

    /// Counts a packet of `bytes`. Returns `true` if its flow passes.
    pub fn passes(&mut self, fingerprint: u64, bytes: u32) -> bool {
        let Stages { shape, .. } = self.stages;
        let counters_of_flow = (0..shape.stages).map(|stage| self.stages.at(stage, fingerprint));
        let least = counters_of_flow.map(|at| self.stages.counters[at]).min().unwrap_or(0);
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

    /// Sets all counters to zero, and sets the threshold for the next interval.
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

    /// Packets of a few flows, as pairs of flow and length.
    fn packets() -> impl Strategy<Value = Vec<(u16, u32)>> {
        prop::collection::vec((0u16..24, 40u32..1_515), 1..400)
    }

    fn shapes() -> impl Strategy<Value = Shape> {
        (1u32..5, 1u32..12).prop_map(|(stages, buckets)| Shape { stages, buckets })
    }

    /// Bytes of each flow, and `true` if any of its packets passed.
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
        /// Catches: a flow compared by its largest counter; an update of one counter only; a sum without the present
        /// packet; a flow with exactly the threshold that does not pass.
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

        /// Catches: the whole threshold in each stage, so that a flow passes after `d * T` bytes.
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
        /// Catches: a packet that is counted in a stage that it does not reach; packets that pass and are not counted;
        /// a stage threshold other than `T / d`; a filter that passes every packet although a counter is small.
        #[test]
        fn the_serial_filter_agrees_with_a_simple_model(
            packets in packets(),
            shape in shapes(),
            threshold in 100u32..20_000,
        ) {
            let mut filter = Serial::new(shape, threshold);
            let stages = Stages::new(shape);
            let mut counters = BTreeMap::<usize, u32>::new();
            for (flow, bytes) in packets {
                let hash = fingerprint(1, &packet(flow));
                let mut reached = true;
                for stage in 0..shape.stages {
                    if reached {
                        let counter = counters.entry(stages.at(stage, hash)).or_default();
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

        /// Catches: an update that adds the packet to every counter; an update by a packet that passes.
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

    /// Catches: one hash function for all stages, so that two flows with one counter in common have
    /// all counters in common.
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
        // Of 19,900 pairs, an eighth share the first counter, and 1/512 share all three, within four standard
        // deviations.
        assert!((2_300..2_674).contains(&same_first), "{same_first}");
        assert!((14..64).contains(&same_all), "{same_all}");
    }

    /// Catches: a hash that ignores an address, a port, the protocol, the VLAN or the seed.
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

    /// Catches: counters that are not cleared at the end of an interval; a new threshold without effect.
    #[test]
    fn an_interval_begins_with_empty_counters() {
        let shape = Shape { stages: 3, buckets: 8 };
        let (mut serial, mut parallel) = (Serial::new(shape, 3_000), Parallel::new(shape, 3_000));
        let hash = fingerprint(1, &packet(1));
        let needed = |passes: &mut dyn FnMut() -> bool| (0..9).find(|_| passes());
        assert_eq!(needed(&mut || serial.passes(|| hash, 500)), Some(3));
        assert_eq!(needed(&mut || parallel.passes(hash, 500)), Some(5));
        serial.clear();
        parallel.clear(2_000);
        assert_eq!(needed(&mut || serial.passes(|| hash, 500)), Some(3));
        assert_eq!(needed(&mut || parallel.passes(hash, 500)), Some(3));
    }
}
