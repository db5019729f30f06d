//! Time series of an aggregate gateway: queue, weight, and sent bytes.

use tidegate_core::Time;

use crate::agenda::Agenda;
use crate::aggregate::Aggregate;
use crate::aggregate::adjustment::factor;
use crate::draw::real;
use crate::engine::Engine;
use crate::routes::index;
use crate::table::Table;

/// Samples of one aggregate gateway.
#[derive(Default)]
pub(super) struct AggregateSeries {
    gateway: usize,
    /// Numbers of waiting bytes, files and local connections now. Then totals of bytes since the
    /// start of the run: arrived, sent, sent while this gateway was busy, and sent while all
    /// gateways of the same sink were busy.
    whole: [Vec<u64>; 7],
    /// The weight, its share of all weights at the same sink, and the congestion window now. Then
    /// seconds since the start of the run in which this gateway was busy, and in which all gateways
    /// of the same sink were busy.
    real: [Vec<f64>; 5],
}

/// Names of the columns of [`AggregateSeries::whole`].
const WHOLE: [&str; 7] = [
    "queue_bytes",
    "files",
    "connections",
    "arrived_bytes",
    "sent_bytes",
    "busy_sent_bytes",
    "together_sent_bytes",
];

/// Names of the columns of [`AggregateSeries::real`].
const REAL: [&str; 5] =
    ["weight", "weight_share", "window_bytes", "busy_seconds", "together_seconds"];

impl AggregateSeries {
    pub(super) fn new(gateway: u32) -> Self {
        Self { gateway: index(gateway), ..Self::default() }
    }

    /// Takes a sample at `now`.
    pub(super) fn sample<A: Agenda>(&mut self, now: Time, engine: &Engine<'_, A>) {
        let it = &engine.aggregates[self.gateway];
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let totals = it.totals;
        let whole = [
            it.queue(),
            count(it.files()),
            count(it.connections()),
            totals.arrived,
            totals.sent,
            totals.busy_sent,
            totals.together_sent,
        ];
        let weight = |it: &Aggregate| factor(it.weight);
        let all: f64 =
            engine.aggregates.iter().filter(|other| other.sink == it.sink).map(weight).sum();
        let window = it.stream.map_or(f64::NAN, |stream| {
            real(engine.streams.get(stream).ends[0].tcp.progress().congestion_window)
        });
        let together = engine.sinks.together(it.sink, now).as_secs_f64();
        let reals = [weight(it), weight(it) / all, window, it.busy(now).as_secs_f64(), together];
        self.whole.iter_mut().zip(whole).for_each(|(seen, now)| seen.push(now));
        self.real.iter_mut().zip(reals).for_each(|(seen, now)| seen.push(now));
    }

    /// Adds the samples to `table`, one column for each quantity.
    pub(super) fn columns(self, mut table: Table) -> Table {
        for (name, column) in WHOLE.into_iter().zip(self.whole) {
            table = table.with(name, column);
        }
        for (name, column) in REAL.into_iter().zip(self.real) {
            table = table.with(name, column);
        }
        table
    }
}
