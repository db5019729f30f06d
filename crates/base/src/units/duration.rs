//! The notation of times in files, for `#[serde(with = "units::duration")]`.

use std::fmt;
use std::time::Duration;

use serde::{Deserializer, Serializer};

use super::{DURATION, QuantityVisitor, UnitError};

/// Reads a time such as `10 ms`.
///
/// # Errors
///
/// If the text is no time or lacks its unit.
pub fn parse(text: &str) -> Result<Duration, UnitError> {
    DURATION.parse(text).map(Duration::from_nanos)
}

/// Writes a time such as `10 ms`.
#[must_use]
#[inline]
pub fn show(span: Duration) -> String {
    struct Shown(u64);
    impl fmt::Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            DURATION.show(self.0, f)
        }
    }
    Shown(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)).to_string()
}

/// Reads a time from a text such as `10 ms`, for serde.
///
/// # Errors
///
/// If the text is not a time or lacks a unit.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    from.deserialize_any(QuantityVisitor(&DURATION)).map(Duration::from_nanos)
}

/// Writes a time as a text such as `10 ms`, for serde.
///
/// # Errors
///
/// If the format cannot hold a string.
pub fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&show(*span))
}
