//! Metrics of the bandwidth classes.

use super::{Page, float, labels};
use crate::api::{Class, Promise};

/// Adds the metrics of `all` classes.
pub(super) fn write(all: &[Class], page: &mut Page) {
    let pair = |it: &Class| labels(&[("class", &it.name), ("direction", &it.direction)]);
    let mut metric = |name: &str, kind: &str, help: &str, value: fn(&Class) -> Option<f64>| {
        page.metric(name, kind, help, all.iter().filter_map(|it| Some((pair(it), value(it)?))));
    };
    let help = "Guarantee of the class.";
    metric("tidegate_class_guarantee_bytes_per_second", "gauge", help, |it| {
        Some(float(it.guarantee_bps) / 8.0)
    });
    let help = "Ceiling of the class, if it has one of its own.";
    metric("tidegate_class_ceiling_bytes_per_second", "gauge", help, |it| {
        Some(float(it.ceiling_bps?) / 8.0)
    });
    let help = "Delay bound of the class, if it has one.";
    metric("tidegate_class_delay_bound_seconds", "gauge", help, |it| {
        Some(float(it.delay_bound_us?) / 1e6)
    });
    let help = "Bytes of the class that departed, as charged on the link.";
    metric("tidegate_class_sent_bytes_total", "counter", help, |it| Some(float(it.sent.bytes)));
    let help = "Packets of the class that departed.";
    metric("tidegate_class_sent_packets_total", "counter", help, |it| Some(float(it.sent.packets)));
    let help = "Bytes of the class that departed beyond its guarantee.";
    metric("tidegate_class_borrowed_bytes_total", "counter", help, |it| {
        Some(float(it.borrowed_bytes))
    });
    let help = "Packets of the class that were dropped.";
    metric("tidegate_class_dropped_packets_total", "counter", help, |it| {
        Some(float(it.dropped_packets))
    });
    let help = "Bytes of the class that wait.";
    metric("tidegate_class_waiting_bytes", "gauge", help, |it| Some(float(it.waiting.bytes)));
    let help =
        "Sum of the queueing delays of the class's departed packets, if the scheduler records it.";
    metric("tidegate_class_queueing_seconds_total", "counter", help, |it| {
        Some(float(it.delays?.total_us) / 1e6)
    });
    let help = "Longest queueing delay of a packet of the class, if the scheduler records it.";
    metric("tidegate_class_longest_queueing_seconds", "gauge", help, |it| {
        Some(float(it.delays?.longest_us) / 1e6)
    });
    promises(all, page);
}

/// Adds the guarantees to classes, with the measured values.
fn promises(all: &[Class], page: &mut Page) {
    let each = || all.iter().flat_map(|class| class.promises.iter().map(move |it| (class, it)));
    let mut metric = |name: &str, kind: &str, help: &str, value: fn(&Promise) -> Option<f64>| {
        let samples = each().filter_map(|(class, it)| {
            let names = [
                ("class", class.name.as_str()),
                ("direction", &class.direction),
                ("term", &it.term),
                ("of", it.of.as_deref().unwrap_or_default()),
            ];
            Some((labels(&names), value(it)?))
        });
        page.metric(name, kind, help, samples);
    };
    let help = "A promise to the class by its term, in bit/s, seconds, or as a part or ratio; `of` is the class \
                that a ratio refers to.";
    metric("tidegate_class_promised", "gauge", help, |it| Some(it.promised));
    let help = "The measured value of a promise: mean rate while backlogged, longest delay, loss, or ratio.";
    metric("tidegate_class_kept", "gauge", help, |it| it.kept);
    let help =
        "Violations of a promise: packets for bounds, windows of 0.5 s for rates and ratios.";
    metric("tidegate_class_violations_total", "counter", help, |it| Some(float(it.violations)));
    let help = "Times that a promise was relaxed, because other promises have precedence.";
    metric("tidegate_class_relaxed_total", "counter", help, |it| Some(float(it.relaxed)));
}
