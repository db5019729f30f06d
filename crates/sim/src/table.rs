//! Tables of results, stored by column, for arrays, CSV files or data frames.

use tidegate_core::reports::{Report, ReportValue, ShownAs};

/// A named table. All its columns have the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Name of the table.
    pub name: String,
    columns: Vec<Column>,
}

/// A named column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name of the column, with the unit at its end if there is one.
    pub name: String,
    /// The values.
    pub values: Values,
}

/// The values of a column.
#[derive(Clone, Debug)]
pub enum Values {
    /// Names.
    Text(Vec<String>),
    /// Counts.
    Whole(Vec<u64>),
    /// Quantities; NaN for a value that does not exist.
    Real(Vec<f64>),
}

/// Two columns are equal if their values are equal bit by bit. So NaN equals NaN.
impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Whole(a), Self::Whole(b)) => a == b,
            (Self::Real(a), Self::Real(b)) => {
                a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits()))
            }
            _ => false,
        }
    }
}

impl From<Vec<String>> for Values {
    fn from(values: Vec<String>) -> Self {
        Self::Text(values)
    }
}

impl From<Vec<u64>> for Values {
    fn from(values: Vec<u64>) -> Self {
        Self::Whole(values)
    }
}

impl From<Vec<f64>> for Values {
    fn from(values: Vec<f64>) -> Self {
        Self::Real(values)
    }
}

impl Values {
    /// Number of values.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Whole(values) => values.len(),
            Self::Real(values) => values.len(),
        }
    }

    /// Returns `true` if there are no values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    /// A table without columns.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), columns: Vec::new() }
    }

    /// The table with one more column.
    #[must_use]
    pub(crate) fn with(mut self, name: impl Into<String>, values: impl Into<Values>) -> Self {
        self.columns.push(Column { name: name.into(), values: values.into() });
        self
    }

    /// The table with the columns that `report!` declares for `rows`. Their values are counts.
    #[must_use]
    pub(crate) fn with_counts<R: Report>(self, rows: &[R]) -> Self {
        let columns = R::shown().into_iter().filter(|it| it.form == ShownAs::Column);
        columns.fold(self, |table, column| {
            let count = |row| match (column.value)(row) {
                ReportValue::Whole(count) | ReportValue::Bytes(count) => count,
                _ => 0,
            };
            table.with(column.name, rows.iter().map(count).collect::<Vec<_>>())
        })
    }

    /// Its columns, in order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// A column by its name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Values> {
        self.columns.iter().find(|column| column.name == name).map(|column| &column.values)
    }

    /// The values of a column of quantities; empty if there is no such column.
    #[must_use]
    pub fn real(&self, name: &str) -> &[f64] {
        match self.column(name) {
            Some(Values::Real(values)) => values,
            _ => &[],
        }
    }

    /// The values of a column of counts; empty if there is no such column.
    #[must_use]
    pub fn whole(&self, name: &str) -> &[u64] {
        match self.column(name) {
            Some(Values::Whole(values)) => values,
            _ => &[],
        }
    }

    /// The values of a column of names; empty if there is no such column.
    #[must_use]
    pub fn text(&self, name: &str) -> &[String] {
        match self.column(name) {
            Some(Values::Text(values)) => values,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_and_kind() {
        let table = Table::new("t").with("bytes", vec![1_u64, 2]).with("rate", vec![0.5, 1.5]);
        assert_eq!((table.rows(), table.whole("bytes")), (2, &[1, 2][..]));
        assert_eq!((table.real("rate"), table.real("bytes")), (&[0.5, 1.5][..], &[][..]));
        assert!(table.column("nothing").is_none() && table.text("rate").is_empty());
    }
}
