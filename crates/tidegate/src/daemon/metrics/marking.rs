//! Metrics of congestion marking, for each queue that marks.

use tidegate_core::marking::Tracked;

use super::text::Pairs;
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
    page.reports_at("link", &tracked(&link));

    let classes: Vec<_> = classes.iter().filter_map(|it| Some((place(it), it.marking?))).collect();
    let help = "Packets that the marking of the class marked.";
    page.metric("tidegate_class_marked_packets_total", "counter", help, classes.iter().map(marked));
    let help = "Packets of the class that the marking of its queue dropped: `predicted` in place of a mark, `unmarkable` with no flow left to mark.";
    let name = "tidegate_class_marking_dropped_packets_total";
    page.metric(name, "counter", help, classes.iter().flat_map(dropped));
    page.reports_at("class", &tracked(&classes));
}

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

fn tracked<'a>(all: &'a [MarkingSample<'_>]) -> Vec<(Pairs<'a>, &'a Tracked)> {
    all.iter().map(|(place, it)| (place.clone(), &it.tracked)).collect()
}
