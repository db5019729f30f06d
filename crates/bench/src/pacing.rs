//! How evenly a shaper sends, compared with HTB.

use std::time::Duration;

use tidegate_e2e::Testbed;

use crate::live::{Forwarder, ourselves, ready, tc};
use crate::load::{FRAME, PORT};
use crate::number::{median, real};
use crate::report::{Line, Report};

/// Shaped rates in Mbit/s.
const RATES: [u32; 2] = [10, 100];

/// Number of measurements of each shaper. The shapers are measured alternately.
const ROUNDS: usize = 5;

/// Limit for the spread of gaps between frames, relative to HTB.
const MOST: f64 = 1.3;

const FRAME_BITS: f64 = 1_514.0 * 8.0;

/// Duration of the load in milliseconds, and the part at its start, in nanoseconds, that is
/// ignored.
const SENT: &str = "3000";
const WARM_UP: i64 = 500_000_000;

/// Adds the result for each rate to `report`.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    report.section("Evenness of 1514-byte frames at a rate: p99 - p1 of the gaps, against HTB");
    for rate in RATES {
        let (mut shaped, mut htb) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let Some(bed) = Testbed::new() else {
                report.skip("pacing; there are no network namespaces here: run it as root");
                return Ok(());
            };
            shaped.push(gaps(&bed, rate, &gateway(&bed, rate))?);
            drop(bed);
            let Some(bed) = Testbed::new() else { continue };
            bed.bridge();
            if let Err(reason) = tc(&bed, &commands(rate)) {
                report.skip(&format!("pacing; there is no HTB here: {reason}"));
                return Ok(());
            }
            htb.push(gaps(&bed, rate, &Forwarder::Kernel)?);
        }
        let middle = |of: fn(&Gaps) -> f64, all: &[Gaps]| median(all.iter().map(of).collect());
        let [ours, theirs] = [&shaped, &htb].map(|all| middle(|gaps| gaps.spread, all));
        let [kept, htb_kept] = [&shaped, &htb].map(|all| middle(|gaps| gaps.rate, all));
        report.add(Line {
            what: format!("spread at {rate} Mbit/s, to that of HTB"),
            value: ours / theirs,
            unit: "x",
            most: Some(MOST),
            beside: format!(
                "{:.1} us at {kept:.2} Mbit/s, HTB {:.1} us at {htb_kept:.2} Mbit/s",
                ours / 1_000.0,
                theirs / 1_000.0
            ),
        });
    }
    Ok(())
}

fn gateway(bed: &Testbed, rate: u32) -> Forwarder<'_> {
    Forwarder::Gateway(bed.gateway(
        "auto",
        &format!(
            "[[policy]]\nname = \"all\"\nmatch = {{ direction = \"up\" }}\naction = \"shape\"\n\
             profile = {{ mean = \"{rate} Mbit/s\", burst = \"1600 B\" }}\n"
        ),
    ))
}

/// The `tc` commands for HTB at `rate` Mbit/s.
fn commands(rate: u32) -> [String; 2] {
    [
        "qdisc add dev wan root handle 1: htb default 1".to_owned(),
        format!("class add dev wan parent 1: classid 1:1 htb rate {rate}mbit"),
    ]
}

/// Statistics of the gaps between the arrivals of two frames.
struct Gaps {
    /// Difference between the 99th and the 1st percentile, in nanoseconds.
    spread: f64,
    /// Rate in Mbit/s, from the median gap.
    rate: f64,
}

fn gaps(bed: &Testbed, rate: u32, _forwarder: &Forwarder<'_>) -> anyhow::Result<Gaps> {
    let receiver = ready(&bed.wan, &["arrivals", "1"])?;
    let to = format!("{}:{PORT}", bed.wan.v4);
    // The load is a fifth above the rate.
    let per_second = (rate * 1_200_000 / 8 / FRAME).to_string();
    let words = ["send", to.as_str(), &per_second, "1", SENT, "1"];
    tidegate_e2e::run(&mut ourselves(&bed.lan, &words)?, Duration::from_secs(20));
    let finished = receiver.finish(Duration::from_secs(20));
    let times: Vec<i64> = finished.output.lines().filter_map(time).collect();
    let first = times.first().copied().unwrap_or_default();
    let steady: Vec<i64> = times.into_iter().filter(|time| *time > first + WARM_UP).collect();
    let mut gaps: Vec<i64> = steady.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    anyhow::ensure!(gaps.len() > 500, "only {} packets arrived", gaps.len());
    let (low, high) = (gaps[gaps.len() / 100], gaps[gaps.len() - 1 - gaps.len() / 100]);
    let middle = u64::try_from(gaps[gaps.len() / 2])?;
    Ok(Gaps { spread: real(u64::try_from(high - low)?), rate: FRAME_BITS * 1_000.0 / real(middle) })
}

/// The arrival time in a line that the receiver printed, the subcommand `arrivals` of this program.
fn time(line: &str) -> Option<i64> {
    line.split_whitespace().nth(1)?.parse().ok()
}
