//! Conservation of packets and bytes, checked at the end of every run.
//!
//! Methods of `Engine`, whose fields are in `engine.rs`. Methods of `Network`, whose fields are in
//! `network.rs`.

use super::Engine;
use super::apps::check_bytes;
use crate::agenda::Agenda;
use crate::network::{Network, Station};

impl<A: Agenda> Engine<'_, A> {
    /// Checks that every packet, and every byte of a connection, is delivered, counted as lost, or
    /// still in the network.
    ///
    /// # Panics
    ///
    /// Panics if a packet or byte is missing. This is an error of the simulator, which may falsify
    /// all results of the run.
    pub(crate) fn check_conservation(&mut self) {
        let (held, dropped) = (self.network.held(), self.network.tally().drops.total());
        let (made, absorbed) = self.network.made_and_absorbed();
        assert_eq!(
            self.counts.created + made,
            self.counts.ended + dropped + absorbed + held,
            "packets sent or made ({made}) are those that arrived ({}), were dropped ({dropped}), \
             absorbed ({absorbed}) or are held ({held})",
            self.counts.ended
        );
        self.network.check_conservation();
        self.streams.iter().for_each(check_bytes);
        self.streams.iter().for_each(|stream| self.check_relay(stream));
        self.check_aggregates();
    }
}

impl Network {
    /// Numbers of packets that gateways created and absorbed. Gateways absorb packets that end at a
    /// trunk, and held ACKs that they store as records.
    fn made_and_absorbed(&self) -> (u64, u64) {
        let all = self.stations.iter().map(Station::made_and_absorbed);
        all.fold((0, 0), |(made, absorbed), it| (made + it.0, absorbed + it.1))
    }

    fn check_conservation(&mut self) {
        let mut inside = 0;
        for (number, lane) in self.lanes.iter().enumerate() {
            let held = u64::try_from(lane.held()).unwrap_or(u64::MAX);
            let (delivered, dropped) = (lane.delivered.packets, lane.tally().drops.total());
            assert_eq!(
                lane.offered.packets,
                delivered + dropped + held,
                "link {number}: delivered {delivered}, dropped {dropped}, holds {held}"
            );
            inside += held;
        }
        assert_eq!(u64::from(self.pool.in_use()), inside, "packets outside of any link");
        for station in &mut self.stations {
            let (received, left) = station.balance();
            assert_eq!(received, left, "station at node {}", station.node);
        }
    }
}
