//! Describes a configuration as text, field by field, and lists the differences between two
//! configurations.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use tidegate_config::source::{Access, Apply, Commit, SourceKind, SourceSpec};
use tidegate_core::flow::WithoutFirst;
use tidegate_core::link::{Headers, Overhead};
use tidegate_core::packet::{Direction, NO_VLAN};
use tidegate_core::parameters::{Value, Written};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::SchedulerSpec;
use tidegate_core::trunk::Wire;
use tidegate_core::units::duration;
use tidegate_core::{Rate, itcp, trunk};
use tidegate_gateway::aggregate::TriggerSet;
use tidegate_gateway::policy::parse::show_addresses;
use tidegate_gateway::policy::{
    Action, Class, Conditioning, Exceed, FairBetween, Filter, Mode, Policy, Range, Sharers,
};

pub use tidegate_api::Change;

use crate::config::{Config, NextHop, TrunkEnd};

/// Field names of an object, with their values as text.
type Fields = BTreeMap<&'static str, String>;

/// As [`Fields`], for names that are put together at run time.
type NamedFields = BTreeMap<Cow<'static, str>, String>;

fn named(fields: Fields) -> NamedFields {
    fields.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// The differences between `running` and `next`.
#[must_use]
pub fn changes(running: &Config, next: &Config) -> Vec<Change> {
    let mut all = compare("gateway", &named(settings(running)), &named(settings(next)));
    let objects = |config: &Config| -> BTreeMap<String, NamedFields> {
        let classes = config.classes.classes().iter();
        let classes = classes.map(|it| (format!("class {}", it.name), class_fields(it)));
        let policies = config.policies.iter();
        let policies = policies.map(|it| (format!("policy {}", it.name), named(policy_fields(it))));
        let trunks = config.gateway.trunks.iter().zip(&config.trunk_ends);
        let trunks = trunks
            .map(|(it, end)| (format!("trunk {}", it.name), named(trunk_fields(it, end.as_ref()))));
        let sources = config.sources.iter();
        let sources = sources.map(|it| (format!("source {}", it.name), named(source_fields(it))));
        classes.chain(policies).chain(trunks).chain(sources).collect()
    };
    let (before, after) = (objects(running), objects(next));
    for (what, fields) in &before {
        match after.get(what) {
            Some(new) => all.extend(compare(what, fields, new)),
            None => all.push(whole(what, Some(fields), None)),
        }
    }
    all.extend(
        after
            .iter()
            .filter(|(what, _)| !before.contains_key(*what))
            .map(|(what, fields)| whole(what, None, Some(fields))),
    );
    all
}

/// The changes that take effect only after a restart of the gateway.
#[must_use]
pub fn need_restart(changes: &[Change]) -> Vec<&Change> {
    const FIXED: [&str; 6] = ["lan", "wan", "backend", "heartbeat", "packets", "flows"];
    let fixed = |change: &&Change| {
        let is_fixed = change.field.as_deref().is_some_and(|it| FIXED.contains(&it));
        change.what == "gateway" && is_fixed
    };
    changes.iter().filter(fixed).collect()
}

fn whole(what: &str, from: Option<&NamedFields>, to: Option<&NamedFields>) -> Change {
    let show = |fields: &NamedFields| {
        let pairs: Vec<_> =
            fields.iter().map(|(field, value)| format!("{field} {value}")).collect();
        pairs.join("; ")
    };
    Change { what: what.to_owned(), field: None, from: from.map(show), to: to.map(show) }
}

fn compare(what: &str, before: &NamedFields, after: &NamedFields) -> Vec<Change> {
    let mut fields: Vec<_> = before.keys().chain(after.keys()).collect();
    fields.sort_unstable();
    fields.dedup();
    let change = |field: &Cow<'static, str>| {
        let (from, to) = (before.get(field).cloned(), after.get(field).cloned());
        let field = Some(field.clone().into_owned());
        (from != to).then(|| Change { what: what.to_owned(), field, from, to })
    };
    fields.into_iter().filter_map(change).collect()
}

fn settings(config: &Config) -> Fields {
    let gateway = &config.gateway;
    let rate =
        |rate: Option<Rate>| rate.map_or_else(|| "not limited".to_owned(), |it| it.to_string());
    let triggers = match gateway.shaping_triggers {
        TriggerSet::All => "all",
        TriggerSet::Timer => "timer",
    };
    let fragments = match gateway.fragments_without_first {
        WithoutFirst::ByAddress => "by-address",
        WithoutFirst::MayMatch => "may-match",
    };
    BTreeMap::from([
        ("lan", config.lan.clone()),
        ("wan", config.wan.clone()),
        ("rate up", rate(gateway.rate[0])),
        ("rate down", rate(gateway.rate[1])),
        ("overhead", overhead(gateway.overhead)),
        ("queue", queue_name(&gateway.queue)),
        ("scheduler", scheduler(&gateway.scheduler)),
        ("shaping_interval", duration::show(gateway.shaping_interval)),
        ("shaping_triggers", triggers.to_owned()),
        ("fragments_without_first", fragments.to_owned()),
        ("heartbeat", duration::show(config.heartbeat)),
        ("packets", gateway.packets.to_string()),
        ("flows", gateway.flows.to_string()),
        ("backend", config.backend.name().to_owned()),
    ])
}

/// The fields of a policy source. Credentials are described only by the paths of their files.
fn source_fields(source: &SourceSpec) -> Fields {
    let SourceSpec { name: _, kind, access, roles, apply, commit, poll, max_size, max_policies } =
        source;
    let (kind, place) = match kind {
        SourceKind::Directory { path } => ("directory", path.display().to_string()),
        SourceKind::Etcd { urls, prefix } => ("etcd", format!("{} {prefix}", urls.join(" "))),
        SourceKind::Ldap { urls, base } => ("ldap", format!("{} {base}", urls.join(" "))),
    };
    let apply = match apply {
        Apply::Auto => "auto",
        Apply::Confirm => "confirm",
        Apply::Manual => "manual",
    };
    let commit = match commit {
        Commit::Marker => "marker",
        Commit::EachChange => "each-change",
    };
    let mut fields = BTreeMap::from([
        ("kind", kind.to_owned()),
        ("place", place),
        ("apply", apply.to_owned()),
        ("commit", commit.to_owned()),
        ("poll", duration::show(*poll)),
        ("max_size", max_size.to_string()),
        ("max_policies", max_policies.to_string()),
    ]);
    let Access { user, password_file, ca, cert, key } = access;
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let roles = (!roles.is_empty()).then(|| roles.join(" "));
    for (field, value) in [
        ("roles", roles),
        ("user", user.clone()),
        ("password_file", path(password_file)),
        ("ca", path(ca)),
        ("cert", path(cert)),
        ("key", path(key)),
    ] {
        fields.extend(value.map(|value| (field, value)));
    }
    fields
}

/// Describes a scheduler: its name and parameters, and the buffer that its classes share.
fn scheduler(it: &SchedulerSpec) -> String {
    let name = mechanism(it);
    match it.build(Rate::from_bps(0)).buffer() {
        Some(buffer) => format!("{name}, buffer {buffer}"),
        None => name,
    }
}

fn overhead(it: Overhead) -> String {
    let cells = if it.atm { ", in ATM cells" } else { "" };
    let without = match it.contains {
        Headers::None => "",
        Headers::Pppoe => " without PPPoE",
        Headers::All => " without headers between Ethernet and IP",
    };
    format!("{:+} B for each frame{without}, at least {} B{cells}", it.per_packet, it.min)
}

fn class_fields(class: &Class) -> NamedFields {
    let mut fields = NamedFields::from([("queue".into(), queue_name(&class.queue))]);
    fields.extend(class.parent.clone().map(|parent| ("parent".into(), parent)));
    for term in class.possible_terms() {
        let (name, values) = (term.name().replace('_', " "), class.get(term));
        if term.declaration().each_way {
            for (value, way) in values.into_iter().zip(Direction::BOTH) {
                let name = format!("{name} {}", way.name());
                fields.extend(value.map(|value| (name.into(), value.to_string())));
            }
        } else {
            let [value, _] = values;
            fields.extend(value.map(|value| (name.into(), value.to_string())));
        }
    }
    fields
}

fn trunk_fields(trunk: &trunk::Config, end: Option<&TrunkEnd>) -> Fields {
    let mut fields = Fields::from([
        ("local", trunk.local.to_string()),
        ("peer", trunk.peer.to_string()),
        ("port", trunk.port.to_string()),
        ("connections", trunk.connections.to_string()),
        ("vmss", trunk.vmss.to_string()),
        ("queue", queue_name(&trunk.queue)),
        ("assured", trunk.assured.to_string()),
        ("tcp", format!("{:?}", trunk.tcp)),
        ("fallback", format!("{:?}", trunk.fallback).to_lowercase()),
        ("probing", format!("{:?}", trunk.probing).to_lowercase()),
    ]);
    fields.extend(trunk.guarantee.map(|rate| ("guarantee", rate.to_string())));
    fields.extend(trunk.ceiling.map(|rate| ("ceiling", rate.to_string())));
    fields.extend(trunk.weight.as_ref().map(|it| ("weight", weight(it))));
    if let Wire::Datagrams { vlan, encapsulation } = trunk.wire {
        fields.extend(vlan.map(|vlan| ("vlan", vlan.to_string())));
        fields.insert("encapsulation", format!("{encapsulation:?}").to_lowercase());
    }
    if let Some(end) = end {
        fields.insert("key_file", end.key_file.clone());
        fields.extend(end.mtu.map(|mtu| ("mtu", format!("{mtu} B"))));
        fields.insert(
            "next_hop",
            match end.next_hop {
                NextHop::Address(address) => address.to_string(),
                NextHop::Mac(mac) => mac.map(|byte| format!("{byte:02x}")).join(":"),
            },
        );
    }
    fields
}

/// Describes the weight of a trunk: a number, or the law that adjusts the weight, with the law's
/// parameters.
fn weight(weight: &itcp::Config) -> String {
    match weight.kind {
        itcp::LawKind::Fixed => weight.weight.to_string(),
        _ => mechanism(weight),
    }
}

fn policy_fields(policy: &Policy) -> Fields {
    let mut fields = Fields::from([("priority", policy.priority.to_string())]);
    fields.extend(policy.class.clone().map(|class| ("class", class)));
    fields.extend(policy.trunk.clone().map(|trunk| ("trunk", trunk)));
    let filter: Vec<_> =
        filter(&policy.filter).into_iter().map(|(name, text)| format!("{name} {text}")).collect();
    let any = || "any packet".to_owned();
    fields.insert("match", if filter.is_empty() { any() } else { filter.join(", ") });
    fields.insert("action", action_name(&policy.action).to_owned());
    fields.insert(
        "mode",
        if policy.mode == Mode::Observe { "observe" } else { "enforce" }.to_owned(),
    );
    match &policy.action {
        Action::Pass => {}
        Action::Shape { conditioning, queue, ack_control } => {
            fields.insert("queue", queue_name(queue));
            let control = ack_control.as_ref().map_or_else(|| "none".to_owned(), mechanism);
            fields.insert("ack_control", control);
            shared(conditioning, &mut fields);
        }
        Action::Police { conditioning, exceed } => {
            shared(conditioning, &mut fields);
            if let Exceed::Mark { in_profile, out_of_profile } = exceed {
                let kept = in_profile.map_or_else(|| "as it came".to_owned(), |it| it.to_string());
                fields.insert("mark", format!("in {kept}, out {out_of_profile}"));
            }
        }
    }
    fields
}

/// The name of an action in policy files.
#[must_use]
pub fn action_name(action: &Action) -> &'static str {
    match action {
        Action::Pass => "pass",
        Action::Shape { .. } => "shape",
        Action::Police { exceed: Exceed::Drop, .. } => "police-drop",
        Action::Police { exceed: Exceed::Mark { .. }, .. } => "police-mark",
    }
}

/// Describes an action.
#[must_use]
pub fn action(action: &Action) -> String {
    match action {
        Action::Pass => "pass: its packets are counted and forwarded".to_owned(),
        Action::Shape { conditioning, .. } => {
            format!("shape: its packets wait until they conform to {}", conditioning.profile)
        }
        Action::Police { conditioning, exceed: Exceed::Drop } => {
            format!("police-drop: its packets are forwarded or dropped by {}", conditioning.profile)
        }
        Action::Police { conditioning, exceed: Exceed::Mark { .. } } => {
            format!("police-mark: its packets are marked by {}", conditioning.profile)
        }
    }
}

fn shared(it: &Conditioning, fields: &mut Fields) {
    fields.insert("profile", it.profile.to_string());
    fields.insert("allocation", mechanism(&it.allocation));
    let FairBetween { by, ipv6 } = it.fair_between;
    let between = match by {
        Sharers::Flow => None,
        Sharers::SourceHost => Some("source-host"),
        Sharers::DestinationHost => Some("destination-host"),
        Sharers::Hosts => Some("hosts"),
    };
    fields.extend(between.map(|between| match ipv6 {
        FairBetween::WHOLE_ADDRESS => ("fair_between", between.to_owned()),
        length => ("fair_between", format!("{between}, IPv6 /{length}")),
    }));
    if !it.weights.is_empty() {
        let weight = |it: &tidegate_gateway::policy::FlowWeight| {
            let filter = filter(&it.filter);
            let filter: Vec<_> =
                filter.iter().map(|(name, text)| format!("{name} {text}")).collect();
            format!("{} for {}", it.weight, filter.join(", "))
        };
        let weights: Vec<_> = it.weights.iter().map(weight).collect();
        fields.insert("weights", weights.join(" | "));
    }
}

/// A mechanism as it is written in a policy file: its name, or a table with the parameters that
/// differ from their defaults.
fn mechanism<T: Value>(spec: &T) -> String {
    match spec.written() {
        Some(Written::Text(name)) => name,
        Some(table) => table.to_string(),
        None => String::new(),
    }
}

fn queue_name(spec: &QdiscSpec) -> String {
    let queue = mechanism(spec.unmarked());
    match spec.marking() {
        Some(marking) => format!("{queue}, marking {}", mechanism(marking)),
        None => queue,
    }
}

/// Describes the conditions of a filter.
#[must_use]
pub fn filter(filter: &Filter) -> Vec<(&'static str, String)> {
    let number = |range: &Range<u16>| span(range, u16::to_string);
    let vlan = |range: &Range<u16>| {
        if range.first == NO_VLAN { "none".to_owned() } else { number(range) }
    };
    let small = |range: &Range<u8>| span(range, u8::to_string);
    let mut fields = vec![
        ("src", list(&filter.src, show_addresses)),
        ("dst", list(&filter.dst, show_addresses)),
        ("src_port", list(&filter.src_port, number)),
        ("dst_port", list(&filter.dst_port, number)),
        ("protocol", list(&filter.protocol, small)),
        ("dscp", list(&filter.dscp, small)),
        ("vlan", list(&filter.vlan, vlan)),
        ("vlan.inner", list(&filter.inner_vlan, vlan)),
    ];
    fields.retain(|(_, text)| !text.is_empty());
    fields.extend(filter.direction.map(|direction| ("direction", direction.name().to_owned())));
    fields.extend(filter.inner.then(|| ("inner", "true".to_owned())));
    fields
}

fn list<T>(ranges: &[Range<T>], show: impl Fn(&Range<T>) -> String) -> String {
    ranges.iter().map(show).collect::<Vec<_>>().join(" or ")
}

fn span<T: PartialEq>(range: &Range<T>, show: impl Fn(&T) -> String) -> String {
    if range.first == range.last {
        return show(&range.first);
    }
    format!("{}-{}", show(&range.first), show(&range.last))
}
