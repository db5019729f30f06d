//! Declarations of reports: state that is shown as JSON, as metrics and as tables.
//!
//! A report declares each field once with [`report!`](crate::report!): documentation, name, type and unit,
//! and the metrics and columns that show it. The macro generates the struct, its JSON, and a list of the
//! metrics and columns ([`Shown`]). The metrics page, its manual and the tables of the commands are generated
//! from this list.

mod json;
mod macros;
mod value;

pub use json::{AsJson, FromJson, JsonValue, Report, read, write};
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

/// The largest value so far. The sum of two such values is the larger value.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Peak(pub u32);

impl AddAssign for Peak {
    fn add_assign(&mut self, more: Self) {
        self.0 = self.0.max(more.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, report};

    report! {
        /// Counters of a letter box.
        #[derive(Copy, Eq)]
        Letters, counted {
            /// Letters that arrived.
            arrived as "arrived_letters" earlier "letters": u64 => {
                counter "box_arrived_letters_total",
                column "heavy" "Unused." = |it| ReportValue::Whole(it.arrived / 2),
            };
            /// Their weight.
            size: u64, in Bytes => { gauge "box_size_bytes" "Weight of all letters." };
        }
        apart {
            /// Letters that were opened.
            opened: u64;
        }
    }

    report! {
        /// A letter box.
        LetterBox {
            /// Largest letter that fits.
            limit: Option<Bytes>;
        }
        flatten {
            /// Its counters.
            letters: Letters;
        }
    }

    fn full() -> LetterBox {
        let letters = Letters { arrived: 6, size: 40, opened: 1 };
        LetterBox { limit: Some(Bytes(20)), letters }
    }

    /// Catches: a field under the wrong name; a field `apart` that is written; a flattened report
    /// that becomes an object of its own.
    #[test]
    fn json_has_each_field_once_and_under_its_earlier_name() {
        let written = toml::Table::try_from(full()).unwrap();
        let expected = "arrived_letters = 6\nletters = 6\nlimit = 20\nsize = 40\n";
        assert_eq!(written.to_string(), expected);
    }

    /// Catches: an earlier name that is not read; an unknown field that is refused; a missing field
    /// that is refused.
    #[test]
    fn json_of_other_versions_is_read() {
        let read = |text| toml::from_str::<LetterBox>(text).unwrap();
        assert_eq!(read("letters = 6\nlimit = 20\nnew = 3\n").letters.arrived, 6);
        assert_eq!(read(""), LetterBox::default());
        let mut letters = read("arrived_letters = 6\nlimit = 20\nsize = 40\n").letters;
        letters.opened = 1;
        assert_eq!(letters, full().letters);
    }

    /// Catches: a help text that is not the documentation where the declaration has none; a unit or
    /// an expression that is ignored.
    #[test]
    fn metrics_and_columns_follow_from_the_declaration() {
        let letters = full().letters;
        let shown: Vec<_> = Letters::shown()
            .into_iter()
            .map(|it| (it.form, it.name, it.help, (it.value)(&letters)))
            .collect();
        let expected = [
            (
                ShownAs::Counter,
                "box_arrived_letters_total",
                "Letters that arrived.",
                ReportValue::Whole(6),
            ),
            (ShownAs::Column, "heavy", "Unused.", ReportValue::Whole(3)),
            (ShownAs::Gauge, "box_size_bytes", "Weight of all letters.", ReportValue::Bytes(40)),
        ];
        assert_eq!(shown, expected);
    }

    /// Catches: a field that is not added or subtracted, also one that JSON does not have.
    #[test]
    fn counters_are_added_and_subtracted() {
        let one = full().letters;
        assert_eq!(one + one - one, one);
        let mut peak = Peak(3);
        peak += Peak(2);
        assert_eq!(peak, Peak(3));
    }
}
