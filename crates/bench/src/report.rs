//! The report: measured figures and their limits.

use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use serde::Serialize;

/// All measurements. Prints each figure when it is added.
#[derive(Default, Serialize)]
pub(crate) struct Report {
    sections: Vec<Section>,
}

/// Figures that belong together.
#[derive(Serialize)]
struct Section {
    title: String,
    lines: Vec<Line>,
    /// Measurements that were skipped, with the reason.
    skipped: Vec<String>,
}

/// One figure.
#[derive(Serialize)]
pub(crate) struct Line {
    /// The measured quantity.
    pub(crate) what: String,
    /// The value.
    pub(crate) value: f64,
    /// The unit.
    pub(crate) unit: &'static str,
    /// The limit; `None` for figures without one.
    pub(crate) most: Option<f64>,
    /// A remark.
    pub(crate) beside: String,
}

impl Line {
    fn holds(&self) -> bool {
        self.most.is_none_or(|most| self.value <= most)
    }

    fn markdown(&self) -> String {
        let (limit, verdict) = match self.most {
            None => (String::new(), ""),
            Some(most) => (format!("<= {most}"), if self.holds() { "pass" } else { "**FAIL**" }),
        };
        let Self { what, value, unit, beside, .. } = self;
        format!("| {what} | {value:.2} {unit} | {limit} | {verdict} | {beside} |")
    }
}

const HEAD: &str = "| what | value | limit | | beside |\n|---|---|---|---|---|";

impl Report {
    /// Begins a section. Figures added from now on belong to it.
    pub(crate) fn section(&mut self, title: &str) {
        println!("\n## {title}\n\n{HEAD}");
        self.sections.push(Section {
            title: title.to_owned(),
            lines: Vec::new(),
            skipped: Vec::new(),
        });
    }

    /// Adds a figure.
    pub(crate) fn add(&mut self, line: Line) {
        println!("{}", line.markdown());
        if let Some(section) = self.sections.last_mut() {
            section.lines.push(line);
        }
    }

    /// Records that this machine cannot make a measurement, and why.
    pub(crate) fn skip(&mut self, what: &str) {
        println!("skipped: {what}");
        if let Some(section) = self.sections.last_mut() {
            section.skipped.push(what.to_owned());
        }
    }

    /// Returns `true` if every figure is within its limit.
    pub(crate) fn holds(&self) -> bool {
        self.sections.iter().flat_map(|section| &section.lines).all(Line::holds)
    }

    /// Writes `bench.json` and `bench.md` into `folder`.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let mut text = String::from("# What a packet costs\n");
        for section in &self.sections {
            let lines: Vec<_> = section.lines.iter().map(Line::markdown).collect();
            let _ = write!(text, "\n## {}\n\n{HEAD}\n{}\n", section.title, lines.join("\n"));
            for skipped in &section.skipped {
                let _ = write!(text, "\nSkipped: {skipped}\n");
            }
        }
        fs::create_dir_all(folder)?;
        fs::write(folder.join("bench.md"), text)?;
        fs::write(folder.join("bench.json"), serde_json::to_string_pretty(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_figure_beyond_its_limit_fails_the_report() {
        let line = |value, most| Line {
            what: "x".to_owned(),
            value,
            unit: "",
            most,
            beside: String::new(),
        };
        let mut report = Report::default();
        report.section("test");
        report.add(line(9.0, None));
        report.add(line(1.0, Some(1.0)));
        assert!(report.holds());
        report.add(line(1.1, Some(1.0)));
        assert!(!report.holds());
    }
}
