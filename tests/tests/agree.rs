//! The simulator and this kernel agree: the same file, run in both.

use tidegate_e2e::measure::median;
use tidegate_e2e::trial::{Findings, Trial, hangs, side_by_side, turns};
use tidegate_e2e::{Testbed, on_each_backend};

on_each_backend! {
    goodput_and_what_waits_are_as_in_the_simulator
}

/// Maximum relative deviation of goodput from the simulator's.
const GOODPUT: f64 = 0.05;

/// Maximum deviation of the waiting data from the simulator's, relative to the waiting data with a
/// queue for each flow.
const WAITING: f64 = 0.02;

/// A trial with 10 Mbit/s, 52 ms, and four upward flows of CUBIC with windows of 64 KiB. There are
/// two variants: a queue for each flow, and held ACKs. Compares the median of three turns with the
/// simulation.
fn goodput_and_what_waits_are_as_in_the_simulator(bed: &Testbed, backend: &str) {
    let trial = |signal| Trial {
        backend,
        signal,
        way: "up",
        congestion: "cubic",
        flows: 4,
        short_windows: true,
        seconds: [3, 4],
    };
    let signals = ["none", "postack"];
    let simulated = signals.map(|signal| trial(signal).simulated(bed));
    let turn = || side_by_side(signals, |signal| trial(signal).live(bed));
    let live: [Vec<Findings>; 3] = turns(turn, |them| hangs(them));
    println!("{backend}: {live:#?}, simulated: {simulated:#?}");
    for n in 0..signals.len() {
        let goodput = median(live.iter().map(|it| it[n].goodput));
        assert!(
            (goodput / simulated[n].goodput - 1.0).abs() <= GOODPUT,
            "{live:#?}, {simulated:#?}"
        );
    }
    let ratio = |them: &[Findings]| them[1].waiting / them[0].waiting;
    let waiting = median(live.iter().map(|it| ratio(it)));
    assert!((waiting - ratio(&simulated)).abs() <= WAITING, "{live:#?}, {simulated:#?}");
}
