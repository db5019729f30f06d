//! Compiles aggregate connections.

use tidegate_sim::scenario::{Kind, Overflow};
use toml::Spanned;

use super::Fields;
use crate::scenario::raw;

/// Names of the fields that an aggregate connection uses, which depend on its `overflow`.
pub(super) fn used(raw: &raw::Traffic) -> &'static [&'static str] {
    match overflow(raw) {
        raw::Overflow::Grow => &["of", "overflow", "weight"],
        raw::Overflow::Slow => &["of", "overflow", "queue", "buffer", "weight"],
        raw::Overflow::Withhold => &["of", "overflow", "queue", "weight"],
    }
}

fn overflow(raw: &raw::Traffic) -> raw::Overflow {
    raw.overflow.as_ref().map_or(raw::Overflow::Grow, |it| *it.get_ref())
}

/// Compiles an aggregate connection.
pub(super) fn kind(raw: &raw::Traffic, its: &mut Fields<'_>) -> Option<Kind> {
    let of = its.needed("of", raw.of.as_ref());
    let overflow = match overflow(raw) {
        raw::Overflow::Grow => Some(Overflow::Grow),
        raw::Overflow::Slow => {
            let buffer = raw.buffer.as_ref().map(|it| *it.get_ref());
            let queue = its.needed("queue", raw.queue.as_ref());
            queue.map(|queue| Overflow::Slow { queue: *queue, buffer })
        }
        raw::Overflow::Withhold => {
            let queue = its.needed("queue", raw.queue.as_ref());
            queue.map(|queue| Overflow::Withhold { queue: *queue })
        }
    };
    let of = of?.0.iter().map(Spanned::get_ref).cloned().collect();
    let weight = raw.weight.as_ref().map(|it| Box::new(it.get_ref().0.clone()));
    Some(Kind::Aggregate { of, overflow: overflow?, weight })
}
