//! Live test: senders upstream of a trunk are under ACK control, which holds their ACKs and so
//! limits them to the trunk's rate. A trunk carries the user packets between two gateways.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_e2e::measure::float;
use tidegate_e2e::trial::{side_by_side, undisturbed_runs};
use tidegate_e2e::{Fetch, Lab, Testbed, pause, witnessed_beside_others};

use crate::LIMIT;
use crate::sites::{Site, are_up, drops, gateway, host, key, lost, trunks};

/// Number of concurrent uploads.
const UPLOADS: usize = 4;

/// With held ACKs, the trunk carries as much as without them, and no sender retransmits. Most of
/// the time, nearly no data waits for the trunk. Now and then, more data waits for some tenths of a
/// second, for an unknown reason. So the median is tested instead of the mean.
///
/// Catches: ACK control that measures the queue of the link although the data waits for the trunk.
#[test]
fn with_held_acks_senders_upstream_of_a_trunk_lose_nothing_and_its_queue_is_short() {
    witnessed_beside_others(|bed| {
        let key = key(bed);
        let run =
            || side_by_side(["none", "postack"], |ack_control| uploads(bed, &key, ack_control));
        let hangs = |them: &Vec<Findings>| them.iter().map(|it| it.hangs).sum();
        let [them] = undisturbed_runs(run, hangs);
        let [none, postack] = &them[..] else { unreachable!("one for each ack_control") };
        println!("{none:?}, {postack:?}");
        assert!(postack.waiting < 0.2 * none.waiting, "{none:?}, {postack:?}");
        assert!(postack.mean < 0.5 * none.mean, "{none:?}, {postack:?}");
        assert!(postack.seconds < 1.1 * none.seconds, "{none:?}, {postack:?}");
        assert_eq!((postack.again, postack.dropped), (0, 0), "{none:?}, {postack:?}");
    });
}

/// The results of uploads.
#[derive(Debug)]
struct Findings {
    /// Bytes that waited for the trunk: their median and their mean.
    waiting: f64,
    mean: f64,
    /// Duration of the slowest upload.
    seconds: f64,
    /// Segments that the sender retransmitted.
    again: u64,
    /// User packets that gateways and the path dropped.
    dropped: u64,
    hangs: u64,
}

fn uploads(bed: &Testbed, key: &str, ack_control: &str) -> Findings {
    let lab = Lab::up(bed, &topology(key, ack_control));
    // Without a session of the gateways, the first uploads would wait for it.
    are_up(&lab, 1);
    let _server = lab.serve("c", "cubic");
    let again = || lab.counters("a")["RetransSegs"];
    let before = again();
    let upload = |_| lab.fetch("a", "10.73.0.2", &["--bytes", "2 MB", "--upload"]);
    let fetches: Vec<Fetch> = (0..UPLOADS).map(upload).collect();
    pause(Duration::from_secs(1));
    let look = |_| {
        pause(Duration::from_millis(100));
        trunks(&lab, "north")[0]["waiting"]["bytes"].as_u64().unwrap_or(0)
    };
    let mut waiting: Vec<u64> = (0..30).map(look).collect();
    waiting.sort_unstable();
    let outcomes: Vec<_> = fetches.into_iter().map(|it| it.finish(LIMIT)).collect();
    assert!(outcomes.iter().all(|it| it.complete && it.intact), "{ack_control}: {outcomes:?}");
    let status = lab.status("north");
    let here: BTreeMap<String, u64> = drops(&status);
    Findings {
        waiting: float(waiting[15]),
        mean: float(waiting.iter().sum()) / 30.0,
        seconds: outcomes.iter().map(|it| it.time.as_secs_f64()).fold(0.0, f64::max),
        again: again() - before,
        dropped: here.values().sum::<u64>() + lost(&lab),
        hangs: status["hangs"].as_u64().expect("a gateway counts them"),
    }
}

/// Two sites. The profile of the first site's policy is as fast as its port, so only the trunk
/// limits the rate.
fn topology(key: &str, ack_control: &str) -> String {
    let north = Site { name: "north", ends: [1, 2], next_hop: 1, fields: "" };
    let south = Site { name: "south", ends: [2, 1], next_hop: 0, fields: "" };
    let policy = format!(
        "[[policy]]\nname = \"all\"\naction = \"shape\"\nprofile = {{ mean = \"100 Mbit/s\" }}\n\
         trunk = \"north\"\nack_control = \"{ack_control}\"\n"
    );
    let tables = [
        host("a", 1, "north", Some(1)),
        host("c", 2, "south", Some(2)),
        gateway("north", &(north.trunk(key) + &policy)),
        south.gateway(key),
        "[[route]]\nto = \"c\"\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
         queue = { kind = \"trunk-fifo\", limit = \"256 kB\", threshold = 32 }\n\
         [[route]]\ndelay = \"10 ms\"\n"
            .to_owned(),
    ];
    tables.concat()
}
