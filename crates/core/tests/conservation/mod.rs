//! Work conservation: no packet waits while the bucket has tokens that it may use.

use std::collections::VecDeque;

use proptest::prelude::*;
use tidegate_core::Time;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::packet::Member;

use super::membership::{Dense, tokens};
use super::shaping::{Arrival, Departure};
use super::{Scene, scenes};

/// Tokens that a packet has to leave for other members.
#[derive(Clone, Copy, Debug)]
enum Reserve {
    /// None: the bucket is common.
    Nothing,
    /// Half of the bucket: beyond it, savings of members do not count.
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

/// Largest delay of a packet by rounded shares of the rate, in nanoseconds.
const ROUNDING: u64 = 10;

/// An observer that sees only arrivals and departures.
struct Observer {
    reserve: Reserve,
    /// The bucket of the profile.
    bucket: Dense,
    /// The bucket of each member, in units of `1 / weights` of a token.
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

    /// The first member that waits at `now` although its tokens are there.
    ///
    /// The bucket has to hold enough tokens for each waiting packet, as the allocation chooses the next one.
    fn waits_in_vain(&mut self, now: Time) -> Option<Member> {
        let longest = self.queues.iter().filter_map(VecDeque::front).max()?;
        let reserved = match self.reserve {
            Reserve::Half => self.bucket.depth / 2,
            Reserve::Nothing | Reserve::Parts => 0,
        };
        self.bucket.pass(now);
        if self.bucket.content < self.bucket.depth.min(tokens(*longest) + reserved) {
            return None;
        }
        let waits = (0..).map(Member).zip(self.queues.iter().zip(&mut self.parts));
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

/// Time and member of a packet that waited although its tokens were there. The bucket only fills between
/// departures, so a check just before each departure suffices.
fn in_vain(scene: &Scene, name: &str, departures: &[Departure]) -> Option<(Time, Member)> {
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

    /// No packet waits while the bucket has tokens that it may use. These are all tokens of a common bucket,
    /// the upper half if members save, or the tokens of its own part.
    ///
    /// Catches: `logical-partitions` whose spare part is the full bucket only; `partitioned` that waits for a
    /// whole packet in a smaller part; a common bucket that returns a later time.
    #[test]
    fn no_packet_waits_while_the_bucket_has_tokens_that_it_may_use(scene in scenes()) {
        for name in AllocationSpec::NAMES {
            let waited = in_vain(&scene, name, &scene.run(name, None));
            prop_assert!(waited.is_none(), "{name}: {waited:?}");
        }
    }
}
