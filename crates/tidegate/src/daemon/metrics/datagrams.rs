//! Metrics of user packets that trunks encapsulate in datagrams.

use super::{Page, float, labels};
use crate::api::{Encapsulation, Trunk};

/// Adds the metrics of each trunk that encapsulates user packets.
pub(super) fn write(all: &[Trunk], page: &mut Page) {
    type Count = fn(&Encapsulation) -> u64;
    let carried: [(&str, &str, &str, Count); 6] = [
        (
            "tidegate_trunk_path_mtu_bytes",
            "gauge",
            "Path MTU of the trunk, in bytes of IP packet.",
            |it| it.path_mtu_bytes,
        ),
        (
            "tidegate_trunk_encapsulated_packets_total",
            "counter",
            "Datagrams with user packets sent.",
            |it| it.sent_packets,
        ),
        (
            "tidegate_trunk_decapsulated_packets_total",
            "counter",
            "Datagrams with user packets received.",
            |it| it.received_packets,
        ),
        (
            "tidegate_trunk_fragments_total",
            "counter",
            "Fragments sent of user packets that did not fit a datagram.",
            |it| it.fragments,
        ),
        (
            "tidegate_trunk_too_big_packets_total",
            "counter",
            "User packets dropped because they did not fit a datagram and may not be fragmented.",
            |it| it.too_big_packets,
        ),
        (
            "tidegate_trunk_ignored_reports_total",
            "counter",
            "ICMP errors about too big datagrams that were ignored: not credible, or not new.",
            |it| it.ignored_reports,
        ),
    ];
    for (name_of, kind, help, value) in carried {
        let there = all.iter().filter_map(|it| Some((it, it.encapsulation.as_ref()?)));
        page.metric(
            name_of,
            kind,
            help,
            there.map(|(it, carried)| (labels(&[("trunk", &it.name)]), float(value(carried)))),
        );
    }
}
