//! Invariants of the allocations while members and the profile change. An allocation decides which
//! flow of an aggregate (the flows of one policy) sends next. A *member* is a flow of the
//! aggregate.
//!
//! The *part* of a member is its share of the token bucket.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::meter::Profile;
use tidegate_core::packet::FlowIndex;
use tidegate_core::{Bytes, Time};

use super::shaping::{Arrival, Change, Departure, Shaping, Triggers};
use super::{Flow, LONGEST, Scene, build, flows, profile, share};

/// A scene, and the changes of members and profile during it.
#[derive(Clone, Debug)]
struct Unrest {
    scene: Scene,
    changes: Vec<(Time, Change)>,
}

/// Length of a scene.
const END: Time = Time::from_secs(4);

/// Enough time for all packets to depart at the lowest rate, even one by one.
const LONG: Time = Time::from_secs(4_000);

/// Small bursts, so that parts may be smaller than a packet. Demands are so high that all members
/// may send at once.
fn scenes() -> impl Strategy<Value = Scene> {
    let burst = prop_oneof![1_500u64..6_000, 3_000u64..60_000];
    (200u64..3_000, burst, prop::collection::vec(flows(), 1..8))
        .prop_map(|(kbps, burst, members)| Scene { kbps, burst, members })
}

fn unrest() -> impl Strategy<Value = Unrest> {
    (scenes(), prop::collection::vec((0u64..4_000, 0u32..8, change()), 0..40)).prop_map(
        |(scene, mut changes)| {
            changes.sort_by_key(|(millis, ..)| *millis);
            let mut present = vec![true; scene.members.len()];
            let possible = |(millis, number, change): (u64, u32, Change)| {
                let number = number % u32::try_from(scene.members.len()).ok()?;
                let is_there = &mut present[FlowIndex(number).index()];
                let change = of(change, FlowIndex(number));
                let sound = match change {
                    Change::Join(..) => !std::mem::replace(is_there, true),
                    Change::Remove(_) => std::mem::replace(is_there, false),
                    Change::Update(..) => *is_there,
                    Change::Profile(_) => true,
                };
                sound.then_some((Time::from_millis(millis), change))
            };
            let changes = changes.into_iter().filter_map(possible).collect();
            Unrest { scene, changes }
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let part = (1u32..5, prop_oneof![1 => Just(0u64), 3 => 10u64..600]);
    prop_oneof![
        4 => part.clone().prop_map(|(weight, rtt)| Change::Join(FlowIndex(0), share(weight, rtt))),
        2 => part.prop_map(|(weight, rtt)| Change::Update(FlowIndex(0), share(weight, rtt))),
        2 => Just(Change::Remove(FlowIndex(0))),
        1 => (200u64..3_000, LONGEST..60_000)
            .prop_map(|(kbps, burst)| Change::Profile(profile(kbps, burst))),
    ]
}

const fn of(change: Change, member: FlowIndex) -> Change {
    match change {
        Change::Join(_, share) => Change::Join(member, share),
        Change::Update(_, share) => Change::Update(member, share),
        Change::Remove(_) => Change::Remove(member),
        Change::Profile(profile) => Change::Profile(profile),
    }
}

impl Unrest {
    /// The aggregate with its first members, at the start of the scene.
    fn aggregate(&self, name: &str) -> Shaping {
        let mut shaping = Shaping::new(build(name, &self.scene.profile()));
        for (member, Flow { share, .. }) in (0..).map(FlowIndex).zip(&self.scene.members) {
            shaping.allocation.join(Time::ZERO, member, *share);
        }
        shaping.changes = self.changes.iter().copied().collect();
        shaping
    }

    /// All departures, and the bytes that were dropped because their member was removed.
    fn run(&self, name: &str, interval: Option<Duration>, end: Time) -> (Vec<Departure>, u64) {
        let mut shaping = self.aggregate(name);
        shaping.run(&self.scene.arrivals(), interval, end);
        (shaping.departures, shaping.dropped)
    }

    /// The departures if the aggregate polices: a packet that may not depart at once is dropped.
    fn police(&self, name: &str) -> Vec<Departure> {
        let mut allocation = build(name, &self.scene.profile());
        for (member, Flow { share, .. }) in (0..).map(FlowIndex).zip(&self.scene.members) {
            allocation.join(Time::ZERO, member, *share);
        }
        let mut changes = self.changes.iter().peekable();
        let mut departures = Vec::new();
        for Arrival { at, member, bytes } in self.scene.arrivals() {
            while let Some((at, change)) = changes.next_if(|(time, _)| *time <= at) {
                match *change {
                    Change::Join(member, share) => allocation.join(*at, member, share),
                    Change::Update(member, share) => allocation.update(*at, member, share),
                    Change::Remove(member) => allocation.remove(*at, member),
                    Change::Profile(profile) => allocation.set_profile(*at, &profile),
                }
            }
            if allocation.try_take(at, member, Bytes(bytes)) {
                departures.push(Departure { at, member, bytes });
            }
        }
        departures
    }

    /// The first departure that exceeds a token bucket with the profile of its time.
    fn first_beyond(&self, departures: &[Departure]) -> Option<Departure> {
        let mut profiles = self.changes.iter().filter_map(|(at, change)| match change {
            Change::Profile(profile) => Some((*at, *profile)),
            _ => None,
        });
        let mut next = profiles.next();
        let mut bucket = Dense::of(&self.scene.profile());
        for departure in departures {
            while let Some((at, profile)) = next.filter(|(at, _)| *at <= departure.at) {
                bucket.change(at, &profile);
                next = profiles.next();
            }
            if !bucket.take(departure.at, departure.bytes) {
                return Some(*departure);
            }
        }
        None
    }
}

/// A token bucket with integers that cannot overflow.
pub(super) struct Dense {
    /// Tokens in bits per second.
    rate: u64,
    pub(super) depth: i128,
    /// Current tokens. Negative after a packet that is longer than the depth.
    pub(super) content: i128,
    at: Time,
}

impl Dense {
    /// A full bucket with this rate (bit/s) and depth (bytes).
    pub(super) fn new(rate: u64, depth: u64) -> Self {
        Self { rate, depth: tokens(depth), content: tokens(depth), at: Time::ZERO }
    }

    fn of(profile: &Profile) -> Self {
        Self::new(profile.mean().bps(), profile.burst().0)
    }

    pub(super) fn pass(&mut self, now: Time) {
        let elapsed = i128::try_from(now.since(self.at).as_nanos()).unwrap_or(i128::MAX);
        self.content = self.depth.min(self.content + i128::from(self.rate) * elapsed);
        self.at = self.at.max(now);
    }

    fn change(&mut self, now: Time, profile: &Profile) {
        self.pass(now);
        (self.rate, self.depth) = (profile.mean().bps(), tokens(profile.burst().0));
        self.content = self.content.min(self.depth);
    }

    /// Takes tokens for `bytes`. Returns `true` if the bucket had them.
    pub(super) fn take(&mut self, now: Time, bytes: u64) -> bool {
        self.pass(now);
        self.content -= tokens(bytes);
        self.content >= 0
    }
}

pub(super) fn tokens(bytes: u64) -> i128 {
    i128::from(bytes) * 8_000_000_000
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// No allocation grants more than the profile's bucket holds, for any changes of members and
    /// profile.
    ///
    /// Catches: `partitioned` that checks only the member's bucket, and not the bucket of the
    /// aggregate, when shaping or policing; a bucket that keeps its tokens when its depth is
    /// reduced; savings of the other members that are not updated when a member is removed.
    #[test]
    fn no_grant_exceeds_the_bucket_of_the_profile(unrest in unrest()) {
        for name in AllocationSpec::NAMES {
            let beyond = unrest.first_beyond(&unrest.run(name, None, END).0);
            prop_assert!(beyond.is_none(), "{name}: {beyond:?}");
            let beyond = unrest.first_beyond(&unrest.police(name));
            prop_assert!(beyond.is_none(), "{name}, policing: {beyond:?}");
        }
    }

    /// Additional calls release no packet earlier, for any changes of members and profile.
    ///
    /// `partitioned` is excepted. At each call, it limits a member's bucket to the member's part.
    /// So a part that is smaller for a while reduces only the buckets that are examined in that
    /// time.
    ///
    /// Catches: a change that makes tokens available earlier, without an earlier time for the next
    /// call.
    #[test]
    fn additional_calls_release_no_packet_earlier_while_members_change(unrest in unrest(), interval in 100_000u64..3_000_000) {
        for name in AllocationSpec::NAMES.iter().filter(|name| **name != "partitioned") {
            let interval = Some(Duration::from_nanos(interval));
            let (seldom, often) = (unrest.run(name, None, END).0, unrest.run(name, interval, END).0);
            let differs = seldom.iter().zip(&often).position(|(seldom, often)| seldom != often);
            prop_assert!(seldom == often, "{name}: {:?}", differs.map(|at| (seldom[at], often[at])));
        }
    }

    /// With both kinds of [`Triggers`] (each arrival, or a timer), each grant comes after a bounded
    /// number of steps, conforms to the profile, and sends the oldest packet of its member. In the
    /// end, every packet has departed or was dropped with its member.
    ///
    /// The harness checks the bound: a grant looks up the first packet of a member at most three
    /// times.
    ///
    /// Catches: `lru` in which a member still counts as unserved after it took tokens on arrival; a
    /// member without packets that stays the next in the order.
    #[test]
    fn every_grant_ends_and_every_packet_departs_or_is_dropped_with_its_member(
        unrest in unrest(),
        interval in prop_oneof![Just(0u64), 1u64..20],
    ) {
        let came: u64 = unrest.scene.arrivals().iter().map(|arrival| arrival.bytes).sum();
        let timer = Triggers::Timer(Duration::from_millis(interval));
        let modes = |name| [(name, Triggers::All), (name, timer)];
        for (name, triggers) in AllocationSpec::NAMES.iter().flat_map(modes) {
            let mut shaping = unrest.aggregate(name);
            shaping.triggers = triggers;
            shaping.run(&unrest.scene.arrivals(), None, LONG);
            let left: u64 = shaping.departures.iter().map(|departure| departure.bytes).sum();
            prop_assert_eq!(left + shaping.dropped, came, "{}, {:?}", name, triggers);
            let beyond = unrest.first_beyond(&shaping.departures);
            prop_assert!(beyond.is_none(), "{name}, {triggers:?}: {beyond:?}");
        }
    }
}
