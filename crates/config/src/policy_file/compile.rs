//! Compiles a policy file: fills in defaults, and checks fields against each other.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_core::allocation::AllocationSpec;
use tidegate_core::link::Overhead;
use tidegate_core::packet::FRAME;
use tidegate_core::scheduler::SchedulerSpec;
use tidegate_core::{Bytes, Packet, Rate};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::aggregate::TriggerSet;
use tidegate_gateway::policy::{
    Action, Conditioning, Exceed, Filter, FlowWeight, Policy, PolicySet, Profile, ProfileError,
    Sharers,
};
use toml::Spanned;

use super::{Config, classes, filter, markings, rates, raw, sources, trunks};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::host::Host;
use crate::read::{Number, one_of};
use crate::values::{Period, number};

/// Compiles `file`. With `host`, also checks that the ports fit this host.
pub(super) fn compile(
    file: &raw::File,
    host: Option<&Host>,
    found: &mut Findings,
) -> Option<Config> {
    let gateway = file.gateway.get().map(Spanned::get_ref);
    let charged = charged(longest_frame(gateway, host), gateway);
    let written = file.policies.as_ref().map_or(&[][..], |policies| &policies.get_ref().0);
    names_differ(written, found);
    let policies: Vec<_> =
        written.iter().filter_map(|policy| self::policy(policy, charged, found)).collect();
    let gateway = gateway?;
    let ports = ports(gateway, host, found);
    let settings = settings(gateway, is_controlled(file), found);
    let heartbeat = heartbeat(gateway, found);
    can_match(written, &policies, found);
    rates::within_link(written, &policies, settings.as_ref(), found);
    let classes = classes::compile(file, settings.as_ref(), charged, found);
    let trunks = trunks::compile(file, settings.as_ref(), host.is_some(), found);
    let (trunks, trunk_ends) = trunks?.into_iter().unzip();
    let sources = sources::compile(file.head.0.sources.as_ref(), found);
    let (lan, wan) = ports?;
    Some(Config {
        lan,
        wan,
        backend: gateway.backend.as_ref().map(|it| *it.get_ref()).unwrap_or_default(),
        heartbeat: heartbeat?,
        gateway: GatewayConfig { trunks, ..settings? },
        policies,
        classes: classes?,
        sources,
        trunk_ends,
    })
}

fn ports(
    raw: &raw::Gateway,
    host: Option<&Host>,
    found: &mut Findings,
) -> Option<(String, String)> {
    let lan = raw.lan.get().and_then(|name| interface(name, host, found));
    let wan = raw.wan.get().and_then(|name| interface(name, host, found));
    let (lan, wan) = (lan?, wan?);
    if lan.get_ref() == wan.get_ref() {
        let message = format!("`lan` and `wan` are both `{}`", lan.get_ref());
        found.push(
            Diagnostic::error(Code::SamePort, wan.span(), message).other(lan.span(), "the other"),
        );
    }
    if let Some(host) = host {
        carry_the_same(lan, wan, host, found);
    }
    Some((lan.get_ref().clone(), wan.get_ref().clone()))
}

/// Reports ports with different MTUs: the port with the smaller MTU could not send every frame.
fn carry_the_same(lan: &Spanned<String>, wan: &Spanned<String>, host: &Host, found: &mut Findings) {
    let mtu = |port: &Spanned<String>| host.interface(port.get_ref())?.mtu;
    let (Some(of_lan), Some(of_wan)) = (mtu(lan), mtu(wan)) else { return };
    if of_lan == of_wan {
        return;
    }
    let message =
        format!("`{}` has an MTU of {of_lan}, `{}` of {of_wan}", lan.get_ref(), wan.get_ref());
    let (least, longer) = if of_lan < of_wan { (of_lan, wan) } else { (of_wan, lan) };
    let help = format!("`ip link set {} mtu {least}` makes them equal", longer.get_ref());
    found.push(
        Diagnostic::error(Code::UnequalMtu, wan.span(), message)
            .other(lan.span(), "the other")
            .help(help),
    );
}

/// Longest name of an interface on Linux (IFNAMSIZ - 1).
const INTERFACE_NAME: usize = 15;

fn interface<'a>(
    name: &'a Spanned<String>,
    host: Option<&Host>,
    found: &mut Findings,
) -> Option<&'a Spanned<String>> {
    let text = name.get_ref();
    let bad = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    if !(1..=INTERFACE_NAME).contains(&text.len()) || text.contains(bad) || text.starts_with('.') {
        let message = format!("`{}` cannot be an interface", text.escape_debug());
        let help = "names of interfaces have 1 to 15 characters; `ip link` lists them";
        found.push(Diagnostic::error(Code::BadName, name.span(), message).help(help));
        return None;
    }
    if let Some(host) = host.filter(|host| host.interface(text).is_none()) {
        let names: Vec<_> = host.interfaces.iter().map(|it| it.name.as_str()).collect();
        let message = format!("this host has no interface `{text}`");
        let help = one_of(text, &names);
        found.push(Diagnostic::error(Code::NoInterface, name.span(), message).help(help));
    }
    if host.and_then(|host| host.interface(text)?.is_up) == Some(false) {
        let message = format!("`{text}` is down: nothing crosses");
        let help = format!("`ip link set {text} up`");
        found.push(Diagnostic::warning(Code::PortDown, name.span(), message).help(help));
    }
    Some(name)
}

/// The longest frame that the ports carry. If nothing is known about the host, this is the usual
/// longest frame of Ethernet.
fn longest_frame(raw: Option<&raw::Gateway>, host: Option<&Host>) -> Bytes {
    let name = |name: Option<&Spanned<String>>| name.map(|name| name.get_ref().clone());
    let names: Vec<_> =
        raw.iter().flat_map(|raw| [name(raw.lan.get()), name(raw.wan.get())]).flatten().collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    host.and_then(|host| host.longest_frame(&names)).unwrap_or_else(|| Bytes(FRAME.into()))
}

/// The settings of the gateway. `controlled` selects the default queue of the link.
fn settings(raw: &raw::Gateway, controlled: bool, found: &mut Findings) -> Option<GatewayConfig> {
    let rate = raw.rate.as_ref().map(|rates| rates.get_ref());
    let rate = [
        limit(rate.and_then(|it| it.up.as_ref()), found),
        limit(rate.and_then(|it| it.down.as_ref()), found),
    ];
    markings::has_rate(raw, rate != [None; 2], found);
    let packets = bounded(raw.packets.as_ref(), "packets", 1_024..=1 << 20, 16_384, found);
    let flows = bounded(raw.flows.as_ref(), "flows", 64..=1 << 24, 131_072, found);
    Some(GatewayConfig {
        rate,
        overhead: link_overhead(raw),
        queue: markings::queue(
            (raw.queue.as_ref(), raw.marking.as_ref()),
            controlled,
            markings::Place::Link,
            found,
        ),
        packets: packets?,
        flows: flows?,
        shaping_interval: raw.shaping_interval.as_ref().map_or(Duration::ZERO, |it| it.get_ref().0),
        shaping_triggers: raw
            .shaping_triggers
            .as_ref()
            .map_or_else(TriggerSet::default, |it| *it.get_ref()),
        fragments_without_first: raw
            .fragments_without_first
            .as_ref()
            .map(|it| *it.get_ref())
            .unwrap_or_default(),
        trunks: Vec::new(),
        seed: 0,
        scheduler: scheduler(raw, found),
    })
}

/// The scheduler of the classes, with its buffer.
fn scheduler(raw: &raw::Gateway, found: &mut Findings) -> SchedulerSpec {
    let written = raw.scheduler.as_ref().map(|it| it.get_ref().clone());
    let mut scheduler = written.unwrap_or_default();
    let Some(buffer) = &raw.buffer else { return scheduler };
    if !scheduler.set_buffer(*buffer.get_ref()) {
        let message = format!("the scheduler `{}` has no `buffer`", scheduler.name());
        let help = "leave it out: each class has a queue of its own; or write scheduler = \"jobs\"";
        found.push(Diagnostic::error(Code::NotOfScheduler, buffer.span(), message).help(help));
    }
    let least = charged(Bytes(FRAME.into()), Some(raw));
    if *buffer.get_ref() < least {
        let message = "a full-size packet does not fit into this `buffer`";
        let help = format!("write at least {least}");
        found.push(Diagnostic::error(Code::OutOfRange, buffer.span(), message).help(help));
    }
    scheduler
}

/// Returns `true` if the file has an ACK-controlled policy or a trunk.
fn is_controlled(file: &raw::File) -> bool {
    let policies = file.policies.as_ref().map_or(&[][..], |policies| &policies.get_ref().0);
    let trunks = file.trunks.as_ref().is_some_and(|trunks| !trunks.get_ref().0.is_empty());
    trunks || policies.iter().any(|policy| policy_is_controlled(policy.get_ref()))
}

/// Returns `true` if `policy` has ACK control or sends its packets through a trunk.
fn policy_is_controlled(policy: &raw::Policy) -> bool {
    let control = policy.ack_control.get().is_some_and(|it| it.get_ref().0.is_some());
    control || policy.trunk.is_some()
}

fn link_overhead(raw: &raw::Gateway) -> Overhead {
    raw.overhead.as_ref().map(|it| it.get_ref().0).unwrap_or_default()
}

/// The largest number of bytes that the link can charge for a packet.
fn charged(longest: Bytes, raw: Option<&raw::Gateway>) -> Bytes {
    let len = u32::try_from(longest.0).unwrap_or(u32::MAX);
    let overhead = raw.map(link_overhead).unwrap_or_default();
    Bytes(u64::from(overhead.charge(&Packet { len, ..Packet::default() })))
}

fn limit(rate: Option<&Spanned<Rate>>, found: &mut Findings) -> Option<Rate> {
    let rate = rate?;
    if rate.get_ref().bps() == 0 {
        let message = "a link of rate zero would hold every packet forever";
        found.push(Diagnostic::error(Code::ZeroRate, rate.span(), message));
    }
    Some(*rate.get_ref())
}

fn bounded(
    written: Option<&Spanned<Number>>,
    name: &str,
    range: std::ops::RangeInclusive<u32>,
    default: u32,
    found: &mut Findings,
) -> Option<u32> {
    written.map_or(Some(default), |written| number(written, name, range, found))
}

fn heartbeat(raw: &raw::Gateway, found: &mut Findings) -> Option<Duration> {
    let Some(period) = &raw.heartbeat else { return Some(Duration::from_millis(50)) };
    let Period(span) = *period.get_ref();
    if (Duration::from_millis(5)..=Duration::from_secs(10)).contains(&span) {
        return Some(span);
    }
    let message = "this is out of range for `heartbeat`";
    let help = "it goes from 5 ms, where a busy host begins to leak unshaped bursts, to 10 s";
    found.push(Diagnostic::error(Code::OutOfRange, period.span(), message).help(help));
    None
}

fn names_differ(policies: &[Spanned<raw::Policy>], found: &mut Findings) {
    let mut first = HashMap::<&str, Span>::new();
    for name in policies.iter().filter_map(|policy| policy.get_ref().name.get()) {
        let Some(earlier) = first.insert(name.get_ref(), name.span()) else { continue };
        let message = format!("two policies are named `{}`", name.get_ref());
        found.push(
            Diagnostic::error(Code::DuplicateName, name.span(), message)
                .other(earlier.clone(), "the first one"),
        );
        first.insert(name.get_ref(), earlier);
    }
}

/// Warns of policies that never apply, because other policies of higher precedence match all their
/// packets.
fn can_match(written: &[Spanned<raw::Policy>], policies: &[Policy], found: &mut Findings) {
    // `PolicySet::new` fails on duplicate names, which have already been reported.
    let Ok(set) = PolicySet::new(policies.to_vec()) else { return };
    let names = written.iter().filter_map(|policy| policy.get_ref().name.get());
    let places: HashMap<_, _> = names.map(|name| (name.get_ref(), name.span())).collect();
    for (at, hidden) in set.iter() {
        let Some(by) = set.hidden_by(at).and_then(|at| set.get(at)) else { continue };
        let (Some(place), Some(other)) = (places.get(&hidden.name), places.get(&by.name)) else {
            continue;
        };
        let message = format!("policy `{}` can never match", hidden.name);
        found.push(
            Diagnostic::warning(Code::NeverMatches, place.clone(), message)
                .other(other.clone(), "this policy has precedence, and matches all its packets"),
        );
    }
}

fn policy(raw: &Spanned<raw::Policy>, longest: Bytes, found: &mut Findings) -> Option<Policy> {
    let place = raw.span();
    let raw = raw.get_ref();
    let name = raw.name.get().and_then(|name| usable_name(name, "policy", found));
    let priority = match &raw.priority {
        Some(priority) => number(priority, "priority", i32::MIN..=i32::MAX, found),
        None => Some(0),
    };
    let filter = match &raw.filter {
        Some(written) => filter::filter(written.get_ref(), found),
        None => Some(Filter::default()),
    };
    let action = action(raw, place, longest, found);
    let mode = raw.mode.as_ref().map(|it| *it.get_ref()).unwrap_or_default();
    let class = raw.class.as_ref().map(|class| class.get_ref().clone());
    let trunk = raw.trunk.as_ref().map(|trunk| trunk.get_ref().clone());
    let (name, priority, filter, action) = (name?, priority?, filter?, action?);
    Some(Policy { name, priority, filter, action, mode, class, trunk })
}

/// Returns `name` if it is valid for an object of the kind `what`.
pub(super) fn usable_name(
    name: &Spanned<String>,
    what: &str,
    found: &mut Findings,
) -> Option<String> {
    let text = name.get_ref();
    if is_usable_name(text) {
        return Some(text.clone());
    }
    let message = format!("`{}` cannot name a {what}", text.escape_debug());
    found.push(Diagnostic::error(Code::BadName, name.span(), message));
    None
}

/// Returns `true` if `text` is a valid name for a policy, class or trunk.
#[must_use]
pub fn is_usable_name(text: &str) -> bool {
    let usable = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    (1..=64).contains(&text.chars().count()) && text.chars().all(usable)
}

fn action(raw: &raw::Policy, place: Span, longest: Bytes, found: &mut Findings) -> Option<Action> {
    let action = raw.action.get();
    if let Some(action) = action {
        fields_belong(raw, action, found);
    }
    // Checks the profile even if the action is invalid, so that the operator sees both errors.
    let conditioned = !action.is_some_and(|action| *action.get_ref() == raw::Action::Pass);
    let conditioning = conditioned.then(|| conditioning(raw, place, longest, found)).flatten();
    let action = action?;
    let exceed = match action.get_ref() {
        raw::Action::Pass => return Some(Action::Pass),
        raw::Action::Shape => {
            let written = (raw.queue.as_ref(), raw.marking.as_ref());
            let queue =
                markings::queue(written, policy_is_controlled(raw), markings::Place::Policy, found);
            markings::has_no_trunk(raw, found);
            let ack_control = raw.ack_control.get().and_then(|it| it.get_ref().0.clone());
            between_flows(raw, found);
            let conditioning = conditioning?;
            rates::burst_carries_mean(raw, &conditioning.profile, longest, found);
            return Some(Action::Shape { conditioning, queue, ack_control });
        }
        raw::Action::PoliceDrop => Exceed::Drop,
        raw::Action::PoliceMark => mark(raw, action.span(), found)?,
    };
    Some(Action::Police { conditioning: conditioning?, exceed })
}

/// Reports a policy with ACK control and fairness between hosts. ACK control works flow by flow.
fn between_flows(raw: &raw::Policy, found: &mut Findings) {
    let control = raw.ack_control.get().filter(|it| it.get_ref().0.is_some());
    let between = raw.fair_between.as_ref().filter(|it| it.get_ref().0.by != Sharers::Flow);
    if let (Some(control), Some(between)) = (control, between) {
        let message = "with this ACK control a profile is shared between flows";
        let help = "leave out `ack_control`, or give each host its own policy: policies share their class, or the link, equally";
        let wrong = Diagnostic::error(Code::NotOfThisAction, between.span(), message).help(help);
        found.push(wrong.other(control.span(), "the ACK control"));
    }
}

/// Reports fields that have no meaning with the action.
fn fields_belong(raw: &raw::Policy, action: &Spanned<raw::Action>, found: &mut Findings) {
    use raw::Action::{PoliceDrop, PoliceMark, Shape};
    let fields = [
        ("profile", raw.profile.as_ref().map(Spanned::span), &[Shape, PoliceMark, PoliceDrop][..]),
        (
            "allocation",
            raw.allocation.as_ref().map(Spanned::span),
            &[Shape, PoliceMark, PoliceDrop],
        ),
        ("weights", raw.weights.as_ref().map(Spanned::span), &[Shape, PoliceMark, PoliceDrop]),
        (
            "fair_between",
            raw.fair_between.as_ref().map(Spanned::span),
            &[Shape, PoliceMark, PoliceDrop],
        ),
        ("queue", raw.queue.as_ref().map(Spanned::span), &[Shape]),
        ("marking", raw.marking.as_ref().map(Spanned::span), &[Shape]),
        ("ack_control", raw.ack_control.get().map(Spanned::span), &[Shape]),
        ("mark", raw.mark.as_ref().map(Spanned::span), &[PoliceMark]),
    ];
    for (name, span, actions) in fields {
        let Some(span) = span.filter(|_| !actions.contains(action.get_ref())) else { continue };
        let message = format!("`{name}` has no meaning with this action");
        found.push(
            Diagnostic::error(Code::NotOfThisAction, span, message)
                .other(action.span(), "the action"),
        );
    }
}

fn mark(raw: &raw::Policy, action: Span, found: &mut Findings) -> Option<Exceed> {
    let mark = raw.mark.as_ref().map(Spanned::get_ref);
    let Some(out) = mark.and_then(|mark| mark.out_of_profile.as_ref()) else {
        let span = raw.mark.as_ref().map_or(action, Spanned::span);
        let message = "police-mark needs the codepoint of packets out of profile";
        found.push(Diagnostic::error(Code::NoOutDscp, span, message));
        return None;
    };
    let in_profile = match mark.and_then(|mark| mark.in_profile.as_ref()) {
        Some(token) => filter::codepoint(token, found).map(Some),
        None => Some(None),
    };
    let out_of_profile = filter::codepoint(out, found);
    Some(Exceed::Mark { in_profile: in_profile?, out_of_profile: out_of_profile? })
}

fn conditioning(
    raw: &raw::Policy,
    place: Span,
    longest: Bytes,
    found: &mut Findings,
) -> Option<Conditioning> {
    let profile = match &raw.profile {
        Some(written) => profile(written.get_ref(), longest, found),
        None => {
            let message = "`profile` is missing in [[policy]]";
            let help = "say how much is in profile: profile = { mean = \"20 Mbit/s\" }";
            found.push(Diagnostic::error(Code::MissingField, place, message).help(help));
            None
        }
    };
    let written = raw.weights.as_ref().map_or(&[][..], |weights| &weights.get_ref().0);
    let mut weights = Vec::new();
    let mut good = true;
    for entry in written {
        match weight(entry.get_ref(), found) {
            Some(weight) => weights.push(weight),
            None => good = false,
        }
    }
    let usual = || AllocationSpec::LogicalPartitions(Default::default());
    let allocation = raw.allocation.as_ref().map_or_else(usual, |it| it.get_ref().clone());
    let fair_between = raw.fair_between.as_ref().map(|it| it.get_ref().0).unwrap_or_default();
    let weights = good.then_some(weights)?;
    Some(Conditioning { profile: profile?, allocation, weights, fair_between })
}

fn weight(raw: &raw::Weight, found: &mut Findings) -> Option<FlowWeight> {
    let filter = raw.filter.get().and_then(|it| filter::filter(it.get_ref(), found));
    let weight = raw.weight.get()?;
    if weight.get_ref().0 == 0 {
        let message = "a flow of weight zero would never be served";
        found.push(Diagnostic::error(Code::ZeroWeight, weight.span(), message));
        return None;
    }
    let weight = number(weight, "weight", 1..=u32::from(u16::MAX), found);
    Some(FlowWeight { filter: filter?, weight: weight? })
}

fn profile(raw: &raw::Profile, longest: Bytes, found: &mut Findings) -> Option<Profile> {
    let written = raw.mean.get()?;
    let mean = *written.get_ref();
    let peak = raw.peak.as_ref().map(|peak| *peak.get_ref());
    let burst = raw.burst.as_ref().map_or_else(|| usual_burst(mean, longest), |it| *it.get_ref());
    let wrong = match Profile::new(mean, peak, burst, longest) {
        Ok(profile) => return with_max_packet(profile, raw, found),
        Err(wrong) => wrong,
    };
    let at = |field: Option<Span>| field.unwrap_or_else(|| written.span());
    let (code, span) = match &wrong {
        ProfileError::PeakBelowMean { .. } => {
            (Code::PeakBelowMean, at(raw.peak.as_ref().map(Spanned::span)))
        }
        ProfileError::BurstBelowPacket { .. } => {
            (Code::BurstBelowPacket, at(raw.burst.as_ref().map(Spanned::span)))
        }
        ProfileError::BurstTooLarge { .. } => {
            (Code::BurstTooLarge, at(raw.burst.as_ref().map(Spanned::span)))
        }
        _ => (Code::ZeroRate, written.span()),
    };
    let mut diagnostic = Diagnostic::worded(code, span, &wrong.to_string());
    if code == Code::PeakBelowMean {
        diagnostic = diagnostic.other(written.span(), "the mean rate");
    }
    found.push(diagnostic);
    None
}

/// Adds `max_packet`, if the file has it, to `profile`.
fn with_max_packet(profile: Profile, raw: &raw::Profile, found: &mut Findings) -> Option<Profile> {
    let Some(written) = &raw.max_packet else { return Some(profile) };
    let longest = *written.get_ref();
    if !(LEAST_MAX_PACKET..=LONGEST_PACKET).contains(&longest) {
        let message = format!("{longest} is out of range for `max_packet`");
        let help = format!("it goes from {LEAST_MAX_PACKET} to {LONGEST_PACKET}");
        found.push(Diagnostic::error(Code::OutOfRange, written.span(), message).help(help));
        return None;
    }
    let wrong = |wrong: ProfileError| {
        let wrong = Diagnostic::worded(Code::BurstBelowPacket, written.span(), &wrong.to_string());
        found.push(match &raw.burst {
            Some(burst) => wrong.other(burst.span(), "the burst"),
            None => wrong,
        });
    };
    profile.with_max_packet(longest).map_err(wrong).ok()
}

/// Smallest `max_packet`: the longest packet that every router must forward unfragmented (RFC 791,
/// section 3.2).
const LEAST_MAX_PACKET: Bytes = Bytes(68);

/// Largest `max_packet`: the largest total length of an IPv4 packet (RFC 791, section 3.1).
const LONGEST_PACKET: Bytes = Bytes(65_535);

/// The default burst: 100 ms at the mean rate, at least ten full-size packets.
fn usual_burst(mean: Rate, longest: Bytes) -> Bytes {
    let burst = mean.bytes_in(Duration::from_millis(100));
    burst.max(Bytes(longest.0 * 10)).min(Profile::MAX_BURST)
}
