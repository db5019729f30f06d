//! Live test: two gateways have different settings of a trunk, and later equal settings. A trunk
//! carries the user packets between two gateways.

use serde_json::Value;
use tidegate_e2e::{Lab, until, witnessed_beside_others};

use crate::LIMIT;
use crate::sites::{Site, gateway, host, key, trunks};

const HEAD: &str = "[gateway]\nlan = \"lan\"\nwan = \"wan\"\n";

/// Settings that one gateway gets earlier than the other. Until then, the gateways refuse each
/// other for the stated reason.
const FIELDS: [(&str, &str); 3] = [
    ("weight = 3\n", "weight"),
    ("probing = \"vegas\"\n", "probing"),
    ("encapsulation = \"udp\"\n", "encapsulation"),
];

/// Catches: gateways that begin a session although their settings differ; a gateway that does not
/// report the difference; a difference that is still reported when the settings are equal.
#[test]
fn gateways_with_different_settings_report_it_and_carry_nothing_until_they_agree() {
    witnessed_beside_others(|bed| {
        let key = key(bed);
        let text = |site: usize, fields: &str| {
            let (ends, next_hop) = [([1, 2], 1), ([2, 1], 0)][site];
            let trunk = Site { name: "t", ends, next_hop, fields }.trunk(&key);
            format!("{trunk}[[policy]]\nname = \"all\"\naction = \"pass\"\ntrunk = \"t\"\n")
        };
        let topology = [
            host("a", 1, "north", Some(1)),
            host("c", 2, "south", Some(2)),
            gateway("north", &text(0, "")),
            gateway("south", &text(1, "")),
            "[[route]]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n".to_owned(),
        ];
        let lab = Lab::up(bed, &topology.concat());
        ["a", "c"].iter().for_each(|it| lab.shell(it, "ip link set eth0 mtu 1400"));
        let _server = lab.serve("a", "cubic");
        both_are(&lab, "up");
        for (fields, reason) in FIELDS {
            lab.apply("north", &(HEAD.to_owned() + &text(0, fields)));
            for said in both_are(&lab, "mismatch") {
                assert_eq!(said["difference"], reason, "{said}");
                assert!(said["refused"][reason].as_u64() > Some(0), "{said}");
            }
            let alarms = lab.status("south")["alarms"].to_string();
            assert!(alarms.contains(&format!("another `{reason}`")), "{alarms}");
            let fetch = lab.fetch("c", "10.73.0.1", &["--bytes", "200 kB"]);
            // Each gateway sends a hello every second, and refuses the hello of the other gateway.
            let refused = |it: &Value| it["refused"][reason].as_u64();
            let before = both_are(&lab, "mismatch").map(|it| refused(&it));
            until("two more hellos", LIMIT, || {
                let now = both_are(&lab, "mismatch").map(|it| refused(&it));
                now.iter()
                    .zip(&before)
                    .all(|(now, before)| *now > before.map(|it| it + 1))
                    .then_some(())
            });
            assert_eq!(fetch.bytes(), 0, "{fields}");
            lab.apply("south", &(HEAD.to_owned() + &text(1, fields)));
            both_are(&lab, "up");
            let outcome = fetch.finish(LIMIT);
            assert!(outcome.complete && outcome.intact, "{outcome:?}");
        }
    });
}

/// The reports of both gateways about each other, once both show this state.
fn both_are(lab: &Lab, state: &str) -> [Value; 2] {
    ["north", "south"].map(|gateway| {
        until(state, LIMIT, || {
            let said = trunks(lab, gateway)[0]["other_end"].clone();
            (said["state"] == state).then_some(said)
        })
    })
}
