//! How classes share a link, compared with HTB.

mod play;
mod tree;

use std::time::Duration;

use tidegate_e2e::Testbed;

use self::play::{Load, Played, play};
use self::tree::{Class, Sharer, forwarder};
use crate::forwarding;
use crate::number::median;
use crate::report::{Line, Report};

/// Rate of the link in Mbit/s.
const LINK: u32 = 20;

/// Number of measurements of each scheduler. The schedulers are measured alternately.
const ROUNDS: usize = 3;

/// A scene: classes, their loads, and the figures to compute.
struct Scene {
    tree: &'static [Class],
    /// The load of each leaf class.
    loads: &'static [Load],
    figures: &'static [Figure],
}

/// A figure computed from the arrivals. Smaller is better.
struct Figure {
    what: &'static str,
    unit: &'static str,
    value: fn(&Played) -> f64,
}

/// Three classes, whose guarantees leave 6 of the link's 20 Mbit/s unassigned.
const THREE: &[Class] = &[Class::new(8_000, 1), Class::new(4_000, 2), Class::new(2_000, 3)];

const SCENES: &[Scene] = &[
    Scene {
        tree: THREE,
        loads: &[Load::ALL, Load::ALL, Load::ALL],
        figures: &[
            Figure {
                what: "guarantees 8, 4, 2 Mbit/s, weights 1, 2, 3: largest deviation from 9, 6, 5 Mbit/s",
                unit: "%",
                value: |it| furthest([it.off(&[0], 9.0), it.off(&[1], 6.0), it.off(&[2], 5.0)]),
            },
            Figure {
                what: "the same classes: largest deviation in any second",
                unit: "%",
                value: |it| {
                    furthest(
                        [(0, 9.0), (1, 6.0), (2, 5.0)]
                            .map(|(leaf, part)| it.off_in_a_second(leaf, part)),
                    )
                },
            },
        ],
    },
    Scene {
        tree: THREE,
        loads: &[Load::of(2), Load::ALL, Load::ALL],
        figures: &[Figure {
            what: "the first class sends only 2 Mbit/s: deviation of the others from 8.8, 9.2 Mbit/s",
            unit: "%",
            value: |it| furthest([it.off(&[1], 8.8), it.off(&[2], 9.2)]),
        }],
    },
    Scene {
        tree: &[
            Class::new(4_000, 1),
            Class::new(4_000, 1),
            Class::of(0, 1_000, 1),
            Class::of(1, 1_000, 1),
            Class::of(1, 1_000, 1),
            Class::of(1, 1_000, 1),
        ],
        loads: &[Load::ALL, Load::ALL, Load::ALL, Load::ALL],
        figures: &[Figure {
            what: "classes with 1 and with 3 leaves, equal weights: deviation from 10, 10 Mbit/s",
            unit: "%",
            value: |it| furthest([it.off(&[0], 10.0), it.off(&[1, 2, 3], 10.0)]),
        }],
    },
    Scene {
        tree: &[Class::new(5_000, 1), Class::new(10_000, 1)],
        loads: &[Load::ALL, LATER],
        figures: &[
            Figure {
                what: "a class starts to use its guarantee of 10 Mbit/s: largest lag",
                unit: "ms",
                value: |it| it.lag(1, 10.0),
            },
            Figure {
                what: "the class stops: idle time of the link in the next 200 ms",
                unit: "ms",
                value: |it| it.idle_after(1),
            },
        ],
    },
    Scene {
        tree: &[Class::new(1_000, 1), Class::new(5_000, 1), Class::new(5_000, 1)],
        loads: &[CALL, Load::ALL, Load::ALL],
        figures: &[Figure {
            what: "50 frames/s within a guarantee: delay that 1 in 20 exceeds",
            unit: "ms",
            value: |it| it.delay(0, 20),
        }],
    },
    Scene {
        tree: &[Class::new(100, 1), Class::new(100, 16), Class::new(100, 16)],
        loads: &[CALL, Load::ALL, Load::ALL],
        figures: &[Figure {
            what: "50 frames/s within a share of the excess, weights 1, 16, 16: delay that 1 in 20 exceeds",
            unit: "ms",
            value: |it| it.delay(0, 20),
        }],
    },
];

/// Classes whose guarantees exceed any load, so no class ever sends above its guarantee.
const FAST: &[Class] =
    &[Class::new(1_000_000, 1), Class::new(1_000_000, 1), Class::new(1_000_000, 1)];

const CALL: Load = Load { per_second: 50, ..Load::ALL };
const LATER: Load =
    Load { start: Duration::from_secs(2), lasts: Duration::from_millis(1_500), ..Load::ALL };

fn furthest<const N: usize>(off: [f64; N]) -> f64 {
    off.into_iter().fold(0.0, f64::max)
}

/// Adds each figure to `report`, for Tidegate and for HTB. There are no limits.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    report.section(&format!("A link of {LINK} Mbit/s shared by classes, beside HTB"));
    for scene in SCENES {
        let play = |bed: &Testbed, sharer| {
            let forwarder = forwarder(bed, sharer, LINK, scene.tree)?;
            let played = play(bed, &forwarder, scene.loads)?;
            Ok(scene.figures.iter().map(|it| (it.value)(&played)).collect::<Vec<_>>())
        };
        let Some([ours, theirs]) = alternately(report, play)? else { return Ok(()) };
        for (number, Figure { what, unit, .. }) in scene.figures.iter().enumerate() {
            let [ours, theirs] =
                [&ours, &theirs].map(|all| all.iter().map(|it| it[number]).collect());
            report.add(compared(what, unit, ours, theirs));
        }
    }
    let cost =
        |bed: &Testbed, sharer| forwarding::cost(bed, &forwarder(bed, sharer, 10_000, FAST)?);
    if let Some([ours, theirs]) = alternately(report, cost)? {
        let what = "processor time of a frame with room for all, hosts and softirqs included";
        report.add(compared(what, "ns", ours, theirs));
    }
    Ok(())
}

/// Measures Tidegate and HTB alternately. Returns `None` if this machine cannot measure them.
fn alternately<T>(
    report: &mut Report,
    measure: impl Fn(&Testbed, Sharer) -> anyhow::Result<T>,
) -> anyhow::Result<Option<[Vec<T>; 2]>> {
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (sharer, all) in [Sharer::Ours, Sharer::Htb].into_iter().zip(&mut all) {
            let Some(bed) = Testbed::new() else {
                report.skip("sharing; there are no network namespaces here: run it as root");
                return Ok(None);
            };
            all.push(measure(&bed, sharer)?);
        }
    }
    Ok(Some(all))
}

/// Compares two lists of measurements. A scheduler is called better only if all its values are
/// better than all values of the other.
fn compared(what: &str, unit: &'static str, ours: Vec<f64>, theirs: Vec<f64>) -> Line {
    let range = |all: &[f64]| {
        let (least, most) =
            (all.iter().copied().reduce(f64::min), all.iter().copied().reduce(f64::max));
        (least.unwrap_or_default(), most.unwrap_or_default())
    };
    let (our_range, their_range) = (range(&ours), range(&theirs));
    let verdict = if our_range.1 < their_range.0 {
        "better than HTB"
    } else if our_range.0 > their_range.1 {
        "worse than HTB"
    } else {
        "no difference that is larger than its spread"
    };
    Line {
        what: what.to_owned(),
        value: median(ours),
        unit,
        most: None,
        beside: format!(
            "{:.2} to {:.2}; HTB {:.2}, {:.2} to {:.2}: {verdict}",
            our_range.0,
            our_range.1,
            median(theirs),
            their_range.0,
            their_range.1
        ),
    }
}
