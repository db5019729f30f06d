//! Live test of a gateway with a hundred trunks. A trunk carries the user packets between two
//! gateways.

use std::fmt::Write;

use tidegate_e2e::{Fetch, Lab, Testbed, until, witnessed_beside_others};

use crate::LIMIT;
use crate::sites::{gateway, key, trunks};

const TRUNKS: u8 = 100;

/// The trunks that get traffic. Each carries the packets to the address with this last byte.
const USED: [u8; 3] = [1, 50, 100];

/// Payload bytes sent through each of these trunks.
const BYTES: u64 = 500_000;

/// Returns trunk `number` from site `local` (1 or 2) to the other site. Each trunk uses eight
/// ports.
fn trunk(number: u8, local: u8, key: &str) -> String {
    let (peer, port) = (3 - local, 4_754 + 8 * u16::from(number));
    let next_hop = peer - 1;
    format!(
        "[[trunk]]\nname = \"t{number}\"\nlocal = \"10.73.9.{local}\"\npeer = \"10.73.9.{peer}\"\n\
         port = {port}\nnext_hop = \"02:74:67:00:00:{next_hop:02x}\"\nkey_file = \"{key}\"\n"
    )
}

/// Two sites, with a hundred trunks between them. Each trunk carries the packets to one of a
/// hundred addresses of the second site.
fn topology(key: &str) -> String {
    let (mut north, mut south, mut addresses) = (String::new(), String::new(), String::new());
    for number in 1..=TRUNKS {
        north += &trunk(number, 1, key);
        south += &trunk(number, 2, key);
        let _ = write!(
            north,
            "[[policy]]\nname = \"p{number}\"\naction = \"pass\"\ntrunk = \"t{number}\"\n\
             match = {{ dst = \"10.74.0.{number}\" }}\n"
        );
        let _ = write!(addresses, ", \"10.74.0.{number}\"");
    }
    format!(
        "[[host]]\nname = \"a\"\naddress = [\"10.73.0.1\", \"10.73.9.1\"]\ngateway = \"north\"\n\
         [[host]]\nname = \"c\"\naddress = [\"10.73.9.2\"{addresses}]\ngateway = \"south\"\n\
         {}{}[[route]]\ndelay = \"5 ms\"\n",
        gateway("north", &north),
        gateway("south", &south)
    )
}

#[test]
fn a_hundred_trunks_of_a_gateway_come_up_and_carry_their_own_traffic() {
    witnessed_beside_others(hundred);
}

fn hundred(bed: &Testbed) {
    let lab = Lab::up(bed, &topology(&key(bed)));
    let all = || trunks(&lab, "north").as_array().cloned().unwrap_or_default();
    until("all trunks", LIMIT, || {
        let up = all().iter().filter(|it| it["other_end"]["state"] == "up").count();
        (up == usize::from(TRUNKS)).then_some(())
    });
    let _server = lab.serve("c", "cubic");
    let upload = |number| {
        let bytes = format!("{BYTES} B");
        lab.fetch("a", &format!("10.74.0.{number}"), &["--bytes", &bytes, "--upload"])
    };
    let uploads: Vec<Fetch> = USED.into_iter().map(upload).collect();
    for outcome in uploads.into_iter().map(|it| it.finish(LIMIT)) {
        assert!(outcome.complete && outcome.intact, "{outcome:?}");
    }
    for (number, trunk) in (1..).zip(all()) {
        let sent = trunk["elastic_bytes"].as_u64().unwrap_or(0);
        assert_eq!(sent >= BYTES, USED.contains(&number), "{trunk}");
        assert!(USED.contains(&number) || sent == 0, "{trunk}");
    }
}
