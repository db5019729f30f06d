//! The rate adjuster, which sets the weight of an aggregate connection, and a record of its
//! measurement rounds.

use tidegate_core::itcp::{Config, Decisions, GatewayLoad, Most, RateAdjuster};
use tidegate_core::random::Random;
use tidegate_core::{Factor, Rate, Time};

use crate::draw::real;
use crate::series::seconds;
use crate::table::Table;

/// A rate adjuster with its record.
pub(crate) struct Adjustment {
    config: Config,
    /// `None` until the aggregate connection opens.
    adjuster: Option<RateAdjuster>,
    decisions: Decisions,
    record: Record,
}

/// The completed rounds, one row each; every field is a column.
#[derive(Default)]
struct Record {
    times: Vec<f64>,
    decisions: Vec<String>,
    /// Weight, busy share, offered, sent and service rate in bit/s, slope in bit/s, mean queue in
    /// bytes.
    numbers: [Vec<f64>; 7],
}

/// Columns of [`Record::numbers`].
const NUMBERS: [&str; 7] =
    ["weight", "busy", "offered_bps", "sent_bps", "service_bps", "slope_bps", "queue_mean_bytes"];

/// Bits in a byte.
const BITS: f64 = 8.0;

impl Adjustment {
    pub(crate) fn new(config: Config) -> Self {
        let (decisions, record) = Default::default();
        Self { config, adjuster: None, decisions, record }
    }

    /// The aggregate connection opens at `now`. Returns its initial weight.
    pub(crate) fn begin(&mut self, random: Random, now: Time) -> Factor {
        self.adjuster.insert(RateAdjuster::new(&self.config, random, now)).weight()
    }

    /// The time at which the adjuster must be called next, as computed at `now`. If the number of
    /// local connections bounds the weight, the adjuster is called in each sampling interval.
    pub(crate) fn due(&self, now: Time) -> Option<Time> {
        let due = self.adjuster.as_ref()?.poll_timeout();
        Some(match self.config.most {
            Most::Constant(_) => due,
            Most::Connections => due.min(now + self.config.every),
        })
    }

    /// Calls the adjuster with the measurements `seen`. Returns the weight if it changed.
    pub(crate) fn call(&mut self, now: Time, seen: &GatewayLoad) -> Option<Factor> {
        let adjuster = self.adjuster.as_mut()?;
        let changed = adjuster.handle_timeout(now, seen);
        self.note(now);
        changed
    }

    /// Records a round if one ended at `now`.
    fn note(&mut self, now: Time) {
        let Some(report) = self.adjuster.as_ref().map(RateAdjuster::report) else { return };
        let (before, after) = (self.decisions, report.decisions);
        let counts = [
            ("increased", before.increased, after.increased),
            ("forced", before.forced, after.forced),
            ("decreased", before.decreased, after.decreased),
            ("held", before.held, after.held),
            ("abandoned", before.abandoned, after.abandoned),
        ];
        self.decisions = after;
        let Some((decision, ..)) = counts.iter().find(|(_, before, after)| after > before) else {
            return;
        };
        let round = report.last.filter(|_| *decision != "abandoned");
        let or_none = |number: Option<f64>| number.unwrap_or(f64::NAN);
        let bps = |rate: Rate| real(rate.bps());
        let numbers = [
            factor(report.weight),
            or_none(round.map(|it| factor(it.busy))),
            or_none(round.map(|it| bps(it.offered))),
            or_none(round.map(|it| bps(it.sent))),
            or_none(round.and_then(|it| it.service).map(bps)),
            or_none(round.map(|it| BITS * signed(it.slope))),
            or_none(round.map(|it| real(it.queue.0))),
        ];
        self.record.times.push(seconds(now));
        self.record.decisions.push((*decision).to_owned());
        self.record.numbers.iter_mut().zip(numbers).for_each(|(column, it)| column.push(it));
    }

    /// The recorded rounds as a table with this name.
    pub(crate) fn table(&mut self, name: String) -> Table {
        let Record { times, decisions, numbers } = std::mem::take(&mut self.record);
        let table = Table::new(name).with("time_seconds", times).with("decision", decisions);
        NUMBERS.into_iter().zip(numbers).fold(table, |table, (name, it)| table.with(name, it))
    }
}

/// A factor as a real number.
pub(crate) fn factor(factor: Factor) -> f64 {
    real(factor.millionths()) / real(Factor::ONE.millionths())
}

fn signed(number: i64) -> f64 {
    let size = real(number.unsigned_abs());
    if number < 0 { -size } else { size }
}
