//! Metrics of congestion marking, for each queue that marks.

use super::{Page, classes};
use crate::api::{Class, Status};

/// Adds the metrics of marking at the link and at its classes.
pub(super) fn write(status: &Status, all_classes: &[Class], page: &mut Page) {
    let link = [("up", &status.up), ("down", &status.down)].into_iter();
    let link = link.filter_map(|(way, it)| Some((vec![("direction", way)], it.marking.as_ref()?)));
    let of_class = |it| Some((classes::pairs(it), it.marking.as_ref()?));
    let of_classes = all_classes.iter().filter_map(of_class);
    for (place, all) in [("link", link.collect::<Vec<_>>()), ("class", of_classes.collect())] {
        page.reports_at(place, &all);
        let tracked = all.into_iter().map(|(pairs, it)| (pairs, &it.tracked));
        page.reports_at(place, &tracked.collect::<Vec<_>>());
    }
}
