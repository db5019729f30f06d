//! Compiles the classes of a policy file into a tree, and reports findings.

use std::collections::{HashMap, HashSet};

use tidegate_core::class::{control, delay::Part};
use tidegate_core::packet::Direction;
use tidegate_core::scheduler::{Term, TermForm, TermValue};
use tidegate_core::{Bytes, Rate};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::policy::{Class, ClassFault, ClassFaultKind, ClassSet, Profile};
use toml::Spanned;

use super::compile::usable_name;
use super::terms::{WrittenTerm, WrittenValue};
use super::{markings, rates, raw};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::read::one_of;
use crate::values::number;

/// Compiles the classes of `file` for the link that `gateway` describes. `frame` is the largest
/// number of bytes that the link can charge for a packet.
pub(super) fn compile(
    file: &raw::File,
    gateway: Option<&GatewayConfig>,
    frame: Bytes,
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
    if !of_scheduler(written, gateway, frame, found) {
        return None;
    }
    let link = file.gateway.get().and_then(|it| Some(it.get_ref().rate.as_ref()?.span()));
    let faults = match ClassSet::of(classes, gateway.rate, frame, &gateway.scheduler) {
        Ok(set) => {
            link.iter().for_each(|link| beside_control(&set, gateway, link, found));
            return Some(set);
        }
        Err(faults) => faults,
    };
    faults.iter().for_each(|fault| found.push(diagnostic(fault, written, link.clone())));
    None
}

/// Warns if the guarantees in a direction leave too little of the link for control traffic.
fn beside_control(set: &ClassSet, gateway: &GatewayConfig, link: &Span, found: &mut Findings) {
    for way in Direction::BOTH {
        let Some(rate) = gateway.rate[way.index()] else { continue };
        let parts = set.classes().iter().filter(|class| class.parent.is_none());
        let promised = parts.map(|class| class.guarantee[way.index()]);
        keep_allowance(&format!("guarantees {}", way.name()), promised, rate, link, found);
    }
}

/// Warns if `promised` and the allowance of control traffic together exceed `rate`. The warning
/// marks `link`.
pub(super) fn keep_allowance(
    what: &str,
    promised: impl Iterator<Item = Rate>,
    rate: Rate,
    link: &Span,
    found: &mut Findings,
) {
    let sum = promised.map(Rate::bps).fold(0, u64::saturating_add);
    let left = rate.bps() - control::allowance(rate).bps();
    if sum <= left {
        return;
    }
    let [missing, sum, left] = [sum - left, sum, left].map(Rate::from_bps);
    let message =
        format!("{what} come to {sum}; control traffic leaves {left} of the {rate} of the link");
    let help = format!("lower the guarantees by {missing}, which control traffic may use");
    found.push(Diagnostic::warning(Code::PromisedTooMuch, link.clone(), message).help(help));
}

fn class(raw: &raw::Class, gateway: &GatewayConfig, found: &mut Findings) -> Option<Class> {
    let name = raw.name.get().and_then(|name| usable_name(name, "class", found));
    let written = (raw.queue.as_ref(), raw.marking.as_ref());
    let queue = markings::of_class(written, &gateway.queue, found);
    let parent = raw.parent.as_ref().map(|parent| parent.get_ref().clone());
    let mut class = Class { parent, ..Class::new("", queue) };
    let terms = &raw.terms.0;
    let mut is_valid = true;
    for written in &terms.0 {
        is_valid &= set(&mut class, written, found);
    }
    if let Some(span) = terms.span(Term::CEILING) {
        ceiling(class.ceiling, gateway.rate, &span, found);
    }
    Some(Class { name: name?, ..class }).filter(|_| is_valid)
}

/// Sets a term of `class`. Returns `false` if its value is wrong.
fn set(class: &mut Class, written: &WrittenTerm, found: &mut Findings) -> bool {
    let WrittenTerm { term, span, value } = written;
    let values = match (value, term.form()) {
        (WrittenValue::Values(values), _) => values.clone(),
        (WrittenValue::Number(given), TermForm::Whole(least, most)) => {
            let given = Spanned::new(span.clone(), *given);
            let Some(given) = number(&given, term.name(), least..=most, found) else {
                return false;
            };
            [Some(TermValue::Whole(given)), Some(TermValue::Whole(given))]
        }
        _ => return false,
    };
    if *term == Term::BURST && is_too_large(&values) {
        let message = format!("the burst is larger than {}", Profile::MAX_BURST);
        found.push(Diagnostic::error(Code::BurstTooLarge, span.clone(), message));
        return false;
    }
    class.set(*term, values);
    true
}

/// Reports a ceiling of zero, and ceilings above the rate of the link.
fn ceiling(ceiling: [Option<Rate>; 2], link: [Option<Rate>; 2], span: &Span, found: &mut Findings) {
    if ceiling.contains(&Some(Rate::from_bps(0))) {
        let message = "a class of rate zero would hold its packets forever";
        found.push(Diagnostic::error(Code::ZeroRate, span.clone(), message));
    }
    for way in Direction::BOTH {
        if let (Some(most), Some(link)) = (ceiling[way.index()], link[way.index()])
            && most > link
        {
            rates::above(&format!("ceiling {}", way.name()), most, link, span.clone(), found);
        }
    }
}

/// Returns `true` if a burst is larger than any class may have.
fn is_too_large(burst: &[Option<TermValue>; 2]) -> bool {
    let is_too_large =
        |burst: &TermValue| matches!(burst, TermValue::Bytes(bytes) if *bytes > Profile::MAX_BURST);
    burst.iter().flatten().any(is_too_large)
}

/// Reports policies whose class does not exist, or is not a leaf class.
fn of_policies(file: &raw::File, written: &[Spanned<raw::Class>], found: &mut Findings) {
    let mut names: Vec<&str> = vec![Class::DEFAULT];
    let mut parts = HashMap::new();
    let mut known = HashSet::from([Class::DEFAULT]);
    for class in written.iter().map(Spanned::get_ref) {
        names.extend(class.name.get().map(|name| name.get_ref().as_str()));
        known.extend(names.last());
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
        } else if !known.contains(name) {
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

/// Converts a fault of a class to a finding.
fn diagnostic(
    fault: &ClassFault,
    written: &[Spanned<raw::Class>],
    link: Option<Span>,
) -> Diagnostic {
    let at = FieldPlaces::of(&written[fault.at]);
    let (place, code) = match fault.kind {
        ClassFaultKind::Duplicate => (at.name, Code::DuplicateName),
        ClassFaultKind::Orphan | ClassFaultKind::Loop => {
            (at.term(Term::PARENT).unwrap_or(at.whole), Code::NotATree)
        }
        ClassFaultKind::CeilingBelowGuarantee(_) => {
            (at.term(Term::CEILING).unwrap_or(at.whole), Code::CeilingBelowGuarantee)
        }
        ClassFaultKind::PromisedTooMuch { .. } | ClassFaultKind::NothingLeft { .. } => {
            (at.term_or_name(Term::GUARANTEE), Code::PromisedTooMuch)
        }
        ClassFaultKind::RatioToNone(term)
        | ClassFaultKind::RatioLoop(term)
        | ClassFaultKind::ZeroFactor(term) => (at.term_or_name(term), Code::BadPromise),
        ClassFaultKind::BoundWithParts
        | ClassFaultKind::BoundBelowPacket { .. }
        | ClassFaultKind::DelayBound { .. } => {
            (at.term_or_name(Term::DELAY_BOUND), Code::DelayBound)
        }
    };
    let name = written[fault.at].get_ref().name.get().map_or("", |name| name.get_ref().as_str());
    let found = Diagnostic::error(code, place, format!("class `{name}`: {}", fault.kind));
    match related_place(fault, written, link) {
        Some((place, what)) => found.other(place, what),
        None => found,
    }
}

/// A related position to mark for a fault, with a note about it.
fn related_place(
    fault: &ClassFault,
    written: &[Spanned<raw::Class>],
    link: Option<Span>,
) -> Option<(Span, &'static str)> {
    let own = FieldPlaces::of(&written[fault.at]);
    let other = fault.other.map(|at| FieldPlaces::of(&written[at]));
    Some(match (fault.kind, other) {
        (ClassFaultKind::PromisedTooMuch { .. }, Some(other)) => {
            (other.term_or_name(Term::GUARANTEE), "the guarantee of its parent")
        }
        (ClassFaultKind::PromisedTooMuch { .. } | ClassFaultKind::NothingLeft { .. }, None) => {
            (link?, "the rate of the link")
        }
        (ClassFaultKind::RatioLoop(term), Some(other)) => {
            (other.term_or_name(term), "the class it refers to")
        }
        (ClassFaultKind::CeilingBelowGuarantee(_), _) => {
            (own.term(Term::GUARANTEE)?, "the guarantee")
        }
        (ClassFaultKind::Duplicate, Some(other)) => (other.name, "the first one"),
        (ClassFaultKind::Loop, Some(other)) => (other.name, "its parent"),
        (ClassFaultKind::BoundWithParts, Some(part)) => {
            (part.term_or_name(Term::PARENT), "one of its parts")
        }
        (ClassFaultKind::DelayBound { part: Part::Control | Part::Link, .. }, _) => {
            (link?, "the link")
        }
        (ClassFaultKind::DelayBound { part, .. }, Some(other)) => other.obstacle(part),
        _ => return None,
    })
}

/// The positions of a class and of its fields in the file.
struct FieldPlaces {
    whole: Span,
    name: Span,
    terms: Vec<(Term, Span)>,
}

impl FieldPlaces {
    fn of(class: &Spanned<raw::Class>) -> Self {
        let (raw, whole) = (class.get_ref(), class.span());
        let name = raw.name.get().map_or_else(|| whole.clone(), Spanned::span);
        Self { whole, name, terms: terms(raw) }
    }

    /// The position of this term, if the file has it.
    fn term(&self, term: Term) -> Option<Span> {
        self.terms.iter().find(|(written, _)| *written == term).map(|(_, span)| span.clone())
    }

    /// The position of this term, or the position of the class's name if the file has no such term.
    fn term_or_name(&self, term: Term) -> Span {
        self.term(term).unwrap_or_else(|| self.name.clone())
    }

    /// The position of the ceiling. If the ceiling of the parent applies, the position of the
    /// class's name.
    fn ceiling(&self) -> (Span, &'static str) {
        match self.term(Term::CEILING) {
            Some(ceiling) => (ceiling, "this ceiling"),
            None => (self.name.clone(), "the ceiling here is that of the parent"),
        }
    }

    /// The position of the term that makes a delay bound impossible, with a note.
    fn obstacle(&self, part: Part) -> (Span, &'static str) {
        match part {
            Part::Guarantee | Part::Order => match self.term(Term::GUARANTEE) {
                Some(guarantee) => (guarantee, "its guarantee"),
                None => (self.name.clone(), "this class has no `guarantee`"),
            },
            Part::Burst => match self.term(Term::BURST) {
                Some(burst) => (burst, "the burst of this class"),
                None => (self.name.clone(), "this class has the default burst"),
            },
            Part::ShortBurst => match self.term(Term::BURST) {
                Some(burst) => (burst, "this burst"),
                None => self.ceiling(),
            },
            Part::Ceiling | Part::Control | Part::Link => self.ceiling(),
        }
    }
}

/// The terms that the file sets for a class, with their positions.
fn terms(raw: &raw::Class) -> Vec<(Term, Span)> {
    fn span<T>(written: Option<&Spanned<T>>) -> Option<Span> {
        written.map(Spanned::span)
    }
    let place = |term, span: Option<Span>| span.map(|span| (term, span));
    let own = raw.terms.0.0.iter().map(|written| (written.term, written.span.clone()));
    let others = [
        place(Term::QUEUE, span(raw.queue.as_ref())),
        place(Term::MARKING, span(raw.marking.as_ref())),
    ];
    let parent = place(Term::PARENT, span(raw.parent.as_ref()));
    parent.into_iter().chain(own).chain(others.into_iter().flatten()).collect()
}

/// Reports terms that the scheduler does not support, and loss bounds for a buffer that can never
/// be full. Returns `true` if there are neither.
fn of_scheduler(
    written: &[Spanned<raw::Class>],
    gateway: &GatewayConfig,
    frame: Bytes,
    found: &mut Findings,
) -> bool {
    let mut fits = true;
    let (name, known) = (gateway.scheduler.name(), gateway.scheduler.terms());
    let buffer = gateway.scheduler.build(Rate::from_bps(0)).buffer();
    let holds = frame * u64::from(gateway.packets);
    for (term, span) in written.iter().flat_map(|class| terms(class.get_ref())) {
        if !known.contains(&term) {
            fits = false;
            let message = format!("classes of the scheduler `{name}` have no `{}`", term.name());
            let names: Vec<_> = known.iter().map(|term| term.name()).collect();
            let help = format!("its classes have: {}", names.join(", "));
            found.push(Diagnostic::error(Code::NotOfScheduler, span, message).help(help));
        } else if let Some(buffer) =
            buffer.filter(|it| term.declaration().about_drops && *it > holds)
        {
            fits = false;
            let message = format!(
                "nothing is ever dropped from a buffer of {buffer}: the gateway holds {} packets",
                gateway.packets
            );
            let name = term.name();
            let help = format!("write a `buffer` of at most {holds}, or leave out `{name}`");
            found.push(Diagnostic::error(Code::BadPromise, span, message).help(help));
        }
    }
    fits
}
