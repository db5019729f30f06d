//! Metrics of the policy sources (repositories).

use super::{Page, float, labels};
use crate::api::Source;

/// Adds the metrics of each source.
pub(super) fn write(all: &[Source], page: &mut Page) {
    let of = |it: &Source| labels(&[("source", &it.name), ("kind", &it.kind)]);
    let help = "1 if the newest set of the source is in force, and the source has no fault.";
    let in_force = |it: &Source| f64::from(u8::from(it.state == "in force"));
    let samples = all.iter().map(|it| (of(it), in_force(it)));
    page.metric("tidegate_source_in_force", "gauge", help, samples);
    let help = "Time since the source delivered its newest set.";
    let samples = all.iter().filter_map(|it| Some((of(it), float(it.delivered_s?))));
    page.metric("tidegate_source_delivered_seconds", "gauge", help, samples);
    let help = "Time for which the source has had its fault, or its newest set was refused.";
    let samples = all.iter().filter_map(|it| Some((of(it), float(it.failing_s?))));
    page.metric("tidegate_source_failing_seconds", "gauge", help, samples);
}
