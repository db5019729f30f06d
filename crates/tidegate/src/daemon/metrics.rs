//! Writes the metrics of a gateway in the Prometheus text format, in base units. The number of
//! label values does not depend on traffic.

mod classes;
mod info;
mod marking;
mod sources;
mod text;

pub(crate) use text::{Labels, Page, float, labels};

use text::Pairs;

use crate::api::{Aggregate, Class, Source, Status, Trunk};

/// Formats `status`, `all_classes`, `all_trunks` and `all_sources` as metrics.
pub(super) fn page(
    status: &Status,
    all_classes: &[Class],
    all_trunks: &[Trunk],
    all_sources: &[Source],
) -> String {
    let mut page = Page::default();
    gateway(status, &mut page);
    info::write(status, all_classes, &mut page);
    link(status, &mut page);
    aggregates(&status.aggregates, &mut page);
    ack_controls(&status.aggregates, &mut page);
    classes::write(all_classes, &mut page);
    marking::write(status, all_classes, &mut page);
    trunks(all_trunks, &mut page);
    sources::write(all_sources, &mut page);
    page.into_text()
}

fn gateway(status: &Status, page: &mut Page) {
    let ports = &status.ports;
    let info = labels(&[
        ("version", &status.version),
        ("backend", &ports.backend),
        ("lan", &ports.lan),
        ("wan", &ports.wan),
    ]);
    let help = "Version of the program, and its ports.";
    page.metric("tidegate_build_info", "gauge", help, [(info, 1.0)]);
    page.reports(&[(Vec::new(), status)]);
}

fn link(status: &Status, page: &mut Page) {
    let directions = [("up", &status.up), ("down", &status.down)];
    let pairs = |name| vec![("direction", name)];
    page.reports(&directions.map(|(name, it)| (pairs(name), it)));
    let control = directions.map(|(name, it)| (pairs(name), it.control.unwrap_or_default()));
    page.reports(&control.each_ref().map(|(pairs, it)| (pairs.clone(), it)));
    let ports = [(&status.ports.lan, &status.up), (&status.ports.wan, &status.down)]
        .map(|(name, it)| (vec![("port", name.as_str())], it));
    let counts = ports.iter().filter_map(|(name, it)| Some((name.clone(), it.port.as_ref()?)));
    page.reports(&counts.collect::<Vec<_>>());
    let bypassed =
        ports.iter().filter_map(|(name, it)| Some((name.clone(), it.bypassed.as_ref()?)));
    page.reports(&bypassed.collect::<Vec<_>>());
}

fn aggregates(all: &[Aggregate], page: &mut Page) {
    let each = all
        .iter()
        .map(|it| (vec![("policy", it.policy.as_str()), ("direction", it.direction.name())], it));
    page.reports(&each.collect::<Vec<_>>());
}

/// Counters of ACK control. The label `signal` has the same value as `ack_control`; earlier
/// versions had only `signal`.
fn ack_controls(all: &[Aggregate], page: &mut Page) {
    let each = all.iter().filter_map(|it| {
        let control = it.ack_control.as_ref()?;
        let pairs = vec![
            ("policy", it.policy.as_str()),
            ("direction", it.direction.name()),
            ("ack_control", &control.kind),
            ("signal", &control.kind),
        ];
        Some((pairs, control))
    });
    let each: Vec<_> = each.collect();
    page.reports(&each);
    let counts = each.into_iter().map(|(pairs, it)| (pairs, &it.counts));
    page.reports(&counts.collect::<Vec<_>>());
}

fn trunks(all: &[Trunk], page: &mut Page) {
    page.reports(&each_trunk(all, |it| Some(it)));
    page.reports(&each_trunk(all, |it| Some(&it.counts)));
    page.reports(&each_trunk(all, |it| it.other_end.as_ref()));
    page.reports(&each_trunk(all, |it| it.weight.as_ref()));
    page.reports(&each_trunk(all, |it| it.encapsulation.as_ref()));
}

/// For each trunk of which `part` returns a part: the labels of the trunk, and this part.
fn each_trunk<T>(all: &[Trunk], part: fn(&Trunk) -> Option<&T>) -> Vec<(Pairs<'_>, &T)> {
    let parts = all.iter().filter_map(|it| Some((vec![("trunk", it.name.as_str())], part(it)?)));
    parts.collect()
}

#[cfg(test)]
mod tests;
