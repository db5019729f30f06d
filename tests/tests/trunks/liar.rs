//! Live test: a peer that has the key but lies, by acknowledging data that it did not receive.

use std::time::Duration;

use tidegate_e2e::trial::side_by_side;
use tidegate_e2e::{Lab, Process, Testbed, now, pause, until, witnessed_beside_others};

use crate::LIMIT;
use crate::sites::{KEY, Site, gateway, host, key, mix, sent};

/// Limit for the users' rate, twice the rate of the path, in bytes per second. `WISHED` is the rate
/// that the users offer.
const MOST: f64 = 500_000.0;
const WISHED: &str = "2000000";

/// A policy that limits the rate to [`MOST`]. The file sets no rate of the link.
const PROFILE: &str = "action = \"shape\"\nprofile = { mean = \"4 Mbit/s\" }\n";

/// The same limit, as a ceiling of the trunk.
const CEILING: &str = "ceiling = \"4 Mbit/s\"\n";

/// Catches: a profile that is ignored for packets through a trunk; a ceiling that is not passed on
/// to a live trunk.
#[test]
fn a_peer_that_lies_gains_no_more_than_the_ceiling_or_the_profile_of_the_policy() {
    witnessed_beside_others(|bed| {
        let key = key(bed);
        let gains = |(fields, policy)| gained(bed, &key, fields, policy);
        let pass = "action = \"pass\"\n";
        let rates = side_by_side([("", pass), ("", PROFILE), (CEILING, pass)], gains);
        println!("{rates:?} bytes a second");
        let [free, shaped, held] = rates[..] else { unreachable!("three trunks") };
        assert!(free > 1.5 * MOST, "{free}: its lies are of no use");
        // For a profile, 14 more bytes of each frame are counted than for a trunk. With a ceiling,
        // 74 of 1,574 bytes are management packets.
        for held in [shaped, held] {
            assert!((0.9 * MOST..1.02 * MOST).contains(&held), "{held} of {MOST}");
        }
    });
}

/// The rate that a trunk to a lying peer reaches, in bytes per second.
fn gained(bed: &Testbed, key: &str, fields: &str, policy: &str) -> f64 {
    let site = Site { name: "north", ends: [1, 2], next_hop: 1, fields };
    let policy = format!("[[policy]]\nname = \"all\"\ntrunk = \"north\"\n{policy}");
    let topology = [
        host("a", 1, "north", Some(1)),
        "[[host]]\nname = \"c\"\naddress = [\"10.73.0.2\", \"10.73.9.2\"]\n".to_owned(),
        gateway("north", &(site.trunk(key) + &policy)),
        "[[route]]\nto = \"c\"\nrate = \"2 Mbit/s\"\ndelay = \"10 ms\"\n\
         queue = { kind = \"drop-tail\", limit = \"20 kB\" }\n\
         [[route]]\ndelay = \"10 ms\"\n"
            .to_owned(),
    ];
    let lab = Lab::up(bed, &topology.concat());
    let words = ["10.73.9.2", "10.73.9.1", "4754", KEY];
    let liar = Process::start(lab.on("c").arg(env!("CARGO_BIN_EXE_e2e-liar")).args(words));
    until("the liar", LIMIT, || liar.lines().pop());
    let _flood = mix(&lab, "a", &["flood", "10.73.0.2:9", WISHED, "60"]);
    pause(Duration::from_secs(6));
    let (from, before) = (now(), sent(&lab, "north"));
    pause(Duration::from_secs(5));
    (sent(&lab, "north") - before) / from.elapsed().as_secs_f64()
}
