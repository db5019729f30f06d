//! Live test: two trunks share the rate of a path. A trunk carries the user packets between two
//! gateways. Each trunk gets its guarantee and a part of the remainder. The parts are proportional
//! to the trunks' VMSS, the number of user bytes that a trunk may send for each management packet.

use std::time::Duration;

use tidegate_e2e::trial::side_by_side;
use tidegate_e2e::{Lab, Testbed, now, pause, witnessed_beside_others};

use crate::sites::{ROUTER, key, lost, meeting, mix, sent};

/// Guarantee and VMSS of two sites, and the guarantees in kilobytes per second.
type Case = ([(&'static str, u32); 2], [f64; 2]);

/// Rate of the path in the paper, in kilobytes per second.
const PATH: f64 = 1_200.0;

const CASES: [Case; 2] = [
    ([("3.2 Mbit/s", 3_000), ("1.6 Mbit/s", 1_500)], [400.0, 200.0]),
    ([("1.6 Mbit/s", 3_000), ("3.2 Mbit/s", 1_500)], [200.0, 400.0]),
];

/// A short form of the paper's first experiment (`trunking`, section 7.1: shares of a path). Two
/// sites send as fast as they can to a third. Each site gets its guarantee, the first site gets a
/// larger part of the remainder, and the path is full. The experiment `trunking/live` checks the
/// exact rates.
///
/// Catches: parts of the remainder that do not depend on VMSS.
#[test]
fn two_sites_share_a_path_according_to_their_guarantees_and_vmss() {
    witnessed_beside_others(|bed| {
        let key = key(bed);
        let found = side_by_side(CASES, |(sites, _)| shares(bed, &key, sites));
        for (rates, (_, guarantees)) in found.iter().zip(CASES) {
            println!("{rates:?} KB/s with {guarantees:?} guaranteed");
            let rest = [0, 1].map(|site| rates[site] - guarantees[site]);
            assert!(rest[1] > 0.0 && rest[0] > 1.3 * rest[1], "{rates:?}, {guarantees:?}");
            assert!(rates.iter().sum::<f64>() > 0.9 * PATH, "{rates:?}, {guarantees:?}");
        }
    });
}

/// The rates of two sites with these guarantees and VMSS, in kilobytes per second.
fn shares(bed: &Testbed, key: &str, sites: [(&str, u32); 2]) -> [f64; 2] {
    let fields =
        sites.map(|(guarantee, vmss)| format!("guarantee = \"{guarantee}\"\nvmss = \"{vmss} B\""));
    let fields = Some(fields.each_ref().map(String::as_str));
    let lab = Lab::up(bed, &meeting(key, fields, ROUTER));
    let flood =
        |from: &str, to: &str| mix(&lab, from, &["flood", &format!("{to}:9"), "1500000", "120"]);
    let _floods = [flood("a", "10.73.0.3"), flood("c", "10.73.0.4")];
    pause(Duration::from_secs(10));
    let look = || {
        let start = now();
        (start, ["north", "south"].map(|gateway| sent(&lab, gateway)))
    };
    let (from, before) = look();
    pause(Duration::from_secs(25));
    let (to, after) = look();
    assert_eq!(lost(&lab), 0, "user packets were lost: {}", lab.network());
    let seconds = to.duration_since(from).as_secs_f64();
    [0, 1].map(|site: usize| (after[site] - before[site]) / seconds / 1e3)
}
