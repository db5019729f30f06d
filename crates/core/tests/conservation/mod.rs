//! Work conservation: no packet waits while the token bucket has tokens that the packet may use.
//!
//! An aggregate has the flows of one policy. A *member* is a flow of the aggregate. Its *part* is
//! its share of the token bucket.

use std::collections::VecDeque;

use proptest::prelude::*;
use tidegate_core::Time;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::packet::FlowIndex;

use super::membership::{Dense, tokens};
use super::shaping::{Arrival, Departure};
use super::{Scene, scenes};

/// Tokens that a packet must leave in the bucket for other members.
#[derive(Clone, Copy, Debug)]
enum Reserve {
    /// No tokens, because the bucket is common.
    Nothing,
    /// Half of the bucket. The savings of members lie in this half.
    Half,
    /// The parts of all other members.
    Parts,
}

impl Reserve {
    fn of(name: &str) -> Self {
        match name {
            "logical-partitions" => Self::Half,
            "partitioned" => Self::Parts,
            _ => Self::Nothing,
        }
    }
}

/// Largest delay of a packet that arises because members' rates are rounded, in nanoseconds.
const ROUNDING: u64 = 10;

/// An observer that sees only arrivals and departures.
struct Observer {
    reserve: Reserve,
    /// A model of the profile's bucket.
    bucket: Dense,
    /// A model of each member's bucket, in units of `1 / weights` of a token.
    parts: Vec<Dense>,
    weights: u64,
    queues: Vec<VecDeque<u64>>,
}

impl Observer {
    fn new(scene: &Scene, reserve: Reserve) -> Self {
        let profile = scene.profile();
        let weights = scene.members.iter().map(|flow| u64::from(flow.share.weight));
        let part = |weight| Dense::new(profile.mean().bps() * weight, profile.burst().0 * weight);
        Self {
            reserve,
            bucket: Dense::new(profile.mean().bps(), profile.burst().0),
            parts: weights.clone().map(part).collect(),
            weights: weights.sum(),
            queues: vec![VecDeque::new(); scene.members.len()],
        }
    }

    /// The first member that waits at `now` although the bucket has enough tokens.
    ///
    /// The bucket must have enough tokens for every waiting packet, because the allocation chooses
    /// the next packet.
    fn waits_in_vain(&mut self, now: Time) -> Option<FlowIndex> {
        let longest = self.queues.iter().filter_map(VecDeque::front).max()?;
        let reserved = match self.reserve {
            Reserve::Half => self.bucket.depth / 2,
            Reserve::Nothing | Reserve::Parts => 0,
        };
        self.bucket.pass(now);
        if self.bucket.content < self.bucket.depth.min(tokens(*longest) + reserved) {
            return None;
        }
        let waits = (0..).map(FlowIndex).zip(self.queues.iter().zip(&mut self.parts));
        waits.filter_map(|(member, (queue, part))| Some((member, queue.front()?, part))).find_map(
            |(member, head, part)| {
                part.pass(now);
                let own = part.content >= part.depth.min(tokens(head * self.weights));
                (own || !matches!(self.reserve, Reserve::Parts)).then_some(member)
            },
        )
    }

    fn depart(&mut self, departure: &Departure) {
        let (member, bytes) = (departure.member.index(), departure.bytes);
        self.queues[member].pop_front();
        self.bucket.take(departure.at, bytes);
        self.parts[member].take(departure.at, bytes * self.weights);
    }
}

/// Time and member of a packet that waited although the bucket had enough tokens. Between
/// departures the bucket only fills, so a check directly before each departure suffices.
fn in_vain(scene: &Scene, name: &str, departures: &[Departure]) -> Option<(Time, FlowIndex)> {
    let mut observer = Observer::new(scene, Reserve::of(name));
    let arrivals = scene.arrivals();
    let mut arrivals = arrivals.iter().peekable();
    for together in departures.chunk_by(|a, b| a.at == b.at) {
        let at = together[0].at;
        let before = at.nanos().checked_sub(ROUNDING).map(Time::from_nanos);
        let mut arrive = |observer: &mut Observer, until: Time| {
            while let Some(Arrival { member, bytes, .. }) = arrivals.next_if(|it| it.at <= until) {
                observer.queues[member.index()].push_back(*bytes);
            }
        };
        if let Some(before) = before {
            arrive(&mut observer, before);
            if let Some(member) = observer.waits_in_vain(before) {
                return Some((before, member));
            }
        }
        arrive(&mut observer, at);
        together.iter().for_each(|departure| observer.depart(departure));
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// No packet waits while the bucket has tokens that the packet may use. In a common bucket, the
    /// packet may use all tokens. If members save tokens, it may use the upper half. With
    /// `partitioned`, it may use the tokens of the member's own part.
    ///
    /// Catches: `logical-partitions` that uses the unassigned part only when the bucket is full;
    /// `partitioned` that waits for a whole packet in a part that is smaller; a common bucket that
    /// returns a time that is too late.
    #[test]
    fn no_packet_waits_while_the_bucket_has_tokens_that_it_may_use(scene in scenes()) {
        for name in AllocationSpec::NAMES {
            let waited = in_vain(&scene, name, &scene.run(name, None));
            prop_assert!(waited.is_none(), "{name}: {waited:?}");
        }
    }
}
