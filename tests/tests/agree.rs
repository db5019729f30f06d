//! The simulator and this kernel agree: the same file, tried out in both.

use tidegate_e2e::trial::{Findings, Trial, side_by_side, undisturbed};
use tidegate_e2e::{Testbed, on_each_backend};

on_each_backend! {
    goodput_and_what_waits_are_as_in_the_simulator
}

/// How far goodput may be from the simulator's, as a part of it.
const GOODPUT: f64 = 0.05;

/// How far what waits, as a part of a queue for each flow's, may be from the simulator's.
const WAITING: f64 = 0.02;

/// Whether `live` is as `simulated`: with a queue for each flow, and with ACKs held.
fn agree(live: &[Findings], simulated: &[Findings]) -> bool {
    let goodput = |n: usize| (live[n].goodput / simulated[n].goodput - 1.0).abs() <= GOODPUT;
    let ratio = |them: &[Findings]| them[1].waiting / them[0].waiting;
    goodput(0) && goodput(1) && (ratio(live) - ratio(simulated)).abs() <= WAITING
}

/// 10 Mbit/s, 52 ms, four flows of CUBIC with windows of 64 KiB, data going up.
fn goodput_and_what_waits_are_as_in_the_simulator(bed: &Testbed, backend: &str) {
    let trial = |signal| Trial {
        backend,
        signal,
        way: "up",
        congestion: "cubic",
        flows: 4,
        short_windows: true,
        seconds: [4, 6],
    };
    let signals = ["none", "postack"];
    let simulated = signals.map(|signal| trial(signal).simulated(bed));
    let turn = || side_by_side(signals, |signal| trial(signal).live(bed));
    let live = undisturbed(turn, |live| agree(live, &simulated));
    println!("{backend}: {live:#?}, simulated: {simulated:#?}");
}
