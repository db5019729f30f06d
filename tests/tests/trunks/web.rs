//! Live test: one site makes short transfers, while senders of another site saturate the common
//! path. Each site may have a trunk. A trunk carries the user packets between two gateways.

use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::measure::float;
use tidegate_e2e::trial::side_by_side;
use tidegate_e2e::{Lab, Testbed, pause, until, witnessed_beside_others};

use crate::LIMIT;
use crate::sites::{ROUTER, are_up, key, lost, meeting, mix};

/// Bytes of a short transfer, and number of clients that repeat such transfers.
const PAGE: &str = "8192";
const CLIENTS: &str = "20";

/// Duration of the short transfers in seconds. `SETTLED` are the seconds before them, in which only
/// the other site sends.
const SECONDS: u64 = 8;
const SETTLED: u64 = 3;

/// Load of the other site: TCP connections, and senders of datagrams. The datagrams alone exceed
/// the rate of the path by a quarter. Each sender sends the datagrams of ten milliseconds at once
/// and then pauses, so there are several senders.
const SESSIONS: usize = 4;
const BLASTS: usize = 8;
const BLAST: &str = "187500";

/// The queue of the router in the run without trunks. Its size follows equation 2 of the paper. In
/// a larger queue, transfers would take even longer.
const DROPS: &str = "kind = \"drop-tail\", limit = \"115 kB\"";

/// A short form of the paper's third experiment (`trunking`, section 7.3: short transfers). With
/// trunks, one site gets its share however much the other site sends. Three to seven times as many
/// transfers complete as without trunks. On average, they take 0.2 to 0.4 of the time, and the
/// longest takes 0.1 of the time. The experiment `trunking/live_web` checks this on the paper's
/// path.
///
/// Catches: a policy that does not send its packets through the trunk; trunks used with a router
/// whose queue is drop-tail.
#[test]
fn with_trunks_short_transfers_are_faster_and_more_frequent() {
    witnessed_beside_others(|bed| {
        let key = key(bed);
        let cases = [(None, DROPS), (Some([""; 2]), ROUTER)];
        let found = side_by_side(cases, |(trunks, queue)| browsed(bed, &key, trunks, queue));
        println!("{found:.3?}");
        let [without, with] = &found[..] else { unreachable!("one for each case") };
        assert!(with.ended >= 2.0 * without.ended, "{found:?}");
        assert!(with.mean <= 0.6 * without.mean, "{found:?}");
        assert!(with.longest <= 0.5 * without.longest, "{found:?}");
        assert_eq!(with.lost, 0, "user packets were lost: {found:?}");
        assert!(without.lost > 0, "nothing is counted: {found:?}");
    });
}

/// The results of the transfers.
#[derive(Debug)]
struct Findings {
    /// Number of completed transfers.
    ended: f64,
    /// Mean and longest duration in seconds. A transfer that is not complete counts with its
    /// duration so far.
    mean: f64,
    longest: f64,
    /// User packets that the network dropped since the start.
    lost: u64,
}

fn browsed(bed: &Testbed, key: &str, trunks: Option<[&str; 2]>, queue: &str) -> Findings {
    let lab = Lab::up(bed, &meeting(key, trunks, queue));
    if trunks.is_some() {
        are_up(&lab, 1);
    }
    let pages = mix(&lab, "a", &["pages", "8000", PAGE]);
    until("pages", LIMIT, || pages.lines().pop());
    let blast = |_| mix(&lab, "c", &["flood", "10.73.0.4:9", BLAST, "60"]);
    let _blasts: Vec<_> = (0..BLASTS).map(blast).collect();
    let _server = lab.serve("c", "cubic");
    let session = |_| lab.fetch("h", "10.73.0.2", &["--time", "60 s"]);
    let _sessions: Vec<_> = (0..SESSIONS).map(session).collect();
    pause(Duration::from_secs(SETTLED));
    let words = ["browse", "10.73.0.1:8000", PAGE, CLIENTS, &SECONDS.to_string()];
    let browsed = mix(&lab, "g", &words).finish(LIMIT);
    assert!(browsed.status.success(), "{browsed:?}");
    let parsed = |line| serde_json::from_str::<Value>(line).expect("a line on a transfer");
    let all: Vec<Value> = browsed.output.lines().map(parsed).collect();
    let ended = || all.iter().filter(|it| !it["intact"].is_null());
    assert!(ended().all(|it| it["intact"] == true), "{:?}", ended().collect::<Vec<_>>());
    let took: Vec<f64> = all.iter().map(|it| it["seconds"].as_f64().expect("a time")).collect();
    let number = |count: usize| u64::try_from(count).map_or(f64::NAN, float);
    Findings {
        ended: number(ended().count()),
        mean: took.iter().sum::<f64>() / number(took.len()),
        longest: took.iter().copied().fold(0.0, f64::max),
        lost: lost(&lab),
    }
}
