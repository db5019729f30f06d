//! The classes of a policy file: from what is written to a tree, or to what keeps them from being one.

use std::collections::HashMap;

use tidegate_core::gateway::GatewayConfig;
use tidegate_core::policy::{Class, ClassFault, ClassFaultKind, ClassSet, Profile};
use tidegate_core::{Bytes, Rate, class::Terms};
use toml::Spanned;

use super::compile::usable_name;
use super::raw;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::read::one_of;
use crate::values::number;

/// The classes of `file` on the link that `gateway` describes.
pub(super) fn compile(
    file: &raw::File,
    gateway: Option<&GatewayConfig>,
    found: &mut Findings,
) -> Option<ClassSet> {
    let written = file.classes.as_ref().map_or(&[][..], |classes| &classes.get_ref().0);
    of_policies(file, written, found);
    let gateway = gateway?;
    let classes: Vec<_> =
        written.iter().filter_map(|class| self::class(class.get_ref(), gateway, found)).collect();
    if classes.len() < written.len() {
        return None;
    }
    if let (Some(first), [None, None]) = (written.first(), gateway.rate) {
        let message = "classes share a rate, and the link has none";
        found.push(Diagnostic::error(Code::ClassWithoutRate, first.span(), message));
    }
    let faults = match ClassSet::new(classes, gateway.rate) {
        Ok(set) => return Some(set),
        Err(faults) => faults,
    };
    let link = file.gateway.get().and_then(|it| Some(it.get_ref().rate.as_ref()?.span()));
    faults.iter().for_each(|fault| found.push(diagnostic(fault, written, link.clone())));
    None
}

fn class(raw: &raw::Class, gateway: &GatewayConfig, found: &mut Findings) -> Option<Class> {
    let name = raw.name.get().and_then(|name| usable_name(name, "class", found));
    let weight = match &raw.weight {
        Some(weight) => number(weight, "weight", 1..=u32::from(u16::MAX), found),
        None => Some(1),
    };
    let priority = match &raw.priority {
        Some(priority) => number(priority, "priority", 0..=Terms::MAX_PRIORITY, found),
        None => Some(0),
    };
    let burst = raw.burst.as_ref().map(|burst| self::burst(burst, found));
    let none = Rate::from_bps(0);
    let each = |rates: &Option<Spanned<raw::EachWay>>| {
        rates.as_ref().map_or([None; 2], |rates| rates.get_ref().0)
    };
    let ceiling = each(&raw.ceiling);
    if let Some(written) = raw.ceiling.as_ref().filter(|_| ceiling.contains(&Some(none))) {
        let message = "a class of rate zero would hold its packets forever";
        found.push(Diagnostic::error(Code::ZeroRate, written.span(), message));
    }
    let queue = raw.queue.as_ref().map_or_else(|| gateway.queue.clone(), |it| it.get_ref().clone());
    Some(Class {
        name: name?,
        parent: raw.parent.as_ref().map(|parent| parent.get_ref().clone()),
        guarantee: each(&raw.guarantee).map(|rate| rate.unwrap_or(none)),
        ceiling,
        weight: weight?,
        priority: priority?,
        burst: burst.map_or(Some(None), |burst| burst.map(Some))?,
        queue,
    })
}

fn burst(burst: &Spanned<Bytes>, found: &mut Findings) -> Option<Bytes> {
    if *burst.get_ref() <= Profile::MAX_BURST {
        return Some(*burst.get_ref());
    }
    let message = format!("the burst is larger than {}", Profile::MAX_BURST);
    found.push(Diagnostic::error(Code::BurstTooLarge, burst.span(), message));
    None
}

/// Complains of policies whose class does not exist, or has parts.
fn of_policies(file: &raw::File, written: &[Spanned<raw::Class>], found: &mut Findings) {
    let mut names: Vec<&str> = vec![Class::DEFAULT];
    let mut parts = HashMap::new();
    for class in written.iter().map(Spanned::get_ref) {
        names.extend(class.name.get().map(|name| name.get_ref().as_str()));
        if let Some(parent) = &class.parent {
            parts.insert(parent.get_ref().as_str(), parent.span());
        }
    }
    let policies = file.policies.as_ref().map_or(&[][..], |policies| &policies.get_ref().0);
    for class in policies.iter().filter_map(|policy| policy.get_ref().class.as_ref()) {
        let name = class.get_ref().as_str();
        if let Some(part) = parts.get(name) {
            let message = format!("class `{name}` has parts: no packets wait there");
            found.push(
                Diagnostic::error(Code::NotALeaf, class.span(), message)
                    .other(part.clone(), "one of its parts"),
            );
        } else if !names.contains(&name) {
            let message = format!("there is no class `{}`", name.escape_debug());
            let help = one_of(name, &names);
            found.push(Diagnostic::error(Code::UnknownName, class.span(), message).help(help));
        }
    }
    if let Some(part) = parts.get(Class::DEFAULT) {
        let message =
            "class `default` cannot have parts: packets wait there that no policy gives a class";
        found.push(Diagnostic::error(Code::NotALeaf, part.clone(), message));
    }
}

/// What is wrong with a class, and where.
fn diagnostic(
    fault: &ClassFault,
    written: &[Spanned<raw::Class>],
    link: Option<Span>,
) -> Diagnostic {
    let raw = written[fault.at].get_ref();
    let whole = written[fault.at].span();
    let name = |class: &raw::Class| class.name.get().map(Spanned::span);
    let own = name(raw).unwrap_or_else(|| whole.clone());
    let other = fault.other.map(|at| {
        let other = written[at].get_ref();
        let guarantee = other.guarantee.as_ref().map(Spanned::span);
        (guarantee, name(other).unwrap_or_else(|| written[at].span()))
    });
    let (at, code) = match fault.kind {
        ClassFaultKind::Duplicate => (own, Code::DuplicateName),
        ClassFaultKind::Orphan | ClassFaultKind::Loop => {
            (raw.parent.as_ref().map_or(whole, Spanned::span), Code::NotATree)
        }
        ClassFaultKind::CeilingBelowGuarantee(_) => {
            (raw.ceiling.as_ref().map_or(whole, Spanned::span), Code::CeilingBelowGuarantee)
        }
        ClassFaultKind::PromisedTooMuch { .. } => {
            (raw.guarantee.as_ref().map_or(own, Spanned::span), Code::PromisedTooMuch)
        }
    };
    let named = raw.name.get().map_or("", |name| name.get_ref().as_str());
    let found = Diagnostic::error(code, at, format!("class `{named}`: {}", fault.kind));
    match (fault.kind, other, link) {
        (ClassFaultKind::PromisedTooMuch { .. }, Some((guarantee, name)), _) => {
            found.other(guarantee.unwrap_or(name), "what its parent has")
        }
        (ClassFaultKind::PromisedTooMuch { .. }, None, Some(link)) => {
            found.other(link, "what the link has")
        }
        (ClassFaultKind::CeilingBelowGuarantee(_), ..) => match &raw.guarantee {
            Some(guarantee) => found.other(guarantee.span(), "the guarantee"),
            None => found,
        },
        (ClassFaultKind::Duplicate, Some((_, name)), _) => found.other(name, "the first one"),
        (ClassFaultKind::Loop, Some((_, name)), _) => found.other(name, "its parent"),
        _ => found,
    }
}
