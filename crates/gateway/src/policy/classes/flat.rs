//! Checks of classes for a scheduler without a class tree, such as `jobs`.
//!
//! Guarantees must not take the whole link. A delay bound must be longer than the transmission time of a packet. The
//! ratios of delay and loss must refer to existing classes, and not in a circle.
//!
//! Only terms that no traffic permits are faults. If terms conflict under the present traffic only, the scheduler relaxes
//! some of them.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::packet::Direction;
use tidegate_core::scheduler::{Ratio, Term, TermForm, TermValue};
use tidegate_core::{Bytes, Rate};

use super::{Class, ClassFault, ClassFaultKind};

/// Reports the faults of `classes`, which may have `terms`, for a link with `rate`. Packets are charged with at
/// most `frame`.
pub(super) fn faults(
    classes: &[Class],
    (rate, frame): ([Option<Rate>; 2], Bytes),
    terms: &[Term],
    faults: &mut Vec<ClassFault>,
) {
    for direction in Direction::BOTH {
        let Some(rate) = rate[direction.index()] else { continue };
        promised(classes, direction, rate, faults);
        let least = rate.time_for(frame);
        for (at, class) in classes.iter().enumerate() {
            if class.delay_bound[direction.index()].is_some_and(|bound| bound < least) {
                let kind = ClassFaultKind::BoundBelowPacket { direction, least };
                faults.push(ClassFault { at, other: None, kind });
            }
        }
    }
    for term in terms.iter().filter(|term| term.form() == TermForm::Ratio) {
        related(classes, *term, faults);
    }
}

/// Reports the class with which the guarantees reach the rate `of` of the link.
fn promised(classes: &[Class], direction: Direction, of: Rate, faults: &mut Vec<ClassFault>) {
    let mut sum = 0u64;
    for (at, class) in classes.iter().enumerate() {
        let before = sum;
        sum = sum.saturating_add(class.guarantee[direction.index()].bps());
        if sum >= of.bps() && before < of.bps() {
            let promised = Rate::from_bps(sum);
            let kind = ClassFaultKind::NothingLeft { direction, promised, of };
            faults.push(ClassFault { at, other: None, kind });
        }
    }
}

/// Reports ratios of one term that refer to no class, form a circle, or have the factor zero.
fn related(classes: &[Class], term: Term, faults: &mut Vec<ClassFault>) {
    let by_name: BTreeMap<&str, usize> =
        classes.iter().enumerate().map(|(at, class)| (class.name.as_str(), at)).collect();
    let mut others = vec![None; classes.len()];
    for (at, class) in classes.iter().enumerate() {
        // Ratios are the same in both directions.
        let Some(TermValue::Ratio(Ratio { of, factor })) = class.own.way(term, Direction::Up)
        else {
            continue;
        };
        let mut complain = |kind| faults.push(ClassFault { at, other: None, kind });
        others[at] = by_name.get(of.as_str()).copied();
        if others[at].is_none() && of != Class::DEFAULT {
            complain(ClassFaultKind::RatioToNone(term));
        }
        if factor.millionths() == 0 {
            complain(ClassFaultKind::ZeroFactor(term));
        }
    }
    for at in on_cycles(&others) {
        let kind = ClassFaultKind::RatioLoop(term);
        faults.push(ClassFault { at, other: others[at], kind });
    }
}

/// Finds circles of references, and returns one class of each. `others` has the class that each class refers to.
fn on_cycles(others: &[Option<usize>]) -> Vec<usize> {
    let mut found = Vec::new();
    // Walk `n` begins at class `n - 1` and follows the references. `walk` has the number of the walk that visited each
    // class first, or zero. If a walk comes to a class that it has visited itself, there is a circle.
    let mut walk = vec![0; others.len()];
    for at in 0..others.len() {
        let mut next = Some(at);
        while let Some(class) = next.filter(|class| walk[*class] == 0) {
            walk[class] = at + 1;
            next = others[class];
        }
        found.extend(next.filter(|class| walk[*class] == at + 1));
    }
    found
}

/// Formats `span` for error messages.
pub(super) fn shown(span: Duration) -> String {
    tidegate_core::units::duration::show(super::rounded_up(span))
}

#[cfg(test)]
mod tests {
    use tidegate_core::Factor;
    use tidegate_core::qdisc::QdiscSpec;
    use tidegate_core::scheduler::jobs::Promises;
    use tidegate_core::scheduler::{SchedulerSpec, TermValues};

    use super::*;
    use crate::policy::ClassSet;

    fn class(name: &str, kbps: u64, ratios: [Option<(&str, u64)>; 2]) -> Class {
        let mut own = TermValues::default();
        for (term, ratio) in [Promises::DELAY_RATIO, Promises::LOSS_RATIO].into_iter().zip(ratios) {
            let Some((of, millionths)) = ratio else { continue };
            let factor = Factor::from_millionths(millionths);
            own = own.with(term, Ratio { of: of.to_owned(), factor });
        }
        Class {
            guarantee: [Rate::from_kbps(kbps), Rate::from_bps(0)],
            own,
            ..Class::new(name, QdiscSpec::one_line(Bytes(1)))
        }
    }

    fn found(classes: Vec<Class>) -> Vec<(usize, ClassFaultKind)> {
        let jobs = SchedulerSpec::Jobs(Default::default());
        let rate = [Some(Rate::from_mbps(1)), None];
        let faults = ClassSet::of(classes, rate, Bytes(1_500), &jobs).err().unwrap_or_default();
        faults.into_iter().map(|fault| (fault.at, fault.kind)).collect()
    }

    /// Catches: guarantees that may take the whole rate; a circle that is found only if the search begins in it; a circle
    /// of delay ratios that hides a circle of loss ratios.
    #[test]
    fn promises_that_can_never_hold_are_refused() {
        use ClassFaultKind::{BoundBelowPacket, NothingLeft, RatioLoop, RatioToNone, ZeroFactor};
        let half = Some(("b", 500_000));
        let of = Rate::from_mbps(1);
        let all = vec![class("a", 400, [None; 2]), class("b", 600, [None; 2])];
        let promised = of;
        assert_eq!(found(all), [(1, NothingLeft { direction: Direction::Up, promised, of })]);
        let fits = vec![class("a", 400, [half, half]), class("b", 599, [None; 2])];
        assert_eq!(found(fits), []);
        let chain = vec![
            class("a", 0, [Some(("b", 1)), Some(("default", 1))]),
            class("b", 0, [Some(("c", 1)), None]),
            class("c", 0, [Some(("b", 1)), Some(("c", 1))]),
            class("d", 0, [Some(("nobody", 1)), Some(("a", 0))]),
        ];
        let wrong = [
            (3, RatioToNone(Promises::DELAY_RATIO)),
            (1, RatioLoop(Promises::DELAY_RATIO)),
            (3, ZeroFactor(Promises::LOSS_RATIO)),
            (2, RatioLoop(Promises::LOSS_RATIO)),
        ];
        assert_eq!(found(chain), wrong);
        let least = Duration::from_millis(12);
        let bound = |bound| Class { delay_bound: [Some(bound); 2], ..class("a", 0, [None; 2]) };
        let short = BoundBelowPacket { direction: Direction::Up, least };
        assert_eq!(found(vec![bound(least - Duration::from_nanos(1))]), [(0, short)]);
        assert_eq!(found(vec![bound(least)]), []);
    }
}
