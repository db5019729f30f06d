//! Addition, change and removal of trunks under live traffic.

use std::num::NonZeroU16;

use super::{Place, TrunkId, Trunks};
use crate::gateway::Gateway;
use crate::packet::{Direction, Fifo};
use crate::trunk::{self, Trunk};
use crate::{Cx, Time};

impl Gateway {
    /// Puts the trunks in `configs` in force.
    ///
    /// A trunk that keeps its name keeps its number, counters and queued packets; see
    /// [`Trunk::changed`]. Packets at a removed trunk depart at the rate of the link. The caller
    /// must assign trunks to aggregates again.
    pub(in crate::gateway) fn change_trunks(&mut self, now: Time, configs: &[trunk::Config]) {
        if self.config.trunks == configs {
            return;
        }
        let mut before = self.trunks.take().map(|it| it.places).unwrap_or_default();
        let numbers: Vec<_> = before.iter().map(|it| it.number).collect();
        let mut places = Vec::with_capacity(configs.len());
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        for config in configs {
            let found = before.iter().position(|it| it.trunk.config().name == config.name);
            places.push(match found.map(|at| before.remove(at)) {
                Some(place) => {
                    let trunk = place.trunk.changed(&mut cx, config, self.config.seed);
                    Place { trunk, ..place }
                }
                None => {
                    self.last_trunk = next(self.last_trunk, &numbers);
                    let seed = self.config.seed ^ now.nanos();
                    let trunk = Trunk::new(config, seed, now);
                    Place { trunk, number: self.last_trunk, class: None }
                }
            });
        }
        self.config.trunks = configs.to_vec();
        before.into_iter().for_each(|it| self.end_trunk(now, it));
        self.trunks = Trunks::of(places, self.config.seed);
        if self.trunks.is_some() {
            self.pool.keep_sack();
        }
        for id in (0..).map(TrunkId).take(configs.len()) {
            self.call_trunk(now, id, Trunk::turn);
        }
    }

    /// Moves packets of a removed trunk to the link.
    fn end_trunk(&mut self, now: Time, gone: Place) {
        let mut out = Fifo::new();
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        self.counts.trunks += gone.trunk.end(&mut cx, &mut out);
        while let Some(packet) = out.pop(&self.pool) {
            self.pool[&packet].cost = self.config.overhead.charge(&self.pool[&packet]);
            let class = self.flows.of_packet(&self.pool[&packet], Direction::Up);
            let class = class.map(|flow| flow.handle(Direction::Up).aggregate);
            let class = class.and_then(|slot| self.aggregates.class(slot));
            self.send_one(now, Direction::Up, class, packet);
        }
    }

    /// The numbers in packets that depart in datagrams of trunks, in the order of the trunks.
    #[must_use]
    pub fn trunk_numbers(&self) -> Vec<NonZeroU16> {
        self.trunks.iter().flat_map(|it| &it.places).map(|it| it.number).collect()
    }
}

/// The number after `last` that is not in `taken`.
fn next(last: NonZeroU16, taken: &[NonZeroU16]) -> NonZeroU16 {
    let mut number = last;
    loop {
        number = number.checked_add(1).unwrap_or(NonZeroU16::MIN);
        if !taken.contains(&number) {
            return number;
        }
    }
}
