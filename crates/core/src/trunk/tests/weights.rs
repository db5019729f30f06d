//! Tests of trunks with a weight, which is constant or follows the load of their users. A trunk
//! carries user packets between two gateways. Its share of the path grows with the weight, which is
//! the number of its management connections (TCP without payload), or a parameter of its congestion
//! control.

use super::*;
use crate::Factor;
use crate::itcp;
use crate::link::Link;

/// A queue with room for 16 connections: `trunk-fifo` begins to drop at half of its threshold.
const DEEP: &str = "{ kind = \"trunk-fifo\", limit = \"1 MB\", threshold = 256 }";

/// A constant weight.
fn fixed(weight: u32) -> itcp::Config {
    let most = itcp::Most::Constant(MOST_WEIGHT.into());
    itcp::Config { weight: Factor::whole(weight), most, ..itcp::Config::default() }
}

/// The law `measured` with rounds of 2 s, so that a short test has many rounds.
fn measured(weight: u32) -> itcp::Config {
    let every = Duration::from_millis(100);
    itcp::Config { kind: itcp::LawKind::Measured, samples: 20, every, ..fixed(weight) }
}

fn management(weight: itcp::Config) -> Config {
    let mut config = Config { weight: Some(weight), ..config() };
    config.tcp.details = begin(config.tcp.details);
    config
}

fn vegas(weight: itcp::Config) -> Config {
    let mut config = Config { probing: Probing::Vegas, ..management(weight) };
    config.tcp.congestion = super::vegas();
    config
}

/// Offers packets of 1,500 bytes at `rate`.
fn load(rate: Rate) -> impl FnMut(&mut Pair) {
    let each = rate.time_for(Bytes(1_500));
    let mut next = Time::ZERO;
    move |pair| {
        if next == Time::ZERO {
            next = pair.now;
        }
        while next <= pair.now {
            if pair.ends[0].backlog().packets < 50 {
                pair.offer(0, 1_500);
            }
            next += each;
        }
    }
}

/// Advances time in steps shorter than the time between two packets.
fn offer(pair: &mut Pair, span: Duration, rate: Rate) {
    let (until, mut load) = (pair.now + span, load(rate));
    while pair.now < until {
        pair.run(pair.now + Duration::from_millis(1), &mut load);
    }
}

fn weight(pair: &Pair) -> f64 {
    pair.ends[0].report().weight.unwrap().weight.real()
}

/// Catches: a weight that does not reach the congestion control; a trunk that opens one connection
/// for each unit of weight.
#[test]
fn weighted_vegas_fills_a_path_with_a_queue_in_proportion_to_its_weight() {
    let queues = [2, 8].map(|weight| {
        let mut pair = Pair::new(&vegas(fixed(weight)), &path(DEEP));
        pair.run(seconds(10), greedy(50, &[1_500]));
        let (mut sum, mut count) = (0, 0);
        pair.run(seconds(20), |pair| {
            greedy(50, &[1_500])(pair);
            sum += pair.links[0].backlog().bytes.0;
            count += 1;
        });
        pair.check_conservation();
        assert_eq!(pair.tally.drops.total(), 0, "weight {weight}");
        let bytes = pair.bytes_since(seconds(10));
        assert!(bytes > 10 * 1_250_000 * 95 / 100, "weight {weight}: {bytes}");
        assert_eq!(pair.ends[0].report().state.active, 1);
        sum / count
    });
    // For each unit of weight, two management packets and their user packets wait.
    let ratio = queues[1] * 10 / queues[0];
    assert!((25..55).contains(&ratio), "{queues:?}");
}

/// Catches: a trunk with a weight that still uses `connections` connections; a weight that is
/// rounded down; flow keys of the active connections only.
#[test]
fn a_weight_is_the_number_of_active_connections_out_of_sixteen() {
    for (millionths, expected) in [(1_000_000, 1), (2_500_000, 3), (16_000_000, 16)] {
        let weight = itcp::Config { weight: Factor::from_millionths(millionths), ..fixed(1) };
        let config = management(weight);
        let mut pair = Pair::new(&config, &path(LOSSLESS));
        pair.run(seconds(5), greedy(50, &[1_500]));
        pair.check_conservation();
        assert_eq!(pair.ends[0].report().state.active, expected);
        assert_eq!(pair.ends[0].arriving().count(), 2 * usize::from(MOST_WEIGHT));
        let bytes = pair.bytes_since(seconds(2));
        assert!(bytes > 3 * 1_250_000 * 90 / 100, "{expected}: {bytes}");
    }
}

/// Catches: a change of the weight that opens new connections; lost credit of a connection that becomes inactive;
/// packets that a change drops or sends twice.
#[test]
fn a_change_of_the_number_of_connections_loses_no_packet() {
    let mut pair = Pair::new(&management(fixed(8)), &path(LOSSLESS));
    let mut sent = 0_u32;
    let mut offered = |pair: &mut Pair| {
        while pair.ends[0].backlog().packets < 50 {
            // The lengths repeat in a fixed order. So the order of arrivals shows losses and duplicates.
            pair.offer(sent % 3, 100 + sent % 1_400);
            sent += 1;
        }
    };
    for (second, weight) in (1..).zip([1, 16, 2, 9, 1, 12]) {
        pair.run(seconds(second), &mut offered);
        let before = pair.ends[0].counts();
        pair.change(&management(fixed(weight)));
        assert_eq!(u32::from(pair.ends[0].report().state.active), weight);
        assert_eq!(pair.ends[0].counts(), before);
    }
    pair.run(seconds(9), &mut offered);
    let bytes = pair.bytes_since(seconds(8));
    assert!(bytes > 1_250_000 * 85 / 100, "{bytes}");
    pair.run(seconds(12), |_| ());
    assert_eq!(pair.ends[0].backlog().packets, 0);
    pair.check_conservation();
    assert_eq!(pair.tally.drops.of(crate::Reason::QueueFull), 0);
    let arrived: Vec<_> = pair.arrived.iter().map(|it| it.packet.len).collect();
    assert_eq!(arrived, (0..sent).map(|n| 100 + n % 1_400).collect::<Vec<_>>());
}

/// Catches: a load that is not counted; time without a backlog counted as busy; a new weight that is never applied.
#[test]
fn a_measured_weight_rises_with_load_and_falls_without_load() {
    for config in [vegas(measured(4)), management(measured(4))] {
        let mut pair = Pair::new(&config, &path(LOSSLESS));
        offer(&mut pair, Duration::from_secs(25), Rate::from_mbps(20));
        let loaded = weight(&pair);
        let round = pair.ends[0].report().weight.and_then(|it| it.last).unwrap();
        assert!(round.busy > Factor::from_millionths(950_000), "{round:?}");
        assert!(loaded > 5.5, "{:?}: {loaded}", config.probing);
        if config.probing == Probing::Management {
            assert!((f64::from(pair.ends[0].report().state.active) - loaded).abs() <= 0.5);
        }
        // The packets that wait at the start still make the first round busy.
        offer(&mut pair, Duration::from_secs(40), Rate::from_kbps(500));
        let light = weight(&pair);
        assert!(light < loaded / 2.0, "{:?}: {light}", config.probing);
        let report = pair.ends[0].report().weight.unwrap();
        let offered = report.last.unwrap().offered;
        assert!((480_000..=520_000).contains(&offered.bps()), "{offered}");
        assert!(report.decisions.increased > 2 && report.decisions.decreased > 2, "{report:?}");
        assert_eq!(pair.tally.drops.of(crate::Reason::QueueFull), 0);
        pair.check_conservation();
    }
}

/// Without load, the trunk sends no packet, although the rate adjuster takes many samples.
///
/// Catches: samples of the rate adjuster that make idle connections send.
#[test]
fn a_measured_weight_of_an_idle_trunk_sends_nothing() {
    let mut pair = Pair::new(&management(measured(4)), &path(LOSSLESS));
    pair.run(seconds(60), |_| ());
    assert_eq!(pair.ends[0].counts(), TrunkCounters::default());
    assert!(pair.ends[0].poll_timeout().is_some());
}

/// Catches: gateways with different weights that expect different numbers of connections.
#[test]
fn gateways_with_different_weights_match_and_one_without_a_weight_does_not() {
    let back = |config: Config| Config { local: config.peer, peer: config.local, ..config };
    let all = [
        management(fixed(2)),
        management(measured(4)),
        vegas(fixed(3)),
        vegas(measured(1)),
        config(),
    ];
    let kinds = [0, 0, 1, 1, 2];
    for (one, kind) in all.iter().zip(kinds) {
        for (other, other_kind) in all.iter().zip(kinds) {
            assert_eq!(one.is_other_end_of(&back(other.clone())), kind == other_kind);
        }
    }
}

/// The path fails and recovers. The inactive connections do not delay the detection of the failure.
///
/// Catches: a dead gateway that counts as alive because inactive connections have no timeouts.
#[test]
fn a_gateway_is_dead_when_the_active_connections_get_no_answer() {
    let config = Config { fallback: Fallback::Direct, ..management(fixed(3)) };
    let mut pair = Pair::new(&config, &path(LOSSLESS));
    pair.run(seconds(5), greedy(20, &[1_500]));
    let broken = LinkConfig { loss: Loss::Bernoulli(Chance::ALWAYS), ..path(LOSSLESS) };
    let there = std::mem::replace(&mut pair.links[0], Link::new(&broken, 3, 9));
    let mut each = 0;
    let mut few = |pair: &mut Pair| {
        if pair.now >= Time::from_millis(each) {
            pair.offer(0, 1_000);
            each = pair.now.nanos() / 1_000_000 + 20;
        }
    };
    offer_until(&mut pair, 15, &mut few);
    assert!(pair.ends[0].counts().past > 0);
    pair.links[0] = there;
    offer_until(&mut pair, 40, &mut few);
    let before = pair.ends[0].counts();
    offer_until(&mut pair, 42, &mut few);
    let after = pair.ends[0].counts();
    assert_eq!(after.past, before.past);
    assert!(after.elastic > before.elastic + 50_000, "{before:?} {after:?}");
}

fn offer_until(pair: &mut Pair, until: u64, each: &mut impl FnMut(&mut Pair)) {
    while pair.now < seconds(until) {
        pair.run(pair.now + Duration::from_millis(10), &mut *each);
    }
}
