//! Invariants of the allocations, for random schedules. An allocation decides which flow of an
//! aggregate sends next. An aggregate has the flows of one policy.
//!
//! A *member* is a flow of the aggregate. Its *part* is its share of the token bucket.

#![expect(clippy::as_conversions, reason = "figures of a report, and small numbers")]

mod conservation;
mod membership;
mod shaping;

use std::time::Duration;

use proptest::prelude::*;
use shaping::{Arrival, Departure, Shaping, constant, served};
use tidegate_core::allocation::{Allocation, AllocationSpec, Share};
use tidegate_core::meter::Profile;
use tidegate_core::packet::FlowIndex;
use tidegate_core::{Bytes, Rate, Time};

const LONGEST: u64 = 1_500;

fn profile(kbps: u64, burst: u64) -> Profile {
    Profile::new(Rate::from_kbps(kbps), None, Bytes(burst), Bytes(LONGEST))
        .expect("a sound profile")
}

fn build(name: &str, profile: &Profile) -> Box<dyn Allocation> {
    let name = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
    let spec: AllocationSpec = serde::Deserialize::deserialize(name).expect("a known name");
    spec.build(profile, Time::ZERO)
}

fn share(weight: u32, rtt_millis: u64) -> Share {
    let rtt = (rtt_millis > 0).then(|| Duration::from_millis(rtt_millis));
    Share { weight, rtt }
}

/// Flows with weights, round-trip times and packets. The demand of a flow is constant in each
/// phase.
#[derive(Clone, Debug)]
struct Scene {
    kbps: u64,
    burst: u64,
    members: Vec<Flow>,
}

#[derive(Clone, Debug)]
struct Flow {
    share: Share,
    len: u64,
    /// Demand in each phase of 200 ms, in percent of the aggregate's rate.
    phases: Vec<u64>,
}

const PHASE: Duration = Duration::from_millis(200);

fn flows() -> impl Strategy<Value = Flow> {
    let demand = prop_oneof![2 => Just(0u64), 2 => 1u64..30, 1 => 30u64..200];
    let rtt = prop_oneof![1 => Just(0u64), 3 => 10u64..600];
    (1u32..5, rtt, 200u64..LONGEST, prop::collection::vec(demand, 1..20))
        .prop_map(|(weight, rtt, len, phases)| Flow { share: share(weight, rtt), len, phases })
}

fn scenes() -> impl Strategy<Value = Scene> {
    (200u64..3_000, 3_000u64..60_000, prop::collection::vec(flows(), 1..8))
        .prop_map(|(kbps, burst, members)| Scene { kbps, burst, members })
}

impl Scene {
    fn profile(&self) -> Profile {
        profile(self.kbps, self.burst)
    }

    fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for (number, flow) in (0..).zip(&self.members) {
            for (phase, percent) in (0u32..).zip(&flow.phases) {
                let from = Time::ZERO + PHASE * phase;
                let rate = Rate::from_bps(self.kbps * 10 * percent);
                let member = FlowIndex(number);
                arrivals.extend(constant(member, flow.len, rate, from, from + PHASE));
            }
        }
        arrivals.sort_by_key(|arrival| (arrival.at, arrival.member));
        arrivals
    }

    fn run(&self, name: &str, interval: Option<Duration>) -> Vec<Departure> {
        let mut shaping = Shaping::new(build(name, &self.profile()));
        for (number, flow) in (0..).zip(&self.members) {
            shaping.allocation.join(Time::ZERO, FlowIndex(number), flow.share);
        }
        shaping.run(&self.arrivals(), interval, Time::from_secs(10));
        shaping.departures
    }
}

/// Returns the first departure that exceeds `burst + rate * window` in any window. The function
/// computes the backlog of a queue that is served at `rate`. This backlog may not exceed `burst`.
fn exceeds(profile: &Profile, departures: &[Departure]) -> Option<String> {
    let (mut held, mut last) = (0u128, Time::ZERO);
    let burst = u128::from(profile.burst().0) * 8_000_000_000;
    for it in departures {
        let drained = u128::from(profile.mean().bps()) * it.at.since(last).as_nanos();
        held = held.saturating_sub(drained);
        held += u128::from(it.bytes) * 8_000_000_000;
        last = it.at;
        if held > burst {
            return Some(format!("{held} > {burst} bit/s * ns at {:?}", it.at));
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// No allocation exceeds the profile in any window.
    ///
    /// Catches: a packet from the excess that is not charged to the bucket; a packet that is sent
    /// although the bucket is empty.
    #[test]
    fn no_time_window_exceeds_the_profile(scene in scenes()) {
        for name in AllocationSpec::NAMES {
            let over = exceeds(&scene.profile(), &scene.run(name, None));
            prop_assert!(over.is_none(), "{name}: {over:?}");
        }
    }

    /// Additional calls of the allocation release no packet earlier. The time that it
    /// returns is never too late, and a call without a grant changes nothing.
    ///
    /// Catches: a time computed without the excess of members whose part becomes full; a time
    /// computed without the unassigned part of the bucket; fractions of tokens that are lost
    /// between calls; a member that saves more than its part.
    #[test]
    fn additional_calls_change_nothing(scene in scenes(), interval in 100_000u64..3_000_000) {
        for name in AllocationSpec::NAMES {
            let (seldom, often) =
                (scene.run(name, None), scene.run(name, Some(Duration::from_nanos(interval))));
            let differs = seldom.iter().zip(&often).position(|(seldom, often)| seldom != often);
            prop_assert!(seldom == often, "{name}: {:?}", differs.map(|at| (seldom[at], often[at])));
        }
    }

    /// All packets depart within the time that the rate needs for them.
    #[test]
    fn all_waiting_packets_depart(scene in scenes()) {
        for name in AllocationSpec::NAMES {
            let arrivals = scene.arrivals();
            let bytes: u64 = arrivals.iter().map(|arrival| arrival.bytes).sum();
            let mut shaping = Shaping::new(build(name, &scene.profile()));
            for (number, flow) in (0..).zip(&scene.members) {
                shaping.allocation.join(Time::ZERO, FlowIndex(number), flow.share);
            }
            let weights: u64 = scene.members.iter().map(|flow| u64::from(flow.share.weight)).sum();
            let span = Rate::from_kbps(scene.kbps).time_for(Bytes(bytes * weights));
            shaping.run(&arrivals, None, Time::from_secs(5) + span);
            let left: u64 = shaping.departures.iter().map(|departure| departure.bytes).sum();
            prop_assert_eq!(left, bytes, "{}", name);
        }
    }

    /// `logical-partitions` gives each flow the same bytes as the recurrence of `aggregates`,
    /// computed in real numbers, to within a burst and a few packets.
    ///
    /// The recurrence deadlocks when a part is smaller than a packet, so all parts are larger here.
    ///
    /// Catches: a quantum that ignores the weight; a packet that is not charged to the bucket.
    #[test]
    fn logical_partitions_follow_the_recurrence(scene in scenes()) {
        let mut scene = scene;
        scene.kbps += 5_000;
        let rtt = |flow: &Flow| flow.share.rtt.map(|rtt| 100 + rtt.as_millis() as u64 % 200);
        let mut reach = 0;
        for flow in &mut scene.members {
            flow.share.rtt = rtt(flow).map(Duration::from_millis);
            reach += u64::from(flow.share.weight) * rtt(flow).unwrap_or(300);
        }
        scene.burst = LONGEST * reach / 100;
        let departures = scene.run("logical-partitions", None);
        let end = Time::ZERO + PHASE * 20;
        let shares: Vec<_> = scene.members.iter().map(|flow| flow.share).collect();
        let tolerance = scene.burst + 2 * LONGEST * shares.len() as u64;
        let model = shaping::recurrence(&scene.profile(), &shares, &scene.arrivals(), end);
        for (number, expected) in (0..).zip(model) {
            let got = served(&departures, FlowIndex(number), Time::ZERO, end);
            prop_assert!(got.abs_diff(expected) <= tolerance,
                "{number}: {got}, not {expected} +- {tolerance}");
        }
    }

    /// One backlogged flow may use the tokens of all other flows, so the aggregate keeps its rate.
    ///
    /// Catches: a flow that cannot use the unassigned part of the bucket.
    #[test]
    fn one_backlogged_flow_uses_the_whole_rate(scene in scenes()) {
        let mut scene = scene;
        let phases = vec![150; 20];
        scene.members.push(Flow { share: share(1, 100), len: LONGEST, phases });
        for name in AllocationSpec::NAMES.iter().filter(|name| **name != "partitioned") {
            let departures = scene.run(name, None);
            let (from, to) = (Time::from_secs(1), Time::from_secs(4));
            let all: u64 = (0..).zip(&scene.members)
                .map(|(number, _)| served(&departures, FlowIndex(number), from, to)).sum();
            let rate = Rate::from_kbps(scene.kbps).bytes_in(to.since(from)).0;
            prop_assert!(all + scene.burst + LONGEST >= rate, "{name}: {all} of {rate}");
        }
    }
}

/// Jain's fairness index. It is 1 if all rates are equal.
fn jain(rates: &[u64]) -> f64 {
    let sum: u64 = rates.iter().sum();
    let squares: u64 = rates.iter().map(|rate| rate * rate).sum();
    (sum * sum) as f64 / (rates.len() as u64 * squares) as f64
}

/// Bytes that each flow sent in the last 20 of 30 s. `demands` are in kbit/s.
fn offered(name: &str, demands: &[u64], shares: &[Share]) -> Vec<u64> {
    let end = Time::from_secs(30);
    let mut shaping = Shaping::new(build(name, &profile(800, 32_000)));
    let mut arrivals = Vec::new();
    for (number, (demand, share)) in (0..).zip(demands.iter().zip(shares)) {
        shaping.allocation.join(Time::ZERO, FlowIndex(number), *share);
        let rate = Rate::from_kbps(*demand);
        arrivals.extend(constant(FlowIndex(number), 1_000, rate, Time::ZERO, end));
    }
    arrivals.sort_by_key(|arrival| (arrival.at, arrival.member));
    shaping.run(&arrivals, None, end);
    let members = (0..).zip(demands).map(|(number, _)| FlowIndex(number));
    members.map(|it| served(&shaping.departures, it, Time::from_secs(10), end)).collect()
}

fn shares_of_the_paper() -> [Share; 4] {
    [50, 300, 300, 600].map(|rtt| share(1, rtt))
}

/// Four flows come from links of 1000, 500, 500 and 100 kbit/s. With `partitioned`, the tokens that
/// the slow flow does not use are lost. With `logical-partitions`, the other flows share them.
///
/// Source: `aggregates`, figures 5 and 10b.
#[test]
fn partitioned_wastes_the_rate_that_a_slow_flow_does_not_use() {
    let demands = [1_000, 500, 500, 100];
    let used = |name| offered(name, &demands, &shares_of_the_paper()).iter().sum::<u64>();
    let all = 800_000 / 8 * 20;
    let partitioned = used("partitioned");
    assert!(partitioned.abs_diff(all * 7 / 8) < all / 100, "{partitioned} of {all}");
    let logical = used("logical-partitions");
    assert!(logical.abs_diff(all) < all / 200, "{logical} of {all}");
    let each = offered("logical-partitions", &demands, &shares_of_the_paper());
    let level = (all - each[3]) / 3;
    assert!(each[..3].iter().all(|got| got.abs_diff(level) < level / 100), "{each:?}");
}

#[test]
fn equal_demands_get_equal_rates_at_any_round_trip_times() {
    for name in ["logical-partitions", "partitioned", "drr"] {
        let each = offered(name, &[500; 4], &shares_of_the_paper());
        assert!(jain(&each) > 0.999, "{name}: {each:?}");
    }
}

#[test]
fn weights_divide_the_rate_and_the_unused_part_of_a_flow() {
    let shares = [1, 2, 4, 1].map(|weight| share(weight, 100));
    for name in ["logical-partitions", "drr"] {
        let each = offered(name, &[900, 900, 900, 20], &shares);
        let level = (800_000 / 8 * 20 - 20_000 / 8 * 20) / 7;
        for (got, weight) in each.iter().zip([1, 2, 4]) {
            assert!(got.abs_diff(level * weight) < level * weight / 100, "{name}: {each:?}");
        }
    }
}

/// Catches: a part that is still reserved for members that were removed or are idle.
#[test]
fn no_tokens_are_reserved_for_removed_or_idle_members() {
    let mut shaping = Shaping::new(build("logical-partitions", &profile(800, 32_000)));
    for number in 0..3 {
        shaping.allocation.join(Time::ZERO, FlowIndex(number), share(1, 100));
    }
    let (end, at) = (Time::from_secs(1), Time::from_secs(4));
    let busy = constant(FlowIndex(0), 1_000, Rate::from_kbps(500), Time::ZERO, end);
    shaping.run(&busy, None, Time::from_secs(3));
    shaping.allocation.remove(Time::from_secs(3), FlowIndex(2));
    let burst = [Arrival { at, member: FlowIndex(1), bytes: 1_000 }; 32];
    shaping.departures.clear();
    shaping.run(&burst, None, Time::from_secs(5));
    assert!(shaping.departures.iter().all(|departure| departure.at == at));
    assert_eq!(shaping.departures.len(), burst.len());
}

/// Average number of look-ups of a flow's first packet, for each packet sent. Flows send two
/// packets of 100 bytes each, one flow after the other. The total rate is `mbps`, and the mean rate
/// of the profile is 300 Mbit/s.
fn look_ups_per_packet(name: &str, members: u32, mbps: u64) -> f64 {
    let mut shaping = Shaping::new(build(name, &profile(300_000, 3_750_000)));
    (0..members).for_each(|it| shaping.allocation.join(Time::ZERO, FlowIndex(it), share(1, 0)));
    let every = Rate::from_mbps(mbps).time_for(Bytes(200));
    let arrivals: Vec<_> = (0..20_000u32)
        .flat_map(|nth| {
            let (at, member) = (Time::ZERO + every * nth, FlowIndex(nth % members));
            [Arrival { at, member, bytes: 100 }; 2]
        })
        .collect();
    shaping.run(&arrivals, None, Time::from_secs(100));
    assert_eq!(shaping.departures.len(), arrivals.len(), "{name}");
    shaping.queues.look_ups.get() as f64 / arrivals.len() as f64
}

/// The offered load is a tenth of the mean rate, and then one and a half times the mean rate.
///
/// Catches: `logical-partitions` with a quantum of an eighth of a packet, which needs eight
/// look-ups.
#[test]
fn a_packet_takes_at_most_three_look_ups_among_100_and_among_10_000_members() {
    for (name, mbps) in AllocationSpec::NAMES.iter().flat_map(|name| [(name, 31), (name, 450)]) {
        let look_ups = [100, 10_000].map(|it| look_ups_per_packet(name, it, mbps));
        println!("{name}, {mbps} Mbit/s: {look_ups:?}");
        assert!(look_ups.iter().all(|it| *it <= 3.0), "{name}, {mbps} Mbit/s: {look_ups:?}");
    }
}

/// While 99 flows are idle and save tokens, one flow takes the upper half of the bucket and all
/// excess. Then all flows send more than their shares. The one flow gets its share at once,
/// although the others first use their savings.
///
/// Catches: parts that divide the whole burst, so that the savings of others use up all tokens.
#[test]
fn a_flow_gets_its_share_while_other_flows_use_their_savings() {
    let mut shaping = Shaping::new(build("logical-partitions", &profile(30_000, 375_000)));
    (0..100).for_each(|it| shaping.allocation.join(Time::ZERO, FlowIndex(it), share(1, 0)));
    let eager = FlowIndex(99);
    let [joins, busy_at, end] = [2_500, 3_000, 5_000].map(Time::from_millis);
    let mut arrivals = constant(eager, 1_000, Rate::from_mbps(40), joins, end);
    for it in 0..99 {
        let begins = Time::from_millis(it.into());
        arrivals.extend(constant(FlowIndex(it), 1_000, Rate::from_kbps(27), begins, busy_at));
        arrivals.extend(constant(FlowIndex(it), 1_000, Rate::from_kbps(600), busy_at, end));
    }
    arrivals.sort_by_key(|arrival| (arrival.at, arrival.member));
    shaping.run(&arrivals, None, end);
    for from in (3_200..5_000).step_by(200).map(Time::from_millis) {
        let to = from + Duration::from_millis(200);
        let got = served(&shaping.departures, eager, from, to);
        let fair = Rate::from_kbps(300).bytes_in(to.since(from)).0;
        assert!(got + 1_000 >= fair, "{got} B from {from:?}, not {fair}");
    }
}
