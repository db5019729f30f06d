//! Tables of reports. The reports declare the columns.

use tidegate_core::Rate;
use tidegate_core::reports::{Report, ReportValue, ShownAs};
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
    let columns = R::shown().into_iter().filter(|shown| shown.form == ShownAs::Column);
    columns.map(|shown| shown.name.to_owned()).collect()
}

/// The cells of the columns that show `report`.
pub(super) fn cells<R: Report>(report: &R) -> Vec<String> {
    let columns = R::shown().into_iter().filter(|shown| shown.form == ShownAs::Column);
    columns.map(|shown| cell((shown.value)(report))).collect()
}

/// The text of a value, with its unit.
fn cell(value: ReportValue) -> String {
    match value {
        ReportValue::None => "-".to_owned(),
        ReportValue::Whole(number) => number.to_string(),
        ReportValue::Signed(number) => number.to_string(),
        ReportValue::Real(number) => format!("{number:.1}"),
        ReportValue::Bytes(bytes) => size(bytes),
        ReportValue::Bps(bits) => Rate::from_bps(bits).to_string(),
        ReportValue::Nanos(time) => format!("{time} ns"),
        ReportValue::Micros(time) => format!("{time} us"),
        ReportValue::Millis(time) => format!("{time} ms"),
        ReportValue::Span(time) => duration::show(time),
        ReportValue::Text(text) => text,
        ReportValue::Each(_, counts) => {
            counts.iter().map(|(_, count)| count).sum::<u64>().to_string()
        }
    }
}
