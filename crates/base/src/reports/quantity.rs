//! Values of reports, with their units.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use super::Peak;
use crate::packet::Direction;
use crate::{Bytes, Rate};

/// A value in a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
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
pub type Unit = fn(u64) -> Quantity;

impl Quantity {
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
    fn quantity(&self) -> Quantity;
}

/// Packets and their bytes.
pub trait Parts {
    /// Number of packets.
    fn packets(&self) -> Quantity;
    /// Number of bytes.
    fn bytes(&self) -> Quantity;
}

macro_rules! quantify {
    ($($type:ty: |$it:ident| $value:expr;)+) => {
        $(impl Quantify for $type {
            fn quantity(&self) -> Quantity {
                let $it = self;
                $value
            }
        })+
    };
}

quantify! {
    u64: |it| Quantity::Whole(*it);
    u32: |it| Quantity::Whole((*it).into());
    u8: |it| Quantity::Whole((*it).into());
    bool: |it| Quantity::Whole((*it).into());
    Peak: |it| Quantity::Whole(it.0.into());
    i64: |it| Quantity::Signed(*it);
    f64: |it| Quantity::Real(*it);
    Bytes: |it| Quantity::Bytes(it.0);
    Rate: |it| Quantity::Bps(it.bps());
    Duration: |it| Quantity::Span(*it);
    String: |it| Quantity::Text(it.clone());
    Cow<'static, str>: |it| Quantity::Text(it.to_string());
    Direction: |it| Quantity::Text(it.name().to_owned());
    BTreeMap<String, u64>: |it| Quantity::Each(
        "reason",
        it.iter().map(|(name, count)| (name.clone(), *count)).collect(),
    );
}

impl<T: Quantify> Quantify for Option<T> {
    fn quantity(&self) -> Quantity {
        self.as_ref().map_or(Quantity::None, T::quantity)
    }
}
