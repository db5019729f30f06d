//! Metrics of the weights of trunks.

use super::{Page, float, labels};
use crate::api::Trunk;

/// Writes the weight of each trunk, and the measurements and decisions of its adjuster.
pub(super) fn write(all: &[Trunk], page: &mut Page) {
    let mut metric = |name: &str, kind: &str, help: &str, value: fn(&Trunk) -> Option<f64>| {
        let samples =
            all.iter().filter_map(|it| Some((labels(&[("trunk", &it.name)]), value(it)?)));
        page.metric(name, kind, help, samples);
    };
    let help = "Management connections in use.";
    metric("tidegate_trunk_active_connections", "gauge", help, |it| Some(float(it.active)));
    let help = "Weight of the trunk.";
    metric("tidegate_trunk_weight_ratio", "gauge", help, |it| Some(it.weight.as_ref()?.weight));
    let help = "Share of the weight's last measurement in which packets waited.";
    metric("tidegate_trunk_busy_ratio", "gauge", help, |it| it.weight.as_ref()?.busy);
    let help = "User bytes per second that arrived during the weight's last measurement.";
    metric("tidegate_trunk_offered_bytes_per_second", "gauge", help, |it| {
        Some(float(it.weight.as_ref()?.offered_bps?) / 8.0)
    });
    let help = "User bytes per second that the trunk sent while packets waited, during the weight's last measurement.";
    metric("tidegate_trunk_service_bytes_per_second", "gauge", help, |it| {
        Some(float(it.weight.as_ref()?.service_bps?) / 8.0)
    });
    let decisions = all.iter().flat_map(|it| {
        let kinds = it.weight.iter().flat_map(|weight| {
            [
                ("increased", weight.increased),
                ("decreased", weight.decreased),
                ("held", weight.held),
                ("abandoned", weight.abandoned),
            ]
        });
        kinds.map(|(by, count)| {
            (labels(&[("trunk", it.name.as_str()), ("decision", by)]), float(count))
        })
    });
    let help = "Measurements of the weight's adjuster, by decision.";
    page.metric("tidegate_trunk_weight_decisions_total", "counter", help, decisions);
}
