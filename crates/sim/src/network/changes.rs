//! Changes of links during a run.
//!
//! Methods of `Network`, whose fields are in `network.rs`.

use tidegate_core::link::LinkChange;
use tidegate_core::{Cx, Time};

use super::Network;
use crate::agenda::Agenda;
use crate::routes::{index, number};
use crate::scenario::{Link, Scenario};

/// The changes still to come. The earliest one is last.
#[derive(Default)]
pub(crate) struct Changes(Vec<(Time, u32, LinkChange)>);

impl Changes {
    /// The changes of a scenario that has passed its check.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let ways: Vec<_> = scenario.links.iter().flat_map(Link::ways).map(|it| it.0).collect();
        let mut changes: Vec<_> = scenario
            .changes
            .iter()
            .filter_map(|it| {
                let way = ways.iter().position(|way| *way == it.way)?;
                Some((Time::ZERO + it.at, number(way), it.change))
            })
            .collect();
        // The sort is stable. If two changes have the same time, the one later in the scenario is
        // made later.
        changes.sort_by_key(|it| it.0);
        changes.reverse();
        Self(changes)
    }

    /// The time of the next change.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.0.last().map(|it| it.0)
    }

    /// Makes all changes whose time has come.
    pub(crate) fn make(&mut self, network: &mut Network, agenda: &mut impl Agenda, now: Time) {
        while let Some((_, way, change)) = self.0.pop_if(|it| it.0 <= now) {
            network.change(agenda, now, way, change);
        }
    }
}

impl Network {
    /// Applies `change` to link direction `way`.
    fn change(&mut self, agenda: &mut impl Agenda, now: Time, way: u32, change: LinkChange) {
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.scratch };
        let lane = &mut self.lanes[index(way)];
        lane.change(&mut cx, change);
        lane.arm_after_send(agenda, way);
    }
}
