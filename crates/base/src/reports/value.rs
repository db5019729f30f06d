//! Values of reports, with their units.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use super::Peak;
use crate::packet::Direction;
use crate::{Bytes, Rate};

/// A value in a report.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportValue {
    /// No value. A metric then has no sample.
    None,
    /// A number without a unit.
    Whole(u64),
    /// A number that may be negative.
    Signed(i64),
    /// A real number.
    Real(f64),
    /// A number of bytes.
    Bytes(u64),
    /// A rate in bits per second.
    Bps(u64),
    /// A time in nanoseconds.
    Nanos(u64),
    /// A time in microseconds.
    Micros(u64),
    /// A time in milliseconds.
    Millis(u64),
    /// A time.
    Span(Duration),
    /// Text. Metrics cannot show it.
    Text(String),
    /// A value for each value of a label. The first field is the name of the label.
    Each(&'static str, Vec<(String, u64)>),
}

/// The unit of a number.
pub type Unit = fn(u64) -> ReportValue;

impl ReportValue {
    /// The same number with a unit.
    #[must_use]
    pub fn with(self, unit: Unit) -> Self {
        match self {
            Self::Whole(number) => unit(number),
            other => other,
        }
    }
}

/// A type whose value a metric or a column can show.
pub trait Quantify {
    /// The value.
    fn quantity(&self) -> ReportValue;
}

/// Packets and their bytes.
pub trait Parts {
    /// Number of packets.
    fn packets(&self) -> ReportValue;
    /// Number of bytes.
    fn bytes(&self) -> ReportValue;
}

macro_rules! quantify {
    ($($type:ty: |$it:ident| $value:expr;)+) => {
        $(impl Quantify for $type {
            fn quantity(&self) -> ReportValue {
                let $it = self;
                $value
            }
        })+
    };
}

quantify! {
    u64: |it| ReportValue::Whole(*it);
    u32: |it| ReportValue::Whole((*it).into());
    u8: |it| ReportValue::Whole((*it).into());
    bool: |it| ReportValue::Whole((*it).into());
    Peak: |it| ReportValue::Whole(it.0.into());
    i64: |it| ReportValue::Signed(*it);
    f64: |it| ReportValue::Real(*it);
    Bytes: |it| ReportValue::Bytes(it.0);
    Rate: |it| ReportValue::Bps(it.bps());
    Duration: |it| ReportValue::Span(*it);
    String: |it| ReportValue::Text(it.clone());
    Cow<'static, str>: |it| ReportValue::Text(it.to_string());
    Direction: |it| ReportValue::Text(it.name().to_owned());
    BTreeMap<String, u64>: |it| ReportValue::Each(
        "reason",
        it.iter().map(|(name, count)| (name.clone(), *count)).collect(),
    );
}

impl<T: Quantify> Quantify for Option<T> {
    fn quantity(&self) -> ReportValue {
        self.as_ref().map_or(ReportValue::None, T::quantity)
    }
}
