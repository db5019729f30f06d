//! Links that change during a run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use tidegate_core::Rate;
use tidegate_core::link::LinkChange;
use tidegate_sim::scenario::{Change, End, Kind, Scenario, Start, Way};

mod networks;

use networks::{dumbbell, run};

const MS: Duration = Duration::from_millis(1);

/// A stream of packets of 1,000 bytes, one every 4 ms for 1.9 s. The bottleneck delays each packet
/// by 10 ms, and transmits it in another 0.4 ms.
fn scenario(changes: Vec<Change>) -> Scenario {
    let kind = Kind::Constant { rate: Rate::from_mbps(2), packet: 1_000 };
    let mut scenario = dumbbell(1, kind);
    scenario.traffic[0].start = Start::At(Duration::ZERO);
    scenario.traffic[0].stop = Some(1_900 * MS);
    scenario.changes = changes;
    scenario
}

fn change(at: u32, [from, to]: [&str; 2], change: LinkChange) -> Change {
    Change { at: at * MS, way: Way { from: End::of(from), to: End::of(to) }, change }
}

fn delay(ms: u32) -> LinkChange {
    LinkChange { delay: Some(ms * MS), ..LinkChange::default() }
}

/// Mean and longest delay of packets over the bottleneck, in milliseconds.
fn delays(scenario: &Scenario) -> [f64; 2] {
    let results = run(scenario);
    let links = results.table("links").unwrap();
    ["delay_mean_seconds", "delay_max_seconds"].map(|it| 1e3 * links.real(it)[0])
}

/// The delay changes after 950 of 1,900 ms, so half of the packets have the new delay.
///
/// Catches: a change that is not made, is made at the start, or is made in the other direction; two
/// changes at the same time of which the first prevails.
#[test]
fn a_link_takes_its_new_delay_from_the_time_of_the_change() {
    let [mean, longest] = delays(&scenario(Vec::new()));
    assert!((mean - 10.4).abs() < 0.01 && (longest - 10.4).abs() < 0.1, "{mean} {longest}");
    let changes = vec![
        change(1_900, ["l", "r"], delay(500)),
        change(950, ["l", "r"], delay(700)),
        change(950, ["l", "r"], delay(30)),
        change(100, ["r", "l"], delay(900)),
    ];
    let [mean, longest] = delays(&scenario(changes));
    assert!((mean - 20.4).abs() < 0.1 && (longest - 30.4).abs() < 0.3, "{mean} {longest}");
}

/// From 950 ms on, the link carries only half of the packets offered.
///
/// Catches: a rate that does not change; a packet lost or delivered twice when later packets
/// overtake it.
#[test]
fn a_rate_may_change_and_packets_may_overtake_each_other() {
    let slow = LinkChange { rate: Some(Rate::from_kbps(1_000)), ..LinkChange::default() };
    let results = run(&scenario(vec![change(950, ["l", "r"], slow)]));
    let links = results.table("links").unwrap();
    assert!((1e3 * links.real("delay_max_seconds")[0]) > 400.0);
    let changes = vec![change(200, ["l", "r"], delay(400)), change(900, ["l", "r"], delay(1))];
    let results = run(&scenario(changes));
    let groups = results.table("groups").unwrap();
    assert_eq!(groups.whole("sent_packets"), groups.whole("received_packets"));
}
