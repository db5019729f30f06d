//! Writes the results of a simulation as comma-separated values (RFC 4180).

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tidegate_sim::Results;
use tidegate_sim::table::{Table, Values};

use crate::code::Code;
use crate::output::Failure;

/// Writes each table into a file of its own in `folder`. Creates the folder if necessary.
pub(super) fn write(results: &Results, folder: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error: io::Error| {
        Failure::input(Code::NoSuchFile, format!("cannot write {}: {error}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for it in &results.tables {
        let path = folder.join(format!("{}.csv", file_name(&it.name)));
        let written = File::create(&path).and_then(|file| table(it, BufWriter::new(file)));
        written.map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// The file name for a table. Characters that are unusual in file names become dashes.
fn file_name(table: &str) -> String {
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let name: String = table.chars().map(|c| if usable(c) { c } else { '-' }).collect();
    let parts: Vec<_> = name.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// Writes a header line with the names of columns, then a line for each row. Missing numbers are
/// empty.
fn table(table: &Table, mut out: impl Write) -> io::Result<()> {
    let names: Vec<_> = table.columns().iter().map(|it| quoted(&it.name)).collect();
    writeln!(out, "{}", names.join(","))?;
    for row in 0..table.rows() {
        let cells: Vec<_> = table.columns().iter().map(|it| cell(&it.values, row)).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    out.flush()
}

fn cell(values: &Values, row: usize) -> String {
    match values {
        Values::Text(all) => quoted(&all[row]),
        Values::Whole(all) => all[row].to_string(),
        Values::Real(all) if all[row].is_finite() => all[row].to_string(),
        Values::Real(_) => String::new(),
    }
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_named_after_a_link_is_a_plain_file() {
        assert_eq!(file_name("queue of left > edge.wan"), "queue-of-left-edge.wan");
    }

    #[test]
    fn text_with_commas_and_quotes_is_quoted() {
        assert_eq!(quoted("a > b"), "a > b");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
    }

    #[test]
    fn a_missing_number_is_an_empty_cell() {
        assert_eq!(cell(&Values::Real(vec![f64::NAN, 0.25]), 0), "");
        assert_eq!(cell(&Values::Real(vec![f64::NAN, 0.25]), 1), "0.25");
    }
}
