//! Tests of relays with every kind of TCP traffic.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::link::Loss;
use tidegate_core::wheel::TimerWheel;
use tidegate_core::{Bytes, Chance};

use super::*;
use crate::results::Results;
use crate::scenario::{Distribution, Kind, Scenario};
use crate::testing::relayed;

const BUFFER: Bytes = Bytes(30_000);

const FILE: u64 = 20_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn kinds() -> [Kind; 5] {
    let size = Distribution::Constant(Bytes(FILE));
    let (pause, request) = (Distribution::Constant(ms(200)), Distribution::Constant(Bytes(300)));
    let writes = (0..20).map(|n| (ms(300 * n), Bytes(FILE))).collect();
    [
        Kind::Arrivals { every: ms(300), size },
        Kind::OnOff { burst: size, pause, reconnect: true },
        Kind::OnOff { burst: size, pause, reconnect: false },
        Kind::Web { request, answer: size, think: pause },
        Kind::Trace { writes },
    ]
}

/// A relay of two flows that runs for 8 s.
fn scenario(kind: &Kind) -> Scenario {
    let mut scenario = relayed(2, kind.clone(), BUFFER);
    scenario.run.duration = Duration::from_secs(8);
    scenario
}

/// Makes the link from router `from` to router `to` lose `percent` of its packets.
fn lossy(scenario: &mut Scenario, from: &str, to: &str, percent: u32) {
    let link = scenario.links.iter_mut().find(|it| it.a.node == from && it.b.node == to);
    let there = link.and_then(|it| it.forward.as_mut()).unwrap();
    Arc::make_mut(there).loss = Loss::Bernoulli(Chance::from_ppb(percent * 10_000_000));
}

fn results(scenario: &Scenario) -> Results {
    assert_eq!(scenario.check(), []);
    let mut engine: Engine<'_, TimerWheel> = Engine::new(scenario);
    assert!(engine.play(|_| ControlFlow::Continue(())).is_continue());
    engine.check_conservation();
    Results::new(scenario, engine)
}

/// The bytes and the durations in seconds of all transfers of a group.
fn transfers(results: &Results, group: &str) -> (Vec<u64>, Vec<f64>) {
    let table = results.table("transfers").unwrap();
    let rows = table.text("group").iter().zip(table.whole("bytes"));
    let rows = rows.zip(table.real("took_seconds")).filter(|((name, _), _)| *name == group);
    rows.map(|((_, bytes), took)| (*bytes, *took)).unzip()
}

/// The path through both connections takes 40 ms longer than the first connection.
///
/// Catches: a second connection that carries the data of another; a transfer that counts as
/// complete at the relay; all transfers of a connection counted as one; a client whose think time
/// begins when the answer reaches the relay; a request that never reaches the server.
#[test]
fn each_transfer_passes_both_connections() {
    for kind in kinds() {
        for percent in [0, 1] {
            let mut scenario = scenario(&kind);
            lossy(&mut scenario, "r", "q", percent);
            let results = results(&scenario);
            let [(first, half), (second, whole)] =
                ["all", "onward"].map(|name| transfers(&results, name));
            assert!(first.len() >= 30, "{kind:?}: {}", first.len());
            let late = first.len() - second.len();
            assert!(late <= 4, "{kind:?}: {late}");
            assert!(first.iter().chain(&second).all(|it| *it == FILE), "{kind:?}");
            let least = |all: &[f64]| all.iter().copied().fold(f64::MAX, f64::min);
            assert!(least(&whole) > least(&half) + 0.009, "{kind:?}");
            assert_eq!(results.table("groups").unwrap().whole("failed_transfers"), [0, 0]);
        }
    }
}

/// Catches: a second relay in a row that opens no third connection, or forwards to the wrong one.
#[test]
fn two_relays_in_a_row_pass_each_transfer() {
    for kind in kinds() {
        let mut scenario = scenario(&kind);
        let mut back = scenario.traffic[1].clone();
        back.name = "back".into();
        back.kind = Kind::Relay { of: "onward".into(), buffer: BUFFER };
        back.pairs.iter_mut().for_each(|pair| std::mem::swap(&mut pair.from, &mut pair.to));
        scenario.traffic.push(back);
        let results = results(&scenario);
        let counts = ["all", "onward", "back"].map(|name| transfers(&results, name).0.len());
        assert!(counts[2] >= 20 && counts[0] <= counts[2] + 6, "{kind:?}: {counts:?}");
    }
}

/// Catches: a client that waits for ever after a failure; a failure that is counted for only one of
/// the two groups.
#[test]
fn sources_continue_when_a_connection_of_the_chain_fails() {
    for kind in kinds().into_iter().take(4) {
        let mut scenario = scenario(&kind);
        lossy(&mut scenario, "r", "q", 100);
        scenario.run.duration = Duration::from_secs(400);
        let results = results(&scenario);
        let failed = results.table("groups").unwrap().whole("failed_transfers");
        assert!(failed[1] >= 2, "{kind:?}: {failed:?}");
        assert_eq!(transfers(&results, "onward").0, []);
    }
}
