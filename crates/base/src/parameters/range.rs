//! Ranges of parameters: their checks, and their description in words.

use std::ops::{Bound, RangeBounds};

use super::form::Written;
use super::value::Value;

/// The bounds of a range, in the notation of files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// The least value.
    pub least: Option<Written>,
    /// An exclusive lower bound.
    pub above: Option<Written>,
    /// The greatest value.
    pub most: Option<Written>,
    /// An exclusive upper bound.
    pub below: Option<Written>,
}

/// The range of all values above `bound`.
#[must_use]
pub const fn more_than<B>(bound: B) -> (Bound<B>, Bound<B>) {
    (Bound::Excluded(bound), Bound::Unbounded)
}

/// The bounds of `range`, for a parameter of type `T`.
pub fn limits<T: Value>(range: &impl RangeBounds<T::Inner>) -> Limits {
    let (start, end) = (range.start_bound(), range.end_bound());
    let included = |bound: Bound<&T::Inner>| match bound {
        Bound::Included(bound) => bound.written(),
        _ => None,
    };
    let excluded = |bound: Bound<&T::Inner>| match bound {
        Bound::Excluded(bound) => bound.written(),
        _ => None,
    };
    Limits {
        least: included(start),
        above: excluded(start),
        most: included(end),
        below: excluded(end),
    }
}

/// Checks that `value`, the value of the parameter `name`, is in `range`. An absent value always
/// is.
///
/// # Errors
///
/// If the value is out of the range. The text names the parameter and its range. It adds the reason
/// `why`, or the default as a valid value.
pub fn check<T: Value<Inner: PartialOrd>>(
    name: &str,
    value: &T,
    range: &impl RangeBounds<T::Inner>,
    default: &T,
    why: Option<&str>,
) -> Result<(), String> {
    if value.inner().is_none_or(|value| range.contains(value)) {
        return Ok(());
    }
    let limits = limits::<T>(range);
    let hint = match (why, default.written()) {
        (Some(why), _) => format!(": {why}"),
        (None, Some(default)) => format!("; write for example {default}"),
        (None, None) => String::new(),
    };
    Err(format!("`{name}` must be {}{hint}", limits.in_words()))
}

impl Limits {
    /// The range in words, such as "from 1 to 16", "at least 1" or "above zero". Empty without
    /// bounds.
    #[must_use]
    pub fn in_words(&self) -> String {
        if let (Some(least), Some(most)) = (&self.least, &self.most) {
            return format!("from {least} to {most}");
        }
        if self.above.as_ref().is_some_and(is_zero) {
            return "above zero".to_owned();
        }
        let parts = [
            ("at least", &self.least),
            ("above", &self.above),
            ("at most", &self.most),
            ("below", &self.below),
        ];
        let part = |(word, bound): (&str, &Option<Written>)| {
            bound.as_ref().map(|bound| format!("{word} {bound}"))
        };
        parts.into_iter().filter_map(part).collect::<Vec<_>>().join(" and ")
    }
}

fn is_zero(value: &Written) -> bool {
    match value {
        Written::Text(quantity) => quantity.starts_with("0 "),
        Written::Whole(number) => *number == 0,
        Written::Number(number) => number.millionths() == 0,
        _ => false,
    }
}
