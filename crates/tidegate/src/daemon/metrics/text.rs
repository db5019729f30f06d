//! Writes the text format of Prometheus.

use std::fmt::Write;

/// A page of metrics under construction.
#[derive(Default)]
pub(crate) struct Page(String);

impl Page {
    /// The text of the page.
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// Adds a metric. Each sample has labels and a value.
    pub(crate) fn metric(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let samples: Vec<_> = samples.into_iter().collect();
        if samples.is_empty() {
            return;
        }
        // Writing to a string cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in samples {
            let _ = writeln!(self.0, "{name}{} {value}", labels.0);
        }
    }
}

/// Formatted labels.
pub(crate) struct Labels(String);

/// Labels from `pairs` of name and value.
pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    if pairs.is_empty() {
        return Labels(String::new());
    }
    let escape = |text: &str| text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let pairs: Vec<_> =
        pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    Labels(format!("{{{}}}", pairs.join(",")))
}

/// `count` as the value of a metric.
#[expect(clippy::as_conversions, reason = "a metric is a real: exact up to 2^53")]
pub(crate) const fn float(count: u64) -> f64 {
    count as f64
}
