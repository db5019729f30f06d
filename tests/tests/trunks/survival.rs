//! What becomes of transfers when a gateway goes away, and when the path is another.

use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::trial::side_by_side;
use tidegate_e2e::{Fetch, Lab, Process, Testbed, now, pause, until, witnessed};

use crate::LIMIT;
use crate::sites::{Site, host, key, sent, trunks};

/// Of the path in bytes a second, and after it has lost half.
const RATE: f64 = 1_250_000.0;

/// What user packets take of a path, beside management packets: 1,500 of 1,574 bytes.
const USERS: f64 = 0.95;

/// Bytes under way to `c` when it begins.
const BEGUN: u64 = 2_000_000;

/// A path of 10 Mbit/s between two sites, and a transfer from the first to the second under way.
fn under_way(bed: &Testbed, key: &str, bytes: &str) -> (Lab, Process, Fetch) {
    let site = |name, ends, next_hop| Site { name, ends, next_hop, fields: "" }.gateway(key);
    let topology = [
        host("a", 1, "north", Some(1)),
        host("c", 2, "south", Some(2)),
        site("north", [1, 2], 1),
        site("south", [2, 1], 0),
        "[[route]]\nto = \"c\"\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
         queue = { kind = \"trunk-fifo\", limit = \"256 kB\", threshold = 32 }\n\
         [[route]]\ndelay = \"10 ms\"\n"
            .to_owned(),
    ];
    let lab = Lab::up(bed, &topology.concat());
    let server = lab.serve("a", "cubic");
    let fetch = lab.fetch("c", "10.73.0.1", &["--bytes", bytes]);
    fetch.moves_on(BEGUN, LIMIT);
    (lab, server, fetch)
}

#[test]
fn transfers_outlive_their_gateways_ten_seconds_without_a_path_and_a_path_that_is_another() {
    witnessed(|bed| {
        let key = key(bed);
        side_by_side([outlives_gateways, outlives_changes], |outlives| outlives(bed, &key));
    });
}

/// In a lab frames do not pass a gateway that is gone: for ten seconds everything is lost.
///
/// Kills: a third timeout before the other end is held for gone; hellos that hasten nothing.
fn outlives_gateways(bed: &Testbed, key: &str) {
    let (lab, _server, fetch) = under_way(bed, key, "12 MB");
    lab.crash("south");
    let gone = now();
    let given_up = until("the other end to be held for gone", LIMIT, || {
        let trunk = &trunks(&lab, "north")[0];
        (trunk["silent"] == trunk["connections"]).then(|| gone.elapsed())
    });
    // Three times the timeout, which is a second, and one in which to ask.
    assert!(given_up < Duration::from_secs(4), "{given_up:?}");
    let before = sent(&lab, "north");
    pause(Duration::from_secs(10).saturating_sub(gone.elapsed()));
    let there = &trunks(&lab, "north")[0];
    assert_eq!(there["other_end"]["state"], "silent", "{there}");
    // A connection that had nothing to ask may ask twice before it is given up too.
    assert!(sent(&lab, "north") - before <= 4.0 * 2.0 * 1_500.0, "{there}");
    let silence = gone.elapsed();
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

/// From its first hello to the first answer it takes far less than the `silence` before: the timeout that would be
/// next is half as long as that, or more.
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

/// The path loses half its rate, and then is twice as long: 100 round trips later, with nothing waiting, the
/// trunk sends what it carries, and no user packet is lost on it.
fn outlives_changes(bed: &Testbed, key: &str) {
    let (lab, _server, fetch) = under_way(bed, key, "18 MB");
    lab.change(1, &["--rate", "5 Mbit/s"]);
    pause(100 * Duration::from_millis(20));
    is_full(&lab, RATE / 2.0);
    (1..=2).for_each(|route| lab.change(route, &["--delay", "20 ms"]));
    pause(100 * Duration::from_millis(40));
    is_full(&lab, RATE / 2.0);
    let trunk = &trunks(&lab, "north")[0];
    assert!(trunk["rtt_us"].as_u64() > Some(40_000), "{trunk}");
    let network = lab.network();
    let lost = network["drops"].as_array().into_iter().flatten().filter(|it| it[0] != "aqm");
    assert_eq!(lost.count(), 0, "user packets were lost: {network}");
    is_whole(fetch);
}

/// For five seconds the trunk sends what a path of this `rate` carries, in bytes a second.
fn is_full(lab: &Lab, rate: f64) {
    let (from, before) = (now(), sent(lab, "north"));
    pause(Duration::from_secs(5));
    let part = (sent(lab, "north") - before) / from.elapsed().as_secs_f64() / rate / USERS;
    println!("{part:.3} of what the path carries");
    assert!((0.9..1.1).contains(&part), "{part} of what the path carries");
}

fn is_whole(fetch: Fetch) {
    let outcome = fetch.finish(LIMIT);
    assert!(outcome.complete && outcome.intact, "{outcome:?}");
}
