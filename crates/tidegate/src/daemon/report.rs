//! From what the gateway reports to what the API says.

use std::collections::BTreeMap;

use tidegate_core::ByReason;
use tidegate_core::ack::Counts;
use tidegate_core::packet::Direction;
use tidegate_core::policy::{Action, Mode};
use tidegate_core::qdisc::Backlog;
use tidegate_core::report::{
    AggregateReport, ClassReport, ControlReport, Count, FlowReport, Triggers,
};

use super::plane::Seen;
use crate::api;
use crate::config::Config;

/// What `seen` says; the fields that only the daemon knows are empty.
pub(super) fn status(seen: &Seen) -> api::Status {
    let report = &seen.report;
    api::Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: 0,
        file: String::new(),
        ports: api::Ports::default(),
        generation: report.generation,
        unconfirmed_ms: None,
        passing: seen.passing,
        alarms: Vec::new(),
        up: link_direction(seen, Direction::Up),
        down: link_direction(seen, Direction::Down),
        held: report.held,
        drops: counted(seen.ports.iter().map(|port| port.drops).chain([report.drops])),
        marks: counted([report.marks]),
        flows: report.flows,
        untracked: report.untracked,
        hangs: seen.hangs,
        aggregates: report.aggregates.iter().map(aggregate).collect(),
    }
}

fn link_direction(seen: &Seen, direction: Direction) -> api::LinkDirection {
    let at = direction.index();
    let port = seen.ports.get(at).map(|port| api::PortCount {
        ring_overflows: port.ring_overflows,
        receive_errors: port.receive_errors,
        send_errors: port.send_errors,
    });
    api::LinkDirection {
        received: count(seen.report.received[at]),
        transmitted: count(seen.report.transmitted[at]),
        waiting: waiting(seen.report.link[at]),
        control: seen.report.control[at].as_ref().map(control),
        port,
        bypassed: seen.bypassed.get(at).map(|it| api::Bypassed {
            told: it.told,
            silent: it.silent,
            no_socket: it.no_socket,
        }),
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

fn aggregate(it: &AggregateReport) -> api::Aggregate {
    let left = it.conforming.packets + it.exceeding.packets;
    api::Aggregate {
        policy: it.policy.clone(),
        direction: it.direction.name().to_owned(),
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
        triggers: triggers(it.triggers),
        signal: it.signal.map(|kind| signal(kind, it.acks)),
    }
}

fn signal(kind: &str, counts: Counts) -> api::Signal {
    let gone = counts.delayed.saturating_sub(counts.held.into());
    let mean_hold_us = counts.held_ns / gone.max(1) / 1_000;
    api::Signal { kind: kind.to_owned(), mean_hold_us, counts }
}

/// What `it` says.
pub(super) fn class(it: ClassReport) -> api::Class {
    api::Class {
        name: it.name,
        parent: it.parent,
        direction: it.direction.name().to_owned(),
        guarantee_bps: it.terms.guarantee.bps(),
        ceiling_bps: it.terms.ceiling.map(|rate| rate.bps()),
        weight: it.terms.weight,
        priority: it.terms.priority,
        burst_bytes: it.terms.burst.0,
        delay_bound_us: it
            .terms
            .delay_bound
            .map(|it| u64::try_from(it.as_micros()).unwrap_or(u64::MAX)),
        sent: api::Count { packets: it.sent.packets, bytes: it.sent.bytes },
        borrowed_bytes: it.sent.borrowed,
        waiting: waiting(it.backlog),
        dropped_packets: it.drops,
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
        for (reason, count) in packets.iter().filter(|(_, count)| *count > 0) {
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

/// What `flow` says, and what limits it under `config`.
pub(super) fn flow(flow: FlowReport, config: &Config) -> api::Flow {
    let limit = limit(&flow, config);
    api::Flow {
        src: flow.src,
        dst: flow.dst,
        protocol: flow.protocol,
        direction: flow.direction.to_owned(),
        policy: flow.policy,
        weight: flow.weight,
        offered: count(flow.offered),
        waiting_bytes: flow.waiting_bytes,
        rtt_lan_us: flow.rtt_lan_us,
        rtt_wan_us: flow.rtt_wan_us,
        retransmissions: flow.retransmissions,
        tracking: flow.tracking.to_owned(),
        idle_ms: flow.idle_ms,
        limit,
    }
}

/// Milliseconds after which a flow counts as idle: a second, as for the sharing of tokens.
const IDLE_MS: u64 = 1_000;

fn limit(flow: &FlowReport, config: &Config) -> String {
    let policy = flow.policy.as_ref();
    let policy = policy.and_then(|name| config.policies.iter().find(|it| it.name == **name));
    let Some(policy) = policy else {
        return match flow.waiting_bytes {
            0 => "nothing here: no policy matches it".to_owned(),
            n => format!("the access link: {n} bytes wait for it"),
        };
    };
    let name = &policy.name;
    if policy.mode == Mode::Observe {
        return format!("nothing here: policy {name} only observes");
    }
    match &policy.action {
        Action::Pass => format!("nothing here: policy {name} lets it pass"),
        _ if flow.idle_ms > IDLE_MS => "itself: it sends nothing".to_owned(),
        Action::Shape { conditioning, .. } if flow.waiting_bytes > 0 => {
            let n = flow.waiting_bytes;
            format!("policy {name} ({}): {n} bytes wait", conditioning.profile)
        }
        Action::Shape { .. } => {
            format!("not policy {name}: nothing of it waits; its hosts or another link")
        }
        Action::Police { conditioning, .. } => {
            format!("policy {name} polices it ({})", conditioning.profile)
        }
    }
}

/// Whether packets like that of `question` are of `flow`.
pub(super) fn is_of(flow: &FlowReport, question: &api::Question) -> bool {
    let end = |shown: &str, address: &Option<String>, port: Option<u16>| {
        // An IPv6 address with a port stands in brackets.
        let (host, shown_port) = shown.rsplit_once(':').unwrap_or((shown, ""));
        let host = host.trim_matches(['[', ']']);
        address.as_ref().is_none_or(|address| address == host || address == shown)
            && port.is_none_or(|port| port.to_string() == shown_port)
    };
    end(&flow.src, &question.src, question.src_port)
        && end(&flow.dst, &question.dst, question.dst_port)
        && flow.direction == question.direction
}
