//! Live test: a misbehaving peer has the trunk's key, and acknowledges data that it did not
//! receive. A trunk carries the user packets between two gateways.

use std::time::Duration;

use tidegate_e2e::trial::side_by_side;
use tidegate_e2e::{Lab, Process, Testbed, now, pause, until, witnessed_beside_others};

use crate::LIMIT;
use crate::sites::{KEY, Site, gateway, host, key, mix, sent};

/// Limit for the rate of the users in bytes per second, twice the rate of the path. The users offer
/// the rate `WISHED`.
const MOST: f64 = 500_000.0;
const WISHED: &str = "2000000";

/// A policy that limits the rate to [`MOST`]. The file does not state a rate of the link.
const PROFILE: &str = "action = \"shape\"\nprofile = { mean = \"4 Mbit/s\" }\n";

/// The same limit, as a ceiling of the trunk.
const CEILING: &str = "ceiling = \"4 Mbit/s\"\n";

/// Catches: a profile that is ignored for packets through a trunk; a ceiling that has no effect on
/// a running trunk.
#[test]
fn a_misbehaving_peer_is_limited_by_the_ceiling_or_the_profile() {
    witnessed_beside_others(|bed| {
        let key = key(bed);
        let gains = |(fields, policy)| gained(bed, &key, fields, policy);
        let pass = "action = \"pass\"\n";
        let rates = side_by_side([("", pass), ("", PROFILE), (CEILING, pass)], gains);
        println!("{rates:?} bytes a second");
        let [free, shaped, held] = rates[..] else { unreachable!("three trunks") };
        assert!(free > 1.5 * MOST, "{free}: its lies are of no use");
        // A profile counts 14 more bytes of each frame than a trunk. A ceiling also includes
        // management packets: 74 of 1,574 bytes.
        for held in [shaped, held] {
            assert!((0.9 * MOST..1.02 * MOST).contains(&held), "{held} of {MOST}");
        }
    });
}

/// The rate that a trunk to the misbehaving peer reaches, in bytes per second.
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
