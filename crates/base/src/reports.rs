//! Declarations of reports: state that is shown as JSON, as metrics and as tables.
//!
//! A report declares each field once with [`report!`](crate::report!): documentation, name, type and
//! unit, and the metrics and columns that show it. The macro generates the struct, its JSON, and a
//! list of what [`Shown`] describes. The metrics page, its manual and the tables of the commands are
//! generated from this list.

mod macros;
mod told;
mod value;

pub use told::{Reading, Report, Telling, Told, read, write};
pub use value::{Parts, Quantify, ReportValue, Unit};

use std::ops::AddAssign;

/// A metric or column that shows a report of type `T`.
pub struct Shown<T> {
    /// The form in which it is shown.
    pub form: ShownAs,
    /// Name of the metric, or heading of the column.
    pub name: &'static str,
    /// Help text of the metric.
    pub help: &'static str,
    /// The value.
    pub value: fn(&T) -> ReportValue,
}

/// The form in which a value is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShownAs {
    /// A metric that only grows.
    Counter,
    /// A metric that may fall.
    Gauge,
    /// A column of a table.
    Column,
}

/// The largest value so far. The sum of two is the larger one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Peak(pub u32);

impl AddAssign for Peak {
    fn add_assign(&mut self, more: Self) {
        self.0 = self.0.max(more.0);
    }
}
