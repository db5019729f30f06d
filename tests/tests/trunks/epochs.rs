//! Live test of a trunk with epochs. A trunk carries the user packets between two gateways. Most
//! trunks measure their path by management packets. A trunk with epochs divides its user packets
//! into successive epochs, and measures the path by these.

use std::time::Duration;

use tidegate_e2e::trial::side_by_side;
use tidegate_e2e::{Lab, Process, Testbed, now, pause, until, witnessed_beside_others};

use crate::LIMIT;
use crate::sites::{gateway, key, sent, trunks};

/// Rate of the path in bytes per second.
const RATE: f64 = 2_500_000.0;

/// Round-trip time of the path without queues, in milliseconds.
const ROUND_TRIP: f64 = 20.0;

/// Share of payload in user packets over IPv6 with timestamps: 1,428 of 1,500 bytes.
const PAYLOAD: f64 = 0.95;

/// The first parts of addresses: of hosts, and of gateways.
type Family = [&'static str; 2];

const FAMILIES: [Family; 2] = [["10.73.0.", "10.73.9."], ["fd73::", "fd73::9:"]];

/// The queue of 100 ms builds up at the gateway instead of on the path, over IPv4 and over IPv6.
/// After the receiving gateway was restarted, the trunk works again.
///
/// Catches: a gateway that does not set the codepoint of user packets; epochs that are found by the
/// identification field, which only IPv4 has.
#[test]
fn with_epochs_the_queue_builds_up_at_the_gateway_and_a_receiver_may_restart() {
    witnessed_beside_others(|bed| {
        let key = key(bed);
        side_by_side(FAMILIES, |family| waits_here(bed, &key, family));
    });
}

fn waits_here(bed: &Testbed, key: &str, family: Family) {
    let lab = Lab::up(bed, &topology(key, family));
    let _server = lab.serve("a", "cubic");
    let from = format!("{}1", family[0]);
    let from = if family[0].contains(':') { format!("[{from}]") } else { from };
    let fetch = lab.fetch("c", &from, &["--bytes", "44 MB"]);
    fetch.moves_on(8_000_000, LIMIT);
    let (since, before) = (now(), fetch.progress());
    let delay = ping(&lab, &format!("{}2", family[0]));
    pause(Duration::from_secs(4).saturating_sub(since.elapsed()));
    let after = fetch.progress();
    let bytes = u32::try_from(after.1 - before.1).map_or(f64::INFINITY, f64::from);
    let part = bytes / (after.0 - before.0).as_secs_f64() / RATE / PAYLOAD;
    println!("{family:?}: {part:.3} of the path, {delay:.1} ms");
    assert!(part > 0.9, "{part} of what the path carries");
    assert!(delay < ROUND_TRIP + 10.0, "{delay} ms");
    let trunk = &trunks(&lab, "north")[0];
    assert!(trunk["waiting"]["bytes"].as_u64() > Some(100_000), "{trunk}");
    lab.cut("south");
    until("the peer to be considered dead", LIMIT, || {
        (trunks(&lab, "north")[0]["silent"] == 1).then_some(())
    });
    let quiet = sent(&lab, "north");
    pause(Duration::from_secs(1));
    assert!(sent(&lab, "north") - quiet < 20.0 * 1_500.0, "{quiet}");
    let _south = lab.start_again("south");
    let outcome = fetch.finish(LIMIT);
    assert!(outcome.complete && outcome.intact, "{outcome:?}");
}

/// Two sites, with a path of 20 Mbit/s and a buffer of 100 ms.
fn topology(key: &str, [hosts, ends]: Family) -> String {
    let host = |name: &str, number: u8, gateway: &str| {
        format!(
            "[[host]]\nname = \"{name}\"\naddress = [\"{hosts}{number}\", \"{ends}{number}\"]\n\
             gateway = \"{gateway}\"\n"
        )
    };
    let site = |name: &str, local: u8, peer: u8, hop: u8| {
        let trunk = format!(
            "[[trunk]]\nname = \"t\"\nprobing = \"epochs\"\nlocal = \"{ends}{local}\"\n\
             peer = \"{ends}{peer}\"\nnext_hop = \"02:74:67:00:00:{hop:02x}\"\n\
             key_file = \"{key}\"\n\
             [[policy]]\nname = \"all\"\naction = \"pass\"\ntrunk = \"t\"\n"
        );
        gateway(name, &trunk)
    };
    [
        host("a", 1, "north"),
        host("c", 2, "south"),
        site("north", 1, 2, 1),
        site("south", 2, 1, 0),
        "[[route]]\nto = \"c\"\nrate = \"20 Mbit/s\"\ndelay = \"10 ms\"\n\
         queue = { kind = \"drop-tail\", limit = \"250 kB\" }\n\
         [[route]]\ndelay = \"10 ms\"\n"
            .to_owned(),
    ]
    .concat()
}

/// The median round-trip time of pings from the first site to the second, in milliseconds. Pings
/// without an answer do not count.
fn ping(lab: &Lab, to: &str) -> f64 {
    let words = ["ping", "-n", "-i", "0.1", "-W", "2", "-c", "30", to];
    let said = Process::start(lab.on("a").args(words)).finish(LIMIT).output;
    let time = |line: &str| line.split("time=").nth(1)?.split(' ').next()?.parse::<f64>().ok();
    let mut times: Vec<_> = said.lines().filter_map(time).collect();
    times.sort_by(f64::total_cmp);
    *times.get(times.len() / 2).unwrap_or_else(|| panic!("nobody answered: {said}"))
}
