//! Metrics of the bandwidth classes.

use super::Page;
use super::text::Pairs;
use crate::api::Class;

/// Adds the metrics of `all` classes, and of the promises to them.
pub(super) fn write(all: &[Class], page: &mut Page) {
    page.reports(&all.iter().map(|it| (pairs(it), it)).collect::<Vec<_>>());
    let promises = all.iter().flat_map(|class| {
        class.promises.iter().map(|it| {
            let of = it.of.as_deref().unwrap_or_default();
            ([pairs(class), vec![("term", &*it.term), ("of", of)]].concat(), it)
        })
    });
    page.reports(&promises.collect::<Vec<_>>());
}

/// The labels that name a class.
pub(super) fn pairs(class: &Class) -> Pairs<'_> {
    vec![("class", class.name.as_str()), ("direction", class.direction.name())]
}
