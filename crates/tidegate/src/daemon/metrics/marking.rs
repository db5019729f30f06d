//! Metrics of congestion marking, for each queue that marks.

use super::{Labels, Page, float, labels};
use crate::api::{Class, Marking, Status};

/// Adds the metrics of marking at the link and at its classes.
pub(super) fn write(status: &Status, classes: &[Class], page: &mut Page) {
    let link = [("up", &status.up), ("down", &status.down)];
    let link =
        link.into_iter().filter_map(|(way, it)| Some((vec![("direction", way)], it.marking?)));
    let link: Vec<_> = link.collect();
    let help =
        "Packets marked by the marking of the link's queue, or of the buffer that classes share.";
    page.metric("tidegate_link_marked_packets_total", "counter", help, link.iter().map(marked));
    let help = "Packets dropped by the marking of the link's queue, or of the buffer that classes share: `predicted` in place of a mark, `unmarkable` with no flow left to mark.";
    let name = "tidegate_link_marking_dropped_packets_total";
    page.metric(name, "counter", help, link.iter().flat_map(dropped));
    for (name, kind, help, of) in TRACKED {
        let samples = link.iter().map(|(place, it)| (labels(place), of(it)));
        page.metric(&format!("tidegate_link_marking_{name}"), kind, help, samples);
    }

    let classes: Vec<_> = classes.iter().filter_map(|it| Some((place(it), it.marking?))).collect();
    let help = "Packets that the marking of the class marked.";
    page.metric("tidegate_class_marked_packets_total", "counter", help, classes.iter().map(marked));
    let help = "Packets of the class that the marking of its queue dropped: `predicted` in place of a mark, `unmarkable` with no flow left to mark.";
    let name = "tidegate_class_marking_dropped_packets_total";
    page.metric(name, "counter", help, classes.iter().flat_map(dropped));
    for (name, kind, help, of) in TRACKED {
        let samples = classes.iter().map(|(place, it)| (labels(place), of(it)));
        page.metric(&format!("tidegate_class_marking_{name}"), kind, help, samples);
    }
}

/// A metric of the flows that a marking algorithm tracks: name, type, help, and value.
type Tracked = (&'static str, &'static str, &'static str, fn(&Marking) -> f64);

const TRACKED: [Tracked; 6] = [
    (
        "all_bytes_total",
        "counter",
        "Bytes of packets that arrived at the queue of the marking.",
        |it| float(it.tracked.all_bytes),
    ),
    (
        "tracked_bytes_total",
        "counter",
        "Bytes of packets whose flows the marking projected by their rounds when they arrived.",
        |it| float(it.tracked.tracked_bytes),
    ),
    ("tracked_flows", "gauge", "Flows that the marking projects by their rounds now.", |it| {
        float(it.tracked.flows)
    }),
    (
        "rho",
        "gauge",
        "Factor of the rounds of these flows; 1 if other traffic is counted at its rate.",
        |it| it.tracked.rho,
    ),
    (
        "threshold_bytes",
        "gauge",
        "Bytes in the last interval from which on a flow was to be tracked; 0 without a filter.",
        |it| float(it.tracked.threshold.0),
    ),
    (
        "false_positives",
        "gauge",
        "Flows that were projected throughout the last interval and sent less than the threshold in it.",
        |it| float(it.tracked.false_positives),
    ),
];

/// The labels that name a queue, and the counters of its marking.
type MarkingSample<'a> = (Vec<(&'static str, &'a str)>, Marking);

fn place(class: &Class) -> Vec<(&'static str, &str)> {
    vec![("class", &class.name), ("direction", class.direction.name())]
}

fn marked((place, it): &MarkingSample<'_>) -> (Labels, f64) {
    (labels(place), float(it.marked))
}

fn dropped((place, it): &MarkingSample<'_>) -> [(Labels, f64); 2] {
    let of = |reason, n| (labels(&[&place[..], &[("reason", reason)]].concat()), float(n));
    [of("predicted", it.not_ect), of("unmarkable", it.unmarkable)]
}
