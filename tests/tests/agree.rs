//! Live test: the same file gives the same results in the simulator and with this kernel.

use tidegate_e2e::measure::median;
use tidegate_e2e::trial::{Findings, Trial, hangs, side_by_side, turns};
use tidegate_e2e::{Testbed, on_each_backend};

on_each_backend! {
    goodput_and_what_waits_are_as_in_the_simulator
}

/// Maximum relative deviation of the goodput from the simulation.
const GOODPUT: f64 = 0.05;

/// Maximum deviation of the waiting bytes from the simulation. It is relative to the bytes that
/// wait without ACK control.
const WAITING: f64 = 0.02;

/// Four upload flows of CUBIC with windows of 64 KiB, at 10 Mbit/s and a round-trip time of 52 ms.
/// There are two variants: without ACK control (data waits in a queue for each flow) and with held
/// ACKs. The median of three runs is compared with the simulation.
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
