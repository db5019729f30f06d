//! Checks of links that change during the run.
//!
//! Methods of `Check`, whose fields are in `check.rs`.

use std::time::Duration;

use super::{Check, HOLDS, NOTHING, YEAR};
use crate::scenario::{Change, Link, Place, What};

impl Check<'_> {
    pub(super) fn change(&mut self, n: usize, change: &Change) {
        let Change { at, way, change } = change;
        let place = |field| Place::Change(n, field);
        let mut ways = self.scenario.links.iter().flat_map(Link::ways);
        let Some((_, config)) = ways.find(|(there, _)| there == way) else {
            return self
                .wrong(place("link"), What::Unknown { kind: "link", name: way.to_string() });
        };
        if *at >= self.scenario.run.duration {
            self.wrong(place("at"), What::Contradiction("the run ends before the link changes"));
        }
        if change.rate.is_none() && change.delay.is_none() {
            let what = "nothing changes; write a `delay` or a `rate`";
            self.wrong(place("link"), What::Contradiction(what));
        }
        if change.rate.is_some() && config.rate.is_none() {
            let what = "the link has no rate that could change; give the link a rate";
            self.wrong(place("rate"), What::Contradiction(what));
        }
        if change.rate == Some(NOTHING) {
            self.wrong(place("rate"), What::Zero(HOLDS));
        }
        let fits = change.delay.unwrap_or(Duration::ZERO).as_secs() <= YEAR;
        self.range(place("delay"), fits, "the delay", "at most a year");
    }
}
