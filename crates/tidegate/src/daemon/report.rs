//! Converts the reports of the gateway into the types of the HTTP API.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use tidegate_core::Count;
use tidegate_core::marking::Marks;
use tidegate_core::packet::Direction;
use tidegate_core::policy::{Action, Mode, Policy};
use tidegate_core::qdisc::Backlog;
use tidegate_core::report::{
    AggregateReport, ClassReport, ControlReport, FlowReport, Limit, PromiseReport, Triggers,
    TunnelReport, UnresponsiveFlow,
};
use tidegate_core::{ByReason, Reason};
use tidegate_dataplane::fail_to_wire::{Bypassed, FrameCount};

use super::plane::PlaneSnapshot;
use crate::api;
use crate::config::Config;

/// Converts `seen` into a status. The caller fills in the fields that only the daemon knows.
pub(super) fn status(seen: &PlaneSnapshot) -> api::Status {
    let report = &seen.report;
    api::Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: 0,
        file: String::new(),
        started_file: String::new(),
        ports: api::Ports::default(),
        generation: report.generation,
        unconfirmed_ms: None,
        passing: seen.passing,
        alarms: Vec::new(),
        up: link_direction(seen, Direction::Up),
        down: link_direction(seen, Direction::Down),
        held: report.held,
        drops: counted(seen.ports.iter().map(|port| port.drops).chain([report.drops])),
        redundant_acks: report.drops.of(Reason::RedundantAck),
        marks: counted([report.marks]),
        flows: report.flows,
        untracked: report.untracked,
        fragments_without_first: report.fragments_without_first.iter().sum(),
        hangs: seen.hangs,
        occupied_us: micros(seen.occupied),
        aggregates: report.aggregates.iter().map(aggregate).collect(),
        idle_policies: Vec::new(),
    }
}

/// The policies in `all` without an aggregate in `seen`, because no packet has matched them.
pub(super) fn idle(all: &[Policy], seen: &[api::Aggregate]) -> Vec<String> {
    let seen: HashSet<&str> = seen.iter().map(|it| it.policy.as_str()).collect();
    let names = all.iter().map(|policy| &policy.name);
    names.filter(|name| !seen.contains(name.as_str())).cloned().collect()
}

/// The alarm about a flow whose sender does not slow down.
pub(super) fn unresponsive(it: &UnresponsiveFlow) -> String {
    format!(
        "{} to {} ({}) does not respond: it sends more than its ACKs request, and policy {} treats \
         it like UDP; look at its sender, or match it with a policy of its own",
        it.src,
        it.dst,
        it.direction.name(),
        it.policy
    )
}

fn link_direction(seen: &PlaneSnapshot, direction: Direction) -> api::LinkDirection {
    let at = direction.index();
    let port = seen.ports.get(at).map(|port| api::PortCount {
        ring_overflows: port.ring_overflows,
        receive_errors: port.receive_errors,
        send_errors: port.send_errors,
        refused: port.drops.of(Reason::Refused),
        split: port.split,
        unfinished: port.unfinished,
    });
    api::LinkDirection {
        received: count(seen.report.received[at]),
        transmitted: count(seen.report.transmitted[at]),
        waiting: waiting(seen.report.link[at]),
        mechanisms: seen.report.link_mechanisms[at].clone(),
        marking: seen.report.link_marking[at].map(marking),
        control: seen.report.control[at].as_ref().map(control),
        port,
        bypassed: seen.bypassed.get(at).map(bypassed),
    }
}

fn bypassed(it: &Bypassed) -> api::Bypassed {
    let count = |it: FrameCount| api::Count { packets: it.frames, bytes: it.bytes };
    let [idle, told, silent, no_socket] =
        [it.idle, it.requested, it.silent, it.no_socket].map(count);
    api::Bypassed { idle, told, silent, no_socket }
}

fn marking(it: Marks) -> api::Marking {
    api::Marking {
        marked_packets: it.marked,
        not_ect_packets: it.not_ect,
        unmarkable_packets: it.unmarkable,
        tracked_flows: it.tracked.flows,
        all_bytes: it.tracked.all_bytes,
        tracked_bytes: it.tracked.tracked_bytes,
        rho: it.tracked.rho,
        threshold_bytes: it.tracked.threshold.0,
        false_positives: it.tracked.false_positives,
    }
}

fn control(it: &ControlReport) -> api::Control {
    api::Control {
        allowance_bps: it.allowance.bps(),
        sent: api::Count { packets: it.sent.packets, bytes: it.sent.bytes },
        borrowed_bytes: it.sent.borrowed,
        waiting: waiting(it.backlog),
        dropped_packets: it.drops,
    }
}

fn promise(it: PromiseReport) -> api::Promise {
    api::Promise {
        term: it.term.name().to_owned(),
        of: it.of,
        unit: it.term.unit().to_owned(),
        promised: it.promised,
        kept: it.kept,
        violations: it.violations,
        relaxed: it.relaxed,
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn aggregate(it: &AggregateReport) -> api::Aggregate {
    let control = it.mechanisms.ack_control.as_ref().map(|kind| ack_control(kind, it));
    let left = it.conforming.packets + it.exceeding.packets;
    api::Aggregate {
        policy: it.policy.clone(),
        direction: it.direction.name().to_owned(),
        mechanisms: it.mechanisms.clone(),
        mean_bps: it.mean.map(|rate| rate.bps()),
        flows: it.flows,
        offered: count(it.offered),
        conforming: count(it.conforming),
        exceeding: count(it.exceeding),
        waiting: waiting(it.backlog),
        peak_waiting_bytes: it.peak_backlog,
        mean_wait_us: it.waited_ns / left.max(1) / 1_000,
        waited_ns: it.waited_ns,
        late: it.late,
        drops: counted([it.drops]),
        marks: counted([it.marks]),
        marking: it.marking.map(marking),
        triggers: triggers(it.triggers),
        ack_control: control.clone(),
        signal: control,
    }
}

fn ack_control(kind: &str, it: &AggregateReport) -> api::AckControl {
    let counts = it.acks;
    let released = counts.delayed.saturating_sub(counts.held.into());
    let mean_hold_us = counts.held_ns / released.max(1) / 1_000;
    api::AckControl {
        kind: kind.to_owned(),
        mean_hold_us,
        unresponsive: it.unresponsive,
        uncontrolled: counts.ungoverned,
        counts,
    }
}

/// Converts the report of a class.
pub(super) fn class(it: ClassReport) -> api::Class {
    api::Class {
        name: it.name,
        parent: it.parent,
        direction: it.direction.name().to_owned(),
        mechanisms: it.mechanisms,
        guarantee_bps: it.terms.guarantee.bps(),
        ceiling_bps: it.terms.ceiling.map(|rate| rate.bps()),
        weight: it.terms.weight,
        priority: it.terms.priority,
        burst_bytes: it.terms.burst.0,
        delay_bound_us: it.terms.delay_bound.map(micros),
        sent: api::Count { packets: it.sent.packets, bytes: it.sent.bytes },
        borrowed_bytes: it.sent.borrowed,
        waiting: waiting(it.backlog),
        dropped_packets: it.drops,
        marking: it.marking.map(marking),
        delays: it.delays.map(|it| api::ClassDelays {
            packets: it.packets,
            total_us: micros(it.total),
            longest_us: micros(it.longest),
        }),
        promises: it.promises.into_iter().map(promise).collect(),
    }
}

fn triggers(it: Triggers) -> BTreeMap<String, u64> {
    let named = [
        ("arrival", it.arrival),
        ("timer", it.timer),
        ("ack", it.ack),
        ("idle-ack", it.idle_ack),
        ("duplicate-ack", it.duplicate_ack),
        ("connection", it.connection),
    ];
    named.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn counted(all: impl IntoIterator<Item = ByReason>) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for packets in all {
        let lost = packets.iter().filter(|(reason, _)| *reason != Reason::RedundantAck);
        for (reason, count) in lost.filter(|(_, count)| *count > 0) {
            *counted.entry(reason.name().to_owned()).or_default() += count;
        }
    }
    counted
}

const fn count(it: Count) -> api::Count {
    api::Count { packets: it.packets, bytes: it.bytes }
}

pub(super) fn waiting(it: Backlog) -> api::Count {
    api::Count { packets: u64::from(it.packets), bytes: it.bytes.0 }
}

/// Converts `flows`, and describes what limits each. The time grows with the number of flows and of
/// policies.
pub(super) fn flows(flows: Vec<FlowReport>, config: &Config) -> Vec<api::Flow> {
    let policies = config.policies.iter().map(|policy| (policy.name.as_str(), policy)).collect();
    flows.into_iter().map(|it| flow(it, &policies)).collect()
}

/// Policies by name.
type Policies<'a> = HashMap<&'a str, &'a Policy>;

fn flow(flow: FlowReport, policies: &Policies<'_>) -> api::Flow {
    let limit = limit(&flow, policies);
    let limit = if flow.ignores_marks { format!("{limit}; it ignores marks") } else { limit };
    api::Flow {
        src: flow.src,
        dst: flow.dst,
        vlans: flow.vlans,
        tunnels: flow.tunnels.into_iter().map(tunnel).collect(),
        protocol: flow.protocol,
        direction: flow.direction.to_owned(),
        policy: flow.policy,
        weight: flow.weight,
        offered: count(flow.offered),
        waiting_bytes: flow.waiting_bytes,
        held_acks: flow.held_acks,
        rtt_lan_us: flow.rtt_lan_us,
        rtt_wan_us: flow.rtt_wan_us,
        retransmissions: flow.retransmissions,
        tracking: flow.tracking.to_owned(),
        idle_ms: flow.idle_ms,
        ignores_marks: flow.ignores_marks,
        limit,
    }
}

fn tunnel(it: TunnelReport) -> api::Tunnel {
    let TunnelReport { kind, id, src, dst, vlan } = it;
    api::Tunnel { kind: kind.to_owned(), id, src, dst, vlan }
}

/// Describes what limits `flow`.
fn limit(flow: &FlowReport, policies: &Policies<'_>) -> String {
    let name = flow.policy.as_deref();
    let policy = name.and_then(|name| policies.get(name).copied());
    let conditioning = policy.and_then(|it| it.action.conditioning());
    let profile = conditioning.map_or_else(String::new, |it| format!(" ({})", it.profile));
    let policy_with_profile = format!("policy {}{profile}", name.unwrap_or("none"));
    let held = match flow.held_acks {
        0 => String::new(),
        n => format!(", and {n} of its ACKs are held"),
    };
    match &flow.limit {
        Limit::Policy { bytes, shared: false } => {
            format!("{policy_with_profile}: {bytes} bytes wait{held}")
        }
        Limit::Policy { bytes, shared: true } => {
            format!("{policy_with_profile}: {bytes} bytes wait, with flows of the same share{held}")
        }
        Limit::Trunk { name, bytes } => {
            format!("trunk {name}: {bytes} bytes wait for credit{held}")
        }
        Limit::Class { name, bytes } => format!("class {name}: {bytes} bytes wait{held}"),
        Limit::Link { bytes } => format!("the access link: {bytes} bytes wait for it{held}"),
        Limit::HeldAcks { acks } => format!("{policy_with_profile}: {acks} of its ACKs are held"),
        Limit::IsHeld { policy, acks } => {
            format!("policy {policy}, which holds {acks} of its packets as ACKs")
        }
        Limit::Receiver => "its receiver: the window is full".to_owned(),
        Limit::Window => format!("{policy_with_profile}: its reduced window is full"),
        Limit::Silent => "its sender, which sends nothing".to_owned(),
        Limit::Sender => {
            let here = policy.map_or_else(|| "no policy matches it".to_owned(), passed);
            format!("its sender, or a queue elsewhere: nothing of it waits here; {here}")
        }
    }
}

/// Describes how `policy` treats a flow that has no packets waiting.
fn passed(policy: &Policy) -> String {
    let name = &policy.name;
    match &policy.action {
        _ if policy.mode == Mode::Observe => format!("policy {name} only observes"),
        Action::Pass => format!("policy {name} lets it pass"),
        Action::Shape { .. } => format!("policy {name} has room for more"),
        Action::Police { conditioning, .. } => {
            format!("policy {name} polices it ({})", conditioning.profile)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    /// Catches: the VLAN inside a tunnel missing in the text or in the field; a VLAN shown for a
    /// tunnel without one.
    #[test]
    fn a_tunnel_is_shown_with_the_vlan_inside() {
        let [src, dst] = ["192.0.2.1:4789", "192.0.2.2:4789"].map(str::to_owned);
        let tagged = TunnelReport { kind: "vxlan", id: Some(7), src, dst, vlan: Some(20) };
        let untagged = TunnelReport { vlan: None, ..tagged.clone() };
        let words = "vxlan 7 from 192.0.2.1:4789 to 192.0.2.2:4789";
        assert_eq!(tunnel(untagged).text(), words);
        let tagged = tunnel(tagged);
        assert_eq!(
            (tagged.vlan, tagged.text()),
            (Some(20), format!("{words}, with VLAN 20 inside"))
        );
    }

    /// Catches: one text for two different limits; held ACKs not mentioned; a policy named without
    /// its profile.
    #[test]
    fn each_limit_has_an_answer_of_its_own() {
        let text = "[gateway]\nlan = \"lan\"\nwan = \"wan\"\n\
                    [[policy]]\nname = \"web\"\naction = \"shape\"\n\
                    profile = { mean = \"5 Mbit/s\", burst = \"64 KiB\" }\n";
        let config = config::parse("policy.toml", text, None).0.unwrap();
        let said = |policy: Option<&str>, held_acks, limit| {
            let report = FlowReport {
                src: "10.0.0.1:1".to_owned(),
                dst: "10.0.0.2:2".to_owned(),
                vlans: Vec::new(),
                tunnels: Vec::new(),
                protocol: 6,
                direction: "up",
                policy: policy.map(str::to_owned),
                weight: 1,
                offered: Count::default(),
                waiting_bytes: 0,
                held_acks,
                limit,
                rtt_lan_us: None,
                rtt_wan_us: None,
                retransmissions: 0,
                tracking: "full",
                idle_ms: 0,
                ignores_marks: false,
            };
            flows(vec![report], &config)[0].limit.clone()
        };
        let bytes = 3_028;
        let name = "paris".to_owned();
        let web = "policy web (mean 5 Mbit/s, burst 64 KiB)";
        let cases = [
            (Limit::Policy { bytes, shared: false }, format!("{web}: 3028 bytes wait")),
            (
                Limit::Policy { bytes, shared: true },
                format!("{web}: 3028 bytes wait, with flows of the same share"),
            ),
            (
                Limit::Trunk { name: name.clone(), bytes },
                "trunk paris: 3028 bytes wait for credit".to_owned(),
            ),
            (Limit::Class { name: name.clone(), bytes }, "class paris: 3028 bytes wait".to_owned()),
            (Limit::Link { bytes }, "the access link: 3028 bytes wait for it".to_owned()),
        ];
        for (limit, answer) in cases {
            assert_eq!(said(Some("web"), 0, limit.clone()), answer);
            assert_eq!(
                said(Some("web"), 7, limit),
                format!("{answer}, and 7 of its ACKs are held")
            );
        }
        let sender = "its sender, or a queue elsewhere: nothing of it waits here;";
        for (policy, limit, answer) in [
            (Some("web"), Limit::HeldAcks { acks: 7 }, format!("{web}: 7 of its ACKs are held")),
            (
                None,
                Limit::IsHeld { policy: name, acks: 7 },
                "policy paris, which holds 7 of its packets as ACKs".to_owned(),
            ),
            (Some("web"), Limit::Receiver, "its receiver: the window is full".to_owned()),
            (Some("web"), Limit::Window, format!("{web}: its reduced window is full")),
            (None, Limit::Silent, "its sender, which sends nothing".to_owned()),
            (None, Limit::Sender, format!("{sender} no policy matches it")),
            (Some("web"), Limit::Sender, format!("{sender} policy web has room for more")),
        ] {
            assert_eq!(said(policy, 0, limit), answer);
        }
    }
}
