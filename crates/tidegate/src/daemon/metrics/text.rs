//! Writes the text format of Prometheus.

use std::fmt::Write;

use tidegate_core::reports::{Report, ReportValue, ShownAs};

/// The names and values of labels.
pub(crate) type Pairs<'a> = Vec<(&'static str, &'a str)>;

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

impl Page {
    /// Adds the metrics of `all` reports. The labels of each report distinguish it from the
    /// other reports.
    pub(crate) fn reports<R: Report>(&mut self, all: &[(Pairs<'_>, &R)]) {
        self.reports_at("", all);
    }

    /// Adds the metrics of reports from `place`: those whose names begin with `tidegate_{place}`.
    /// `place` replaces the `*` in a name.
    pub(crate) fn reports_at<R: Report>(&mut self, place: &str, all: &[(Pairs<'_>, &R)]) {
        for shown in R::shown() {
            let kind = match shown.form {
                ShownAs::Counter => "counter",
                ShownAs::Gauge => "gauge",
                ShownAs::Column => continue,
            };
            let name = shown.name.replace('*', place);
            if !name.starts_with(&format!("tidegate_{place}")) {
                continue;
            }
            let samples = all.iter().flat_map(|(pairs, it)| samples(pairs, (shown.value)(it)));
            self.metric(&name, kind, shown.help, samples);
        }
    }
}

/// The samples of a value: one, or one for each value of its label.
fn samples(pairs: &Pairs<'_>, value: ReportValue) -> Vec<(Labels, f64)> {
    match value {
        ReportValue::Each(label, counts) => {
            let sample = |(name, count): (String, u64)| {
                (labels(&[&pairs[..], &[(label, &name)]].concat()), float(count))
            };
            counts.into_iter().map(sample).collect()
        }
        value => base_unit(&value).into_iter().map(|value| (labels(pairs), value)).collect(),
    }
}

/// The value in the base unit of its quantity: bytes, bytes per second, or seconds.
fn base_unit(value: &ReportValue) -> Option<f64> {
    Some(match value {
        ReportValue::None | ReportValue::Text(_) | ReportValue::Each(..) => return None,
        ReportValue::Whole(number) | ReportValue::Bytes(number) => float(*number),
        ReportValue::Signed(number) => signed(*number),
        ReportValue::Real(number) => *number,
        ReportValue::Bps(bits) => float(*bits) / 8.0,
        ReportValue::Nanos(time) => float(*time) / 1e9,
        ReportValue::Micros(time) => float(*time) / 1e6,
        ReportValue::Millis(time) => float(*time) / 1e3,
        ReportValue::Span(time) => float(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)) / 1e6,
    })
}

#[expect(clippy::as_conversions, reason = "a metric is a real: exact up to 2^53")]
const fn signed(count: i64) -> f64 {
    count as f64
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
