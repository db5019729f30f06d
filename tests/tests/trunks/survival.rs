//! Live tests: transfers through a trunk survive the failure of a gateway, a change of the path,
//! and an outage of the path. A trunk carries the user packets between two gateways.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::trial::side_by_side;
use tidegate_e2e::{Fetch, Lab, Process, Testbed, now, pause, until, witnessed_beside_others};

use crate::LIMIT;
use crate::sites::{Site, drops, host, key, lost, mix, sent, trunks};

/// Rate of the path in bytes per second, before the change.
const RATE: f64 = 1_250_000.0;

/// Share of user packets in the rate of a path: 1,500 of 1,574 bytes. The other bytes are
/// management packets.
const USERS: f64 = 0.95;

/// Bytes that have arrived at `c` when the change begins.
const BEGUN: u64 = 2_000_000;

/// Time limit for a gateway to consider its peer dead: three retransmission timeouts of a second,
/// and one second until the test asks.
const GIVEN_UP: Duration = Duration::from_secs(4);

/// Builds a path of 10 Mbit/s between two sites whose trunks have these `fields`, and starts a
/// transfer over it.
fn under_way(bed: &Testbed, key: &str, fields: &str, bytes: &str) -> (Lab, Process, Fetch) {
    let site = |name, ends, next_hop| Site { name, ends, next_hop, fields }.gateway(key);
    let topology = [
        host("a", 1, "north", Some(1)),
        host("c", 2, "south", Some(2)),
        site("north", [1, 2], 1),
        site("south", [2, 1], 0),
        "[[route]]\nto = \"c\"\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
         queue = { kind = \"trunk-fifo\", limit = \"256 kB\", threshold = 32 }\n\
         [[route]]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n"
            .to_owned(),
    ];
    let lab = Lab::up(bed, &topology.concat());
    let server = lab.serve("a", "cubic");
    let fetch = lab.fetch("c", "10.73.0.1", &["--bytes", bytes]);
    fetch.moves_on(BEGUN, LIMIT);
    (lab, server, fetch)
}

#[test]
fn transfers_survive_a_killed_gateway_and_a_changed_path() {
    witnessed_beside_others(|bed| {
        let key = key(bed);
        side_by_side([outlives_gateways, outlives_changes], |outlives| outlives(bed, &key));
    });
}

#[test]
fn transfers_survive_a_killed_peer_and_an_outage_of_the_path() {
    witnessed_beside_others(|bed| {
        let key = key(bed);
        side_by_side([outlives_the_peer, outlives_an_outage], |outlives| outlives(bed, &key));
    });
}

/// The killed gateway lets no frame pass for ten seconds.
///
/// Catches: a gateway that considers its peer dead only at the third retransmission timeout,
/// although each is twice as long as the previous one; a recovery that waits for a retransmission
/// timeout instead of the first hello.
fn outlives_gateways(bed: &Testbed, key: &str) {
    let (lab, _server, fetch) = under_way(bed, key, "", "12 MB");
    lab.cut("south");
    let killed = now();
    let given_up = until("the peer to be considered dead", LIMIT, || {
        let trunk = &trunks(&lab, "north")[0];
        (trunk["silent"] == trunk["connections"]).then(|| killed.elapsed())
    });
    assert!(given_up < GIVEN_UP, "{given_up:?}");
    let before = sent(&lab, "north");
    pause(Duration::from_secs(10).saturating_sub(killed.elapsed()));
    let there = &trunks(&lab, "north")[0];
    assert_eq!(there["other_end"]["state"], "silent", "{there}");
    // Each management connection without data in flight may send two probes before it gives up.
    assert!(sent(&lab, "north") - before <= 4.0 * 2.0 * 1_500.0, "{there}");
    let silence = killed.elapsed();
    let _south = lab.start_again("south");
    answers_soon(&lab, silence);
    fetch.moves_on(BEGUN, LIMIT);
    lab.crash("north");
    let _north = lab.start_again("north");
    fetch.moves_on(BEGUN, LIMIT);
    is_whole(fetch);
    for gateway in ["north", "south"] {
        let trunk = &trunks(&lab, gateway)[0];
        assert_eq!(trunk["other_end"]["state"], "up", "{gateway}: {trunk}");
        assert!(trunk["other_end"]["sessions"].as_u64() >= Some(1), "{gateway}: {trunk}");
    }
}

/// Asserts that the restarted gateway answers soon after its first hello. Without hellos, the
/// connection would wait for its next timeout. This wait would take at least half of `silence`,
/// the time without an answer.
fn answers_soon(lab: &Lab, silence: Duration) {
    let is = |what: &str, reached: &dyn Fn(&Value) -> bool| {
        until(what, LIMIT, || reached(&trunks(lab, "north")[0]).then(now))
    };
    let heard = is("a hello", &|trunk| trunk["other_end"]["state"] == "up");
    let answered = is("an answer", &|trunk| trunk["silent"] == 0);
    let took = answered.duration_since(heard);
    println!("{took:?} after {silence:?}");
    assert!(took < silence / 4, "{took:?} after {silence:?}");
}

/// The path loses half of its rate. Later its delay doubles. 100 round trips after each change, the
/// trunk uses the whole rate again, and the path has dropped no user packet.
fn outlives_changes(bed: &Testbed, key: &str) {
    let (lab, _server, fetch) = under_way(bed, key, "", "18 MB");
    lab.change(1, &["--rate", "5 Mbit/s"]);
    pause(100 * Duration::from_millis(20));
    is_full(&lab, RATE / 2.0);
    (1..=2).for_each(|route| lab.change(route, &["--delay", "20 ms"]));
    pause(100 * Duration::from_millis(40));
    is_full(&lab, RATE / 2.0);
    let trunk = &trunks(&lab, "north")[0];
    assert!(trunk["rtt_us"].as_u64() > Some(40_000), "{trunk}");
    assert_eq!(lost(&lab), 0, "user packets were lost: {}", lab.network());
    is_whole(fetch);
}

/// Asserts that the trunk sends at the path's `rate` (bytes per second) for five seconds.
fn is_full(lab: &Lab, rate: f64) {
    let (from, before) = (now(), sent(lab, "north"));
    pause(Duration::from_secs(5));
    let part = (sent(lab, "north") - before) / from.elapsed().as_secs_f64() / rate / USERS;
    println!("{part:.3} of what the path carries");
    assert!((0.9..1.1).contains(&part), "{part} of what the path carries");
}

/// The killed gateway lets frames bypass it. The other gateway then sends without the trunk, and
/// transfers in both directions complete.
fn outlives_the_peer(bed: &Testbed, key: &str) {
    let (lab, _server, down) = under_way(bed, key, "fallback = \"direct\"", "8 MB");
    let up = lab.fetch("c", "10.73.0.1", &["--bytes", "6 MB", "--upload"]);
    up.moves_on(BEGUN / 2, LIMIT);
    let past = || trunks(&lab, "north")[0]["past_bytes"].as_u64();
    assert_eq!(past(), Some(0));
    lab.crash("south");
    let killed = now();
    let taken = until("packets to go past the trunk", LIMIT, || {
        (past() > Some(0)).then(|| killed.elapsed())
    });
    assert!(taken < GIVEN_UP, "{taken:?}");
    for fetch in [down, up] {
        let outcome = fetch.finish(LIMIT);
        println!("past the trunk after {taken:?}: {outcome:?}");
        assert!(outcome.complete && outcome.intact, "{outcome:?}");
        // If a sender's timeout expired meanwhile, the sender waits for its next timeout. Each
        // timeout is twice as long as the previous one.
        assert!(outcome.longest_pause < 2 * GIVEN_UP, "{outcome:?}");
    }
    let trunk = &trunks(&lab, "north")[0];
    assert_eq!(trunk["other_end"]["state"], "silent", "{trunk}");
    assert!(past() > Some(BEGUN), "{trunk}");
}

/// The guarantee of a trunk, in bytes per second, for a path with an outage.
const GUARANTEE: f64 = 200_000.0;

/// Both gateways work, but the path carries nothing in either direction for ten seconds. The
/// gateway sends at the guaranteed rate. It counts the packets for which its queue has no room, and
/// keeps the other packets.
fn outlives_an_outage(bed: &Testbed, key: &str) {
    let (lab, _server, fetch) = under_way(bed, key, "guarantee = \"1.6 Mbit/s\"", "8 MB");
    let change = |rate| (1..=2).for_each(|route| lab.change(route, &["--rate", rate]));
    let full = || {
        let drops: BTreeMap<String, u64> = drops(&lab.status("north"));
        drops.get("flow-full").copied().unwrap_or(0)
    };
    let counts = || {
        let trunk = &trunks(&lab, "north")[0];
        ["elastic_bytes", "guaranteed_bytes"].map(|it| trunk[it].as_f64().unwrap_or(f64::NAN))
    };
    // This stream exceeds the guarantee and does not slow down.
    let _flood = mix(&lab, "a", &["flood", "10.73.0.2:9", "500000", "10"]);
    change("0 bit/s");
    let (cut, dropped) = (now(), full());
    until("the peer to be considered dead", LIMIT, || {
        let trunk = &trunks(&lab, "north")[0];
        (trunk["silent"] == trunk["connections"]).then_some(())
    });
    assert!(cut.elapsed() < GIVEN_UP, "{:?}", cut.elapsed());
    let (from, before) = (now(), counts());
    pause(Duration::from_secs(10).saturating_sub(cut.elapsed()));
    let (took, after) = (from.elapsed().as_secs_f64(), counts());
    let guaranteed = (after[1] - before[1]) / took / GUARANTEE;
    println!("{guaranteed:.3} of the guarantee, {} dropped for want of room", full() - dropped);
    assert_eq!(after[0], before[0], "sent for credit that nobody gave");
    assert!((0.97..1.03).contains(&guaranteed), "{guaranteed} of the guarantee");
    assert!(full() > dropped, "{}", lab.status("north"));
    change("10 Mbit/s");
    answers_soon(&lab, cut.elapsed());
    fetch.moves_on(BEGUN, LIMIT);
    is_whole(fetch);
}

fn is_whole(fetch: Fetch) {
    let outcome = fetch.finish(LIMIT);
    assert!(outcome.complete && outcome.intact, "{outcome:?}");
}
