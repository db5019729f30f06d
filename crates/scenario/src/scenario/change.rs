//! Links that change during a run.

use tidegate_core::link::LinkChange;
use tidegate_sim::scenario::{Change, Way};

use super::network::Ends;
use super::raw;
use crate::diagnostic::Findings;
use crate::topology::Topology;
use crate::topology::compile::rows;
use crate::topology::raw::File;

/// Compiles the changes in `file`.
pub(super) fn changes(file: &File, topology: &Topology, found: &mut Findings) -> Vec<Change> {
    let ends = Ends::new(file, topology);
    let rows = rows(file.changes.as_ref()).iter();
    rows.filter_map(|it| change(it.get_ref(), &ends, found)).collect()
}

fn change(raw: &raw::Change, ends: &Ends<'_>, found: &mut Findings) -> Option<Change> {
    let (from, to) = (raw.from.get()?, raw.to.get()?);
    let (from, to) = (ends.find(from, found), ends.find(to, found));
    let delay = raw.delay.as_ref().map(|it| it.get_ref().0);
    let rate = raw.rate.as_ref().map(|it| *it.get_ref());
    Some(Change {
        at: raw.at.get()?.get_ref().0,
        way: Way { from: from?, to: to? },
        change: LinkChange { rate, delay },
    })
}
