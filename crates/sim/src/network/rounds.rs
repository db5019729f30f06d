//! The rounds of flows that pass a gateway, estimated by the tracker `paper` (one of the estimators
//! that a marking can use). A round is one window of data of a flow, sent in one round trip.
//!
//! At the end of each round the tracker projects the start time and the size of the next round. The
//! table has one row for each round, with the projection and the bytes that arrived.
//!
//! Source: `marking`, section 2.1 and figure 1 (projection of rounds).

use tidegate_core::marking::tracker::{Sighting, Track, TrackerSpec};
use tidegate_core::packet::Direction;
use tidegate_core::{Bytes, Packet, Time};

use crate::routes::index;
use crate::series::seconds;
use crate::table::Table;

/// The rounds of all flows in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    spec: TrackerSpec,
    /// The state of each flow; `None` before its first packet.
    flows: Vec<Option<Followed>>,
    rows: Rows,
}

/// The state of one flow.
#[derive(Clone, Copy, Debug)]
struct Followed {
    track: Track,
    /// Bytes that have arrived since this round began.
    arrived: u64,
    /// Start time and size of this round, as projected at the end of the previous round.
    projected: Option<(Time, Bytes)>,
    began: Time,
}

/// The columns of the table: one element for each completed round.
#[derive(Clone, Debug, Default)]
struct Rows {
    flow: Vec<u64>,
    times: [Vec<f64>; 2],
    bytes: [Vec<u64>; 2],
}

impl Default for Rounds {
    /// No flows yet. The tracker is `paper`, because this tracker needs packets of one direction
    /// only.
    fn default() -> Self {
        let spec = TrackerSpec::Paper(Default::default());
        Self { spec, flows: Vec::new(), rows: Rows::default() }
    }
}

impl Rounds {
    /// A packet of `flow` with data, or a SYN, has arrived.
    pub(super) fn on_arrival(
        &mut self,
        now: Time,
        flow: u32,
        direction: Direction,
        packet: &Packet,
    ) {
        let place = index(flow);
        if place >= self.flows.len() {
            self.flows.resize(place + 1, None);
        }
        let seen = Sighting { now, packet, direction, flow: None };
        let Some(followed) = &mut self.flows[place] else {
            let (track, arrived) = (Track::new(&self.spec, &seen), packet.len.into());
            self.flows[place] = Some(Followed { track, arrived, projected: None, began: now });
            return;
        };
        let before = followed.track.estimate(now);
        followed.track.on_arrival(&seen);
        if followed.track.estimate(now).round_start == before.round_start {
            followed.arrived += u64::from(packet.len);
            return;
        }
        let next = (before.next_round(), before.next_window());
        if let Some((start, bytes)) = followed.projected.replace(next) {
            self.rows.push(flow, [followed.began, start], [followed.arrived, bytes.0]);
        }
        (followed.arrived, followed.began) = (packet.len.into(), now);
    }

    /// The gateway has marked or dropped a packet of `flow`.
    pub(super) fn on_congestion(&mut self, now: Time, flow: u32) {
        let followed = self.flows.get_mut(index(flow)).and_then(Option::as_mut);
        followed.into_iter().for_each(|it| it.track.on_mark(now));
    }

    /// The table, with one row for each completed round.
    pub(crate) fn table(self, name: String) -> Table {
        let Rows { flow, times: [began, expected], bytes: [arrived, projected] } = self.rows;
        Table::new(name)
            .with("flow", flow)
            .with("began_seconds", began)
            .with("projected_seconds", expected)
            .with("arrived_bytes", arrived)
            .with("projected_bytes", projected)
    }
}

impl Rows {
    fn push(&mut self, flow: u32, times: [Time; 2], bytes: [u64; 2]) {
        self.flow.push(flow.into());
        self.times.iter_mut().zip(times).for_each(|(column, at)| column.push(seconds(at)));
        self.bytes.iter_mut().zip(bytes).for_each(|(column, count)| column.push(count));
    }
}
