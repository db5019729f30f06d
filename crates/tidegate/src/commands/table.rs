//! Tables of reports. The reports declare the columns.

use tidegate_core::Rate;
use tidegate_core::reports::{Form, Quantity, Report};
use tidegate_core::units::duration;

use super::status::{columns, size};

/// A table: the headings, and a row for each report.
pub(super) struct Table(Vec<Vec<String>>);

impl Table {
    /// A table without rows, with these headings.
    pub(super) fn new(headings: Vec<String>) -> Self {
        Self(vec![headings])
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }

    /// The table as text with aligned columns. Empty without rows.
    pub(super) fn text(&self) -> String {
        if self.0.len() > 1 { columns(&self.0) } else { String::new() }
    }
}

/// The headings of the columns that show a report.
pub(super) fn headings<R: Report>() -> Vec<String> {
    let columns = R::shown().into_iter().filter(|shown| shown.form == Form::Column);
    columns.map(|shown| shown.name.to_owned()).collect()
}

/// The cells of the columns that show `report`.
pub(super) fn cells<R: Report>(report: &R) -> Vec<String> {
    let columns = R::shown().into_iter().filter(|shown| shown.form == Form::Column);
    columns.map(|shown| cell((shown.value)(report))).collect()
}

/// The text of a value, with its unit.
fn cell(value: Quantity) -> String {
    match value {
        Quantity::None => "-".to_owned(),
        Quantity::Whole(number) => number.to_string(),
        Quantity::Signed(number) => number.to_string(),
        Quantity::Real(number) => format!("{number:.1}"),
        Quantity::Bytes(bytes) => size(bytes),
        Quantity::Bps(bits) => Rate::from_bps(bits).to_string(),
        Quantity::Nanos(time) => format!("{time} ns"),
        Quantity::Micros(time) => format!("{time} us"),
        Quantity::Millis(time) => format!("{time} ms"),
        Quantity::Span(time) => duration::show(time),
        Quantity::Text(text) => text,
        Quantity::Each(_, counts) => counts.iter().map(|(_, count)| count).sum::<u64>().to_string(),
    }
}
