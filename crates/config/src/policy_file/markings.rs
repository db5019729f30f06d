//! The queue of a link, class or policy, with its optional marking: an algorithm that predicts when
//! the queue will overflow, and marks packets before.

use tidegate_core::marking::MarkingSpec;
use tidegate_core::qdisc::{QdiscSpec, with_marking};
use toml::Spanned;

use super::raw;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};

/// A queue and a marking, as the file has them.
pub(super) type Written<'a> = (Option<&'a Spanned<QdiscSpec>>, Option<&'a Spanned<MarkingSpec>>);

/// The position of a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// At the link or a class, where all traffic of the hosts meets.
    Link,
    /// At a policy, whose allocation selects the flow that sends next.
    Policy,
}

/// The queue that the file describes, with its marking; or a default queue.
///
/// The usual default queue drops and marks early, to keep delays short. If ACK control, a trunk
/// (`controlled`) or a marking already limits the data in flight, the default is a queue that drops
/// only when it is full.
pub(super) fn queue(
    (queue, marking): Written<'_>,
    controlled: bool,
    place: Place,
    found: &mut Findings,
) -> QdiscSpec {
    let plain = match queue {
        Some(queue) => queue.get_ref().clone(),
        None if controlled || marking.is_some() => QdiscSpec::PerFlow(Default::default()),
        None if place == Place::Link => QdiscSpec::Hosts(Default::default()),
        None => QdiscSpec::FqCodel(Default::default()),
    };
    if let (Some(marking), Some(queue)) = (marking, queue)
        && !plain.can_be_marked()
    {
        let message =
            format!("`{}` decides itself which packets are marked or dropped", plain.name());
        let help = "write queue = \"per-flow\" or \"drop-tail\", or leave out `marking`";
        let wrong = Diagnostic::error(Code::BadMarking, marking.span(), message).help(help);
        found.push(wrong.other(queue.span(), "the queue"));
    }
    with_marking(plain, marking.map(|it| it.get_ref().clone()))
}

/// The queue of a class. A class without a queue in the file gets the queue and the marking of the
/// link.
pub(super) fn of_class(written: Written<'_>, link: &QdiscSpec, found: &mut Findings) -> QdiscSpec {
    match written {
        (None, None) => link.clone(),
        (None, Some(marking)) if link.can_be_marked() => {
            with_marking(link.unmarked().clone(), Some(marking.get_ref().clone()))
        }
        written => queue(written, false, Place::Link, found),
    }
}

/// Reports a marking at a link without a rate.
pub(super) fn has_rate(raw: &raw::Gateway, limited: bool, found: &mut Findings) {
    if let Some(marking) = raw.marking.as_ref().filter(|_| !limited) {
        let message = "packets wait only at a link with a rate, and this link has none";
        let help = "give the link its rate: rate = { up = \"38 Mbit/s\", down = \"475 Mbit/s\" }";
        found.push(Diagnostic::error(Code::BadMarking, marking.span(), message).help(help));
    }
}

/// Reports a marking at a policy whose packets go through a trunk.
pub(super) fn has_no_trunk(raw: &raw::Policy, found: &mut Findings) {
    if let (Some(marking), Some(trunk)) = (&raw.marking, &raw.trunk) {
        let message = "packets of a trunk wait for its credit, which no marking can predict";
        let help = "leave out `marking`, or leave out `trunk`";
        let wrong = Diagnostic::error(Code::BadMarking, marking.span(), message).help(help);
        found.push(wrong.other(trunk.span(), "the trunk"));
    }
}
