//! Files that travel through an aggregate gateway from client to sink.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::link::Loss;
use tidegate_core::wheel::TimerWheel;
use tidegate_core::{Bytes, Chance, Factor, itcp};

use super::*;
use crate::results::Results;
use crate::scenario::{Distribution, Kind, Overflow, Probe, Scenario, Start};
use crate::table::Table;
use crate::testing::gathered;

const SECOND: Duration = Duration::from_secs(1);

/// Limit of the queue, smaller than the files of these tests.
const QUEUE: Bytes = Bytes(30_000);

const SLOW: Overflow = Overflow::Slow { queue: QUEUE, buffer: None };

fn file(bytes: u64) -> Kind {
    Kind::File { size: Distribution::Constant(Bytes(bytes)) }
}

fn arrivals(every_ms: u64, bytes: u64) -> Kind {
    let (every, size) = (Duration::from_millis(every_ms), Distribution::Exponential(Bytes(bytes)));
    Kind::Arrivals { every, size }
}

fn play(scenario: &Scenario) -> Engine<'_, TimerWheel> {
    assert_eq!(scenario.check(), []);
    let mut engine = Engine::new(scenario);
    assert!(engine.play(|_| ControlFlow::Continue(())).is_continue());
    engine.check_conservation();
    engine
}

fn results(scenario: &Scenario) -> Results {
    Results::new(scenario, play(scenario))
}

/// Seconds that each transfer of flow number `flow` took.
fn sojourns(transfers: &Table, flow: u64) -> Vec<f64> {
    let took = transfers.whole("flow").iter().zip(transfers.real("took_seconds"));
    took.filter(|(it, _)| **it == flow).map(|(_, took)| *took).collect()
}

/// Makes the link from `a` to `b` lose `percent` of its packets.
fn lossy(scenario: &mut Scenario, a: &str, b: &str, percent: u32) {
    let link = scenario.links.iter_mut().find(|it| it.a.node == a && it.b.node == b);
    let there = link.and_then(|it| it.forward.as_mut()).unwrap();
    Arc::make_mut(there).loss = Loss::Bernoulli(Chance::from_ppb(percent * 10_000_000));
}

fn all_overflows() -> [Overflow; 4] {
    let buffer = Some(Bytes(4_000));
    let slow = Overflow::Slow { queue: QUEUE, buffer };
    [Overflow::Grow, SLOW, slow, Overflow::Withhold { queue: QUEUE }]
}

/// Catches: a lost byte, or a byte credited to the wrong file; a transfer time that ends at the
/// gateway; a local connection that stays open; a transfer counted twice.
#[test]
fn files_arrive_whole_under_each_overflow_and_with_losses() {
    for overflow in all_overflows() {
        for percent in [0, 3] {
            let mut scenario = gathered(2, 3, &file(300_000), overflow);
            scenario.run.duration = 30 * SECOND;
            lossy(&mut scenario, "r", "sink", percent);
            let engine = play(&scenario);
            assert_eq!(engine.streams.iter().count(), 2, "{overflow:?}");
            let files = engine.aggregates.iter().map(|it| (it.files(), it.connections()));
            assert_eq!(files.collect::<Vec<_>>(), [(0, 0); 2]);
            let results = Results::new(&scenario, engine);
            let transfers = results.table("transfers").unwrap();
            assert_eq!(transfers.whole("bytes"), [300_000; 6], "{overflow:?}");
            let flows = results.table("flows").unwrap();
            let expected: Vec<u64> = [vec![300_000; 6], vec![900_000; 2]].concat();
            assert_eq!(flows.whole("goodput_bytes"), expected);
            assert_eq!(results.table("groups").unwrap().whole("failed_transfers"), [0; 4]);
            // The shortest time: 1.8 MB at 10 Mbit/s, plus headers.
            let took = transfers.real("took_seconds").iter().copied().fold(0.0, f64::max);
            assert!((1.4..20.0).contains(&took), "{overflow:?}: {took}");
        }
    }
}

/// A short file that arrives during a long one finishes first. Both share the connection, so the
/// short file takes about twice the time that it takes alone.
///
/// Catches: first come, first served, by which the short file would wait for the end of the long
/// one.
#[test]
fn files_share_the_aggregate_connection_by_segment() {
    // `Withhold` is left out: withheld ACKs lead to timeouts at both clients.
    for overflow in &all_overflows()[..3] {
        let mut scenario = gathered(1, 2, &file(6_000_000), *overflow);
        let mut short = scenario.traffic[0].clone();
        short.pairs = vec![short.pairs[1].clone()];
        short.name = "short".into();
        short.kind = file(100_000);
        short.start = Start::At(SECOND);
        scenario.traffic[0].pairs.truncate(1);
        scenario.traffic.insert(1, short);
        if let Kind::Aggregate { of, .. } = &mut scenario.traffic[2].kind {
            of.push("short".into());
        }
        let results = results(&scenario);
        let transfers = results.table("transfers").unwrap();
        let [long, short] = [0, 1].map(|flow| sojourns(transfers, flow)[0]);
        // 6 MB take 5 s. 100 kB take 0.083 s alone, and 0.17 s beside one other file.
        assert!((4.9..5.6).contains(&long), "{overflow:?}: {long}");
        assert!((0.16..0.2).contains(&short), "{overflow:?}: {short}");
    }
}

/// Catches: a gateway without a limit; a gateway that never reads again after it was full; an
/// ignored limit of a single file.
#[test]
fn a_slow_gateway_holds_no_more_than_its_bounds_and_fills_the_link() {
    for buffer in [None, Some(Bytes(6_000))] {
        let overflow = Overflow::Slow { queue: QUEUE, buffer };
        let mut scenario = gathered(1, 3, &Kind::Greedy, overflow);
        scenario.run.warmup = SECOND;
        let mut engine: Engine<'_, TimerWheel> = Engine::new(&scenario);
        let mut most = 0;
        let look = |engine: &Engine<'_, TimerWheel>| engine.aggregates[0].queue();
        while let Some((at, part)) = engine.next() {
            engine.now = at;
            engine.call(part);
            most = most.max(look(&engine));
        }
        engine.now = engine.end;
        engine.check_conservation();
        let bound = buffer.map_or(QUEUE.0, |it| 3 * (it.0 + 1_460));
        assert!(most <= bound && most > bound / 2, "{most} of {bound}");
        let results = Results::new(&scenario, engine);
        let goodput = results.table("groups").unwrap().real("goodput_bps");
        assert!(goodput[1] > 9.2e6, "{goodput:?}");
        let flows = results.table("flows").unwrap().real("goodput_bps");
        let fair = flows[..3].iter().all(|it| (it / flows[0] - 1.0).abs() < 0.05);
        assert!(fair, "{flows:?}");
    }
}

/// Catches: ACKs that are not withheld above the threshold, and ACKs that are never sent again
/// below it.
#[test]
fn withheld_acks_bound_the_mean_queue() {
    let queue = Bytes(200_000);
    let most = |overflow| {
        let mut scenario = gathered(1, 2, &Kind::Greedy, overflow);
        scenario.run.duration = 6 * SECOND;
        let mut engine: Engine<'_, TimerWheel> = Engine::new(&scenario);
        let mut most = 0;
        while let Some((at, part)) = engine.next() {
            engine.now = at;
            engine.call(part);
            most = most.max(engine.aggregates[0].queue());
        }
        engine.now = engine.end;
        engine.check_conservation();
        let results = Results::new(&scenario, engine);
        (most, results.table("groups").unwrap().real("goodput_bps")[1])
    };
    let (grown, _) = most(Overflow::Grow);
    let (held, goodput) = most(Overflow::Withhold { queue });
    assert!(grown > 20_000_000, "{grown}");
    // The clients fill their windows at 200 Mbit/s before the mean rises.
    assert!(held > queue.0 && held < grown / 4, "{held} of {grown}");
    // While the clients time out, the queue may run empty.
    assert!(goodput > 5e6, "{goodput}");
}

/// Catches: several bursts or writes of a trace counted as one transfer; a pause that starts only
/// when the sink has all bytes.
#[test]
fn transfers_of_longer_local_connections_are_distinguished() {
    let burst = Distribution::Constant(Bytes(20_000));
    let pause = Distribution::Constant(Duration::from_millis(200));
    let writes = (0..20).map(|n| (Duration::from_millis(300 * n), Bytes(20_000))).collect();
    let kinds = [
        Kind::OnOff { burst, pause, reconnect: false },
        Kind::OnOff { burst, pause, reconnect: true },
        Kind::Trace { writes },
        arrivals(300, 20_000),
    ];
    for kind in kinds {
        let results = results(&gathered(1, 2, &kind, Overflow::Grow));
        let transfers = results.table("transfers").unwrap();
        let took = sojourns(transfers, 0);
        assert!((20..60).contains(&took.len()), "{kind:?}: {}", took.len());
        assert!(took.iter().all(|it| (0.005..0.3).contains(it)), "{kind:?}: {took:?}");
        let bytes: u64 = transfers.whole("bytes").iter().sum();
        let goodput: u64 = results.table("flows").unwrap().whole("goodput_bytes")[2];
        assert!(goodput.abs_diff(bytes) < 60_000, "{kind:?}: {goodput} of {bytes}");
    }
}

/// Catches: a gateway that discards files that arrive before its aggregate connection is open.
#[test]
fn files_wait_for_an_aggregate_connection_that_begins_later() {
    let mut scenario = gathered(1, 3, &file(50_000), SLOW);
    scenario.traffic[1].start = Start::At(3 * SECOND);
    let results = results(&scenario);
    let transfers = results.table("transfers").unwrap();
    assert_eq!(transfers.whole("bytes"), [50_000; 3]);
    assert!(transfers.real("took_seconds").iter().all(|it| (2.9..3.5).contains(it)));
}

/// Catches: local connections that continue after their aggregate connection has failed; a transfer
/// counted as failed twice; a lost transfer that is not counted because its local connection had
/// closed.
#[test]
fn when_the_aggregate_connection_fails_all_transfers_fail() {
    for overflow in [Overflow::Grow, SLOW] {
        let mut scenario = gathered(1, 3, &file(500_000), overflow);
        lossy(&mut scenario, "r", "sink", 100);
        scenario.run.duration = Duration::from_secs(300);
        let mut late = scenario.traffic[0].clone();
        (late.name, late.start) = ("late".into(), Start::At(Duration::from_secs(250)));
        scenario.traffic.insert(1, late);
        if let Kind::Aggregate { of, .. } = &mut scenario.traffic[2].kind {
            of.push("late".into());
        }
        let engine = play(&scenario);
        assert_eq!(engine.streams.iter().count(), 0);
        let results = Results::new(&scenario, engine);
        assert_eq!(results.table("groups").unwrap().whole("failed_transfers"), [3, 3, 0]);
        assert_eq!(results.table("transfers").unwrap().whole("bytes"), []);
    }
}

/// Catches: a file that stays in the gateway for ever after its client has failed.
#[test]
fn a_local_connection_that_fails_leaves_the_others_alone() {
    let mut scenario = gathered(1, 2, &arrivals(100, 20_000), SLOW);
    lossy(&mut scenario, "c0-0", "g0", 60);
    scenario.traffic[0].stop = Some(5 * SECOND);
    scenario.run.duration = Duration::from_secs(2_000);
    let engine = play(&scenario);
    assert_eq!(engine.aggregates[0].files(), 0);
    let results = Results::new(&scenario, engine);
    let failed = results.table("groups").unwrap().whole("failed_transfers")[0];
    assert!(failed > 0, "{failed}");
    assert!(sojourns(results.table("transfers").unwrap(), 1).len() > 30);
}

/// Gives the aggregate connection of `site` a rate adjuster that samples every 50 ms, with 20
/// samples in a round.
fn adjust(scenario: &mut Scenario, site: usize, kind: itcp::LawKind, weight: u32) {
    let (samples, every, weight) = (20, Duration::from_millis(50), Factor::whole(weight));
    let config = itcp::Config { kind, samples, every, weight, ..itcp::Config::default() };
    let traffic = scenario.traffic.iter_mut().filter(|it| it.name == format!("long{site}"));
    for it in traffic {
        if let Kind::Aggregate { weight, .. } = &mut it.kind {
            *weight = Some(Box::new(config.clone()));
        }
    }
}

/// Records series of the gateway of `site`, ten samples a second.
fn watch(scenario: &mut Scenario, site: usize) {
    scenario.run.sample = Some(Duration::from_millis(100));
    scenario.probes.push(Probe::Aggregate { traffic: format!("long{site}") });
}

/// Catches: a weight that does not reach the congestion control; an initial weight that is lost
/// because it is set before the connection opens; shares computed over the wrong sink.
#[test]
fn shares_follow_the_weights() {
    let mut scenario = gathered(2, 2, &Kind::Greedy, SLOW);
    for (site, weight) in [(0, 6), (1, 2)] {
        adjust(&mut scenario, site, itcp::LawKind::Fixed, weight);
        watch(&mut scenario, site);
    }
    scenario.run.duration = 20 * SECOND;
    scenario.run.warmup = 8 * SECOND;
    let results = results(&scenario);
    let goodput = results.table("groups").unwrap().real("goodput_bps");
    let ratio = goodput[2] / goodput[3];
    assert!((2.6..3.4).contains(&ratio), "{goodput:?}");
    let first = results.table("aggregate long0").unwrap();
    let last = |name: &str| *first.real(name).last().unwrap();
    assert_eq!([last("weight"), last("weight_share")], [6.0, 0.75]);
    assert!(last("busy_seconds") > 19.0 && last("together_seconds") > 19.0);
    let rounds = results.table("adjustments long0").unwrap().real("weight");
    assert!(rounds.len() > 10 && rounds.iter().all(|it| it.to_bits() == 6_f64.to_bits()));
}

/// Catches: an adjuster that is never called, or that sees the queue of another gateway; weights
/// beyond their bounds; a decision that is not recorded.
#[test]
fn a_measured_weight_follows_the_load() {
    // The sites offer 6 and 1.2 Mbit/s to a link of 10 Mbit/s.
    let mut scenario = gathered(2, 5, &arrivals(250, 37_500), Overflow::Grow);
    scenario.traffic[1].kind = arrivals(1_250, 37_500);
    for site in [0, 1] {
        adjust(&mut scenario, site, itcp::LawKind::Measured, 3);
        watch(&mut scenario, site);
    }
    scenario.run.duration = 60 * SECOND;
    let results = results(&scenario);
    let table = |name| results.table(name).unwrap();
    for name in ["adjustments long0", "adjustments long1"] {
        let rounds = table(name);
        let weights = rounds.real("weight");
        assert!((30..60).contains(&weights.len()), "{weights:?}");
        assert!(weights.iter().all(|it| (1.0..=10.0).contains(it)), "{weights:?}");
        let offered: f64 = rounds.real("offered_bps").iter().sum();
        let expected = if name.ends_with('0') { 6e6 } else { 1.2e6 };
        let mean = offered / 1e6 / weights.iter().map(|_| 1.0).sum::<f64>();
        assert!((0.6..1.5).contains(&(mean * 1e6 / expected)), "{name}: {mean} Mbit/s");
    }
    let [first, second] = ["aggregate long0", "aggregate long1"].map(|it| table(it).real("weight"));
    let mean = |it: &[f64]| it.iter().sum::<f64>() / it.iter().map(|_| 1.0).sum::<f64>();
    assert!(mean(first) > 1.2 * mean(second), "{} {}", mean(first), mean(second));
}

/// Catches: a weight bounded by the number of connections at the end of the last round instead of
/// the present number.
#[test]
fn the_number_of_connections_bounds_the_weight() {
    let mut scenario = gathered(1, 3, &arrivals(1_000, 20_000), Overflow::Grow);
    adjust(&mut scenario, 0, itcp::LawKind::Measured, 3);
    watch(&mut scenario, 0);
    if let Kind::Aggregate { weight: Some(config), .. } = &mut scenario.traffic[1].kind {
        config.most = itcp::Most::Connections;
    }
    let results = results(&scenario);
    let weights = results.table("aggregate long0").unwrap().real("weight");
    assert!(weights.iter().all(|it| (1.0..=5.0).contains(it)), "{weights:?}");
}

/// Catches: a run that depends on more than its seed, such as the order of a hash map.
#[test]
fn the_same_seed_gives_the_same_run() {
    for overflow in all_overflows() {
        let mut scenario = gathered(2, 3, &arrivals(50, 40_000), overflow);
        lossy(&mut scenario, "r", "sink", 1);
        adjust(&mut scenario, 0, itcp::LawKind::Measured, 3);
        adjust(&mut scenario, 1, itcp::LawKind::Literal, 3);
        assert!(results(&scenario) == results(&scenario));
    }
}
