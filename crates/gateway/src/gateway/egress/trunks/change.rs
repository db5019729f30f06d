//! Addition, change and removal of trunks under live traffic.
//!
//! This file contains methods of `Egress`, whose fields are in `egress.rs`.

use std::num::NonZeroU16;

use tidegate_core::packet::Fifo;
use tidegate_core::trunk::{self, Trunk};

use super::{Egress, TrunkId, TrunkSlot, Trunks, Upstream};

impl Egress {
    /// Puts the trunks in `configs` in force. Returns the counters of the removed trunks.
    ///
    /// A trunk that keeps its name keeps its number, counters and queued packets; see
    /// [`Trunk::changed`]. Packets at a removed trunk depart at the rate of the link. The caller
    /// must assign trunks to aggregates again.
    pub(in crate::gateway) fn change_trunks(
        &mut self,
        up: &mut Upstream<'_>,
        configs: &[trunk::Config],
        seed: u64,
    ) -> trunk::TrunkCounters {
        // Accounts are numbered by trunks and classes.
        self.close_accounts();
        let mut before = self.trunks.take().map(|it| it.places).unwrap_or_default();
        let numbers: Vec<_> = before.iter().map(|it| it.number).collect();
        let mut places = Vec::with_capacity(configs.len());
        for config in configs {
            let found = before.iter().position(|it| it.trunk.config().name == config.name);
            places.push(match found.map(|at| before.remove(at)) {
                Some(place) => {
                    let trunk = place.trunk.changed(&mut up.cx, config, seed);
                    TrunkSlot { trunk, ..place }
                }
                None => {
                    self.last_trunk = next(self.last_trunk, &numbers);
                    let seed = seed ^ up.cx.now.nanos();
                    let trunk = Trunk::new(config, seed, up.cx.now);
                    TrunkSlot { trunk, number: self.last_trunk, class: None }
                }
            });
        }
        let mut removed = trunk::TrunkCounters::default();
        before.into_iter().for_each(|it| removed += self.end_trunk(up, it));
        self.trunks = Trunks::of(places, seed);
        if self.trunks.is_some() {
            up.cx.pool.keep_sack();
        }
        for id in (0..).map(TrunkId).take(configs.len()) {
            self.call_trunk(up, id, Trunk::handle_timeout);
        }
        removed
    }

    /// Moves packets of a removed trunk to the link. Returns the trunk's counters.
    fn end_trunk(&mut self, up: &mut Upstream<'_>, removed: TrunkSlot) -> trunk::TrunkCounters {
        let mut out = Fifo::new();
        let counts = removed.trunk.end(&mut up.cx, &mut out);
        while let Some(packet) = out.pop(up.cx.pool) {
            up.cx.pool[&packet].cost = self.overhead.charge(&up.cx.pool[&packet]);
            let flow = up.sorter.flow_of(&up.cx.pool[&packet]);
            let slot = flow.map(|flow| flow.handle(self.direction).aggregate);
            let class = slot.and_then(|slot| up.aggregates.route(slot).class);
            self.send(up, class, packet);
        }
        counts
    }

    /// The numbers in packets that depart in datagrams of trunks, in the order of the trunks.
    pub(in crate::gateway) fn trunk_numbers(&self) -> Vec<NonZeroU16> {
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
