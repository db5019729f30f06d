//! Checks of aggregate connections.
//!
//! Methods of `Check`, whose fields are in `check.rs`.

use tidegate_core::{Bytes, itcp};

use super::Check;
use crate::scenario::demand::Paths;
use crate::scenario::{Kind, Overflow, Place, Traffic, What};

impl Check<'_> {
    /// Checks an aggregate connection and the traffic that it carries.
    pub(super) fn aggregate(&mut self, n: usize, aggregate: &Traffic) {
        let Kind::Aggregate { of, overflow, weight } = &aggregate.kind else { return };
        let place = |field| Place::Traffic(n, field);
        if aggregate.stop.is_some() {
            let what =
                "an aggregate connection stays open; write `stop` in the traffic that it carries";
            self.wrong(place("stop"), What::Aggregate(what.to_owned()));
        }
        if aggregate.flows != 1 || aggregate.pairs.len() > 1 {
            let what = "an aggregate connection is one flow from one gateway to one host";
            self.wrong(place("flows"), What::Aggregate(what.to_owned()));
        }
        if let Some(Err(what)) = weight.as_ref().map(|weight| weight.check()) {
            self.wrong(place("weight"), What::Aggregate(what));
        }
        match overflow {
            Overflow::Slow { queue: Bytes::ZERO, .. }
            | Overflow::Withhold { queue: Bytes::ZERO } => {
                self.wrong(place("queue"), What::Zero("lets no byte wait"));
            }
            Overflow::Slow { buffer: Some(Bytes::ZERO), .. } => {
                self.wrong(place("buffer"), What::Zero("lets no byte wait"));
            }
            _ => {}
        }
        if of.is_empty() {
            self.wrong(place("of"), What::None("an aggregate connection carries other traffic"));
        }
        for (at, name) in of.iter().enumerate() {
            if of[..at].contains(name) {
                self.wrong(place("of"), What::Twice(name.clone()));
            }
            self.local(n, aggregate, name);
        }
    }

    /// A rate adjuster needs a path with a delay, and a sampling interval above the path's
    /// round-trip time. Call it only if there are no other errors.
    pub(super) fn adjusters(&mut self) {
        let mut paths = None;
        for (n, traffic) in self.scenario.traffic.iter().enumerate() {
            let Kind::Aggregate { weight: Some(config), .. } = &traffic.kind else { continue };
            let Some(pair) = traffic.pairs.first().filter(|_| config.kind != itcp::LawKind::Fixed)
            else {
                continue;
            };
            let paths = paths.get_or_insert_with(|| Paths::new(self.scenario));
            let there = paths.between(&pair.from, &pair.to).0;
            let back = paths.between(&pair.to, &pair.from).0;
            if let Err(what) = config.check_path(there + back) {
                self.wrong(Place::Traffic(n, "weight"), What::Aggregate(what.to_owned()));
            }
        }
    }

    /// Checks the traffic `name`, which the aggregate connection with index `n` carries.
    fn local(&mut self, n: usize, aggregate: &Traffic, name: &String) {
        let place = Place::Traffic(n, "of");
        let earlier = &self.scenario.traffic[..n];
        let Some(local) = earlier.iter().find(|it| it.name == *name) else {
            let what = What::Unknown { kind: "earlier traffic", name: name.clone() };
            return self.wrong(place, what);
        };
        let is_taken = |it: &Traffic| match &it.kind {
            Kind::Relay { of, .. } => of == name,
            Kind::Aggregate { of, .. } => of.contains(name),
            _ => false,
        };
        if earlier.iter().any(is_taken) {
            let what = "another relay or aggregate connection already carries this traffic; remove it from one of the two";
            self.wrong(place, What::Aggregate(what.to_owned()));
        }
        let is_carried = matches!(
            local.kind,
            Kind::Greedy
                | Kind::File { .. }
                | Kind::OnOff { .. }
                | Kind::Arrivals { .. }
                | Kind::Trace { .. }
        );
        if !is_carried {
            let what = "an aggregate connection carries only TCP that the sender of the data opens: greedy, file, on-off, arrivals or trace";
            self.wrong(place, What::Aggregate(what.to_owned()));
        }
        let gateway = aggregate.pairs.first().map(|pair| &pair.from);
        if local.pairs.iter().any(|pair| Some(&pair.to) != gateway) {
            let what = "the local connections of an aggregate must end at its sender";
            self.wrong(Place::Traffic(n, "from"), What::Aggregate(what.to_owned()));
        }
    }
}
