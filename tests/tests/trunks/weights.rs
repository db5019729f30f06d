//! Live test: the weight of a trunk follows the load of its users.
//!
//! A trunk carries the user packets between two gateways. A trunk of weight 3 takes the share of
//! three TCP connections on the path. The trunk's management connections, which are TCP connections
//! between the two gateways, find this share.

use tidegate_e2e::trial::side_by_side;
use tidegate_e2e::{Lab, Testbed, until, witnessed};

use crate::LIMIT;
use crate::sites::{ROUTER, Site, are_up, host, key, lost, trunks};

/// A measurement takes three samples, 100 ms apart, and a random wait before them: 0.4 s on average. Each
/// measurement of a saturated trunk multiplies the weight by 1.45: 2, 2.9, 4.2, 6.1, and 8, the maximum. After
/// two measurements with little load, the weight is halved.
const WEIGHT: &str = "weight = { kind = \"measured\", every = \"100 ms\", samples = 3, margin = 0.9, \
                      beta = 0.5, weight = 2, most = 8 }";
const INITIAL: f64 = 2.0;
const MOST: f64 = 8.0;

/// Transfers fill the trunk and then end. Their TCP connections pass both gateways unchanged.
///
/// Catches: an adjuster of the weight that is never called; load that counts twice or not at all; a
/// weight that does not fall after the load has ended; with `probing = "management"`, a number of
/// management connections that does not follow the weight; with `probing = "vegas"`, more than one
/// connection.
#[test]
fn a_weight_rises_while_users_fill_the_trunk_and_falls_afterwards() {
    witnessed(|bed| {
        let key = key(bed);
        side_by_side(["management", "vegas"], |probing| follows(bed, &key, probing));
    });
}

fn follows(bed: &Testbed, key: &str, probing: &str) {
    let fields = format!("probing = \"{probing}\"\n{WEIGHT}");
    let site = |name, ends, next_hop| Site { name, ends, next_hop, fields: &fields }.gateway(key);
    let topology = [
        host("a", 1, "north", Some(1)),
        host("c", 2, "south", Some(2)),
        site("north", [1, 2], 1),
        site("south", [2, 1], 0),
        format!("[[route]]\nrate = \"9.6 Mbit/s\"\ndelay = \"10 ms\"\nqueue = {{ {ROUTER} }}\n"),
    ];
    let lab = Lab::up(bed, &topology.concat());
    are_up(&lab, 1);
    let weight = |gateway| {
        let trunk = trunks(&lab, gateway)[0].clone();
        (trunk["weight"]["weight"].as_f64().expect("a weight"), trunk)
    };
    assert!(weight("north").0 <= INITIAL);
    let _server = lab.serve("a", "cubic");
    let transfers = [(); 3].map(|()| lab.fetch("c", "10.73.0.1", &["--time", "60 s"]));
    let full = until("the greatest weight", LIMIT, || {
        let (now, trunk) = weight("north");
        (now >= MOST).then_some(trunk)
    });
    let of_weight = &full["weight"];
    assert!(of_weight["increased"].as_u64() >= Some(4), "{full}");
    assert!(of_weight["busy"].as_f64() > Some(0.95), "{full}");
    let active = if probing == "vegas" { 1 } else { 8 };
    assert_eq!(
        (of_weight["kind"].as_str(), full["active"].as_u64()),
        (Some("measured"), Some(active))
    );
    // The opposite direction carries only ACKs.
    assert!(weight("south").0 <= INITIAL);
    assert!(transfers.iter().all(|it| it.bytes() > 0));
    assert_eq!(lost(&lab), 0, "user packets were lost: {}", lab.network());
    drop(transfers);
    until("less weight", LIMIT, || (weight("north").0 <= INITIAL).then_some(()));
}
