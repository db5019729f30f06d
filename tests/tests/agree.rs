//! Live test: the same scenario file gives the same results in the simulator and with this kernel.

use tidegate_e2e::measure::median;
use tidegate_e2e::trial::{Findings, Trial, hangs, side_by_side, undisturbed_runs};
use tidegate_e2e::{Testbed, on_each_backend};

on_each_backend! {
    goodput_and_waiting_bytes_agree_with_the_simulator
}

/// Maximum relative deviation of the goodput from the simulation.
const GOODPUT: f64 = 0.05;

/// Maximum deviation of the number of waiting bytes from the simulation, relative to the bytes that
/// wait without ACK control.
const WAITING: f64 = 0.02;

/// Four upload flows of CUBIC with windows of 64 KiB, at 10 Mbit/s and a round-trip time of 52 ms.
/// In one variant, data waits in a queue for each flow. In the other, ACK control holds ACKs
/// instead. The median of three runs is compared with the simulation.
fn goodput_and_waiting_bytes_agree_with_the_simulator(bed: &Testbed, backend: &str) {
    let trial = |ack_control| Trial {
        backend,
        ack_control,
        way: "up",
        congestion: "cubic",
        flows: 4,
        short_windows: true,
        seconds: [3, 4],
    };
    let ack_controls = ["none", "postack"];
    let simulated = ack_controls.map(|ack_control| trial(ack_control).simulated(bed));
    let run = || side_by_side(ack_controls, |ack_control| trial(ack_control).live(bed));
    let live: [Vec<Findings>; 3] = undisturbed_runs(run, |them| hangs(them));
    println!("{backend}: {live:#?}, simulated: {simulated:#?}");
    for n in 0..ack_controls.len() {
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
