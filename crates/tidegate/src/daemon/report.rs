//! Makes the messages of the control socket that combine several reports: of the gateway's core, of
//! the ports, and of the daemon.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tidegate_core::packet::Direction;
use tidegate_core::qdisc::Backlog;
use tidegate_core::{Count, Reason};
use tidegate_dataplane::PortCounters;
use tidegate_gateway::policy::{Action, Mode, Policy};
use tidegate_gateway::report::{FlowReport, Limit, UnresponsiveFlow};

use super::plane::PlaneSnapshot;
use crate::api;
use crate::config::Config;

/// The part of the status that the data plane knows. The caller fills in the other fields.
pub(super) fn status(seen: PlaneSnapshot) -> api::Status {
    let [up, down] = Direction::BOTH.map(|direction| link_direction(&seen, direction));
    let report = seen.report;
    let mut drops = report.drops;
    seen.ports.iter().for_each(|port| drops += port.drops);
    api::Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        generation: report.generation,
        passing: seen.passing,
        up,
        down,
        held: report.held,
        drops,
        redundant_acks: report.drops.of(Reason::RedundantAck),
        marks: report.marks,
        flows: report.flows,
        untracked: report.untracked,
        fragments_without_first: report.fragments_without_first.iter().sum(),
        hangs: seen.hangs,
        occupied_us: micros(seen.occupied),
        aggregates: report.aggregates,
        ..api::Status::default()
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
    api::LinkDirection {
        received: seen.report.received[at],
        transmitted: seen.report.transmitted[at],
        waiting: waiting(seen.report.link[at]),
        mechanisms: seen.report.link_mechanisms[at].clone(),
        marking: seen.report.link_marking[at],
        control: seen.report.control[at],
        port: seen.ports.get(at).map(PortCounters::report),
        bypassed: seen.bypassed.get(at).copied(),
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

pub(super) fn waiting(it: Backlog) -> Count {
    Count { packets: u64::from(it.packets), bytes: it.bytes.0 }
}

/// Adds a description of the limit to each of `flows`. The time grows with the number of flows
/// and of policies.
pub(super) fn flows(mut flows: Vec<FlowReport>, config: &Config) -> Vec<FlowReport> {
    let policies = config.policies.iter().map(|policy| (policy.name.as_str(), policy)).collect();
    for flow in &mut flows {
        let marks = if flow.ignores_marks { "; it ignores marks" } else { "" };
        flow.limit_text = limit(flow, &policies) + marks;
    }
    flows
}

/// Policies by name.
type Policies<'a> = HashMap<&'a str, &'a Policy>;

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

    /// Catches: one text for two different limits; held ACKs not mentioned; a policy named without
    /// its profile.
    #[test]
    fn each_limit_has_an_answer_of_its_own() {
        let text = "[gateway]\nlan = \"lan\"\nwan = \"wan\"\n\
                    [[policy]]\nname = \"web\"\naction = \"shape\"\n\
                    profile = { mean = \"5 Mbit/s\", burst = \"64 KiB\" }\n";
        let config = config::parse("policy.toml", text, None).0.unwrap();
        let said = |policy: Option<&str>, held_acks, limit| {
            let policy = policy.map(str::to_owned);
            let report = FlowReport { policy, held_acks, limit, ..FlowReport::default() };
            flows(vec![report], &config)[0].limit_text.clone()
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
