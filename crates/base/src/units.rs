//! Quantities with a unit, such as `20 Mbit/s`, as integer types with one notation.
//!
//! Integer arithmetic gives equal results on every machine, unlike floating point. Text always names
//! the unit. Three ambiguous notations are refused: a bare number, `kbps` (kilobits or kilobytes?)
//! and `KB` (1,000 or 1,024 bytes?).

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::nanos;

/// An amount of data, in bytes.
///
/// ```
/// use tidegate_base::Bytes;
///
/// let buffer: Bytes = "64 KiB".parse().unwrap();
/// assert_eq!(buffer, Bytes(65_536));
/// // A number without a unit has no meaning. The error says what to write.
/// let error = "64".parse::<Bytes>().unwrap_err().to_string();
/// assert_eq!(error, "`64` has no unit; write for example \"64 KiB\"");
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Bytes(pub u64);

/// A rate of data, in bits per second.
///
/// ```
/// use std::time::Duration;
/// use tidegate_base::{Bytes, Rate};
///
/// let line: Rate = "20 Mbit/s".parse().unwrap();
/// // A full-size frame occupies the line for 606 us.
/// assert_eq!(line.time_for(Bytes(1_514)), Duration::from_nanos(605_600));
/// // The bandwidth-delay product for a round-trip time of 40 ms.
/// assert_eq!(line.bytes_in(Duration::from_millis(40)), Bytes(100_000));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Rate(u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);

    /// `self - other`, or zero if that would be negative.
    #[must_use]
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Rate {
    /// A rate of `bps` bits per second.
    #[must_use]
    #[inline]
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// A rate of `kbps` thousand bits per second.
    #[must_use]
    #[inline]
    pub const fn from_kbps(kbps: u64) -> Self {
        Self(kbps * 1_000)
    }

    /// A rate of `mbps` million bits per second.
    #[must_use]
    #[inline]
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps * 1_000_000)
    }

    /// Bits per second.
    #[must_use]
    #[inline]
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Time to transmit `bytes` at this rate, rounded up to the nanosecond. `u64::MAX`
    /// nanoseconds (584 years) at rate 0.
    #[must_use]
    #[inline]
    pub fn time_for(self, bytes: Bytes) -> Duration {
        if let (Some(nanobits), 1..) = (bytes.0.checked_mul(NANOBITS_PER_BYTE), self.0) {
            return Duration::from_nanos(nanobits.div_ceil(self.0));
        }
        let nanobits = u128::from(bytes.0) * u128::from(NANOBITS_PER_BYTE);
        let nanos = match self.0 {
            0 => u128::MAX,
            bps => nanobits.div_ceil(u128::from(bps)),
        };
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Bytes that a link of this rate carries within `span`, rounded down.
    #[must_use]
    #[inline]
    pub fn bytes_in(self, span: Duration) -> Bytes {
        if let Some(nanobits) = self.0.checked_mul(nanos(span)) {
            return Bytes(nanobits / NANOBITS_PER_BYTE);
        }
        let bytes = u128::from(self.0) * span.as_nanos() / u128::from(NANOBITS_PER_BYTE);
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// One byte in the unit `bits/s * ns`: 8 bits, and each bit takes a billion nanoseconds at 1 bit/s.
pub const NANOBITS_PER_BYTE: u64 = 8 * 1_000_000_000;

/// The reason why a text cannot be read as a quantity.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// A number without a unit.
    #[error("`{text}` has no unit; write for example \"{example}\"")]
    Bare {
        /// The text.
        text: String,
        /// A valid example.
        example: &'static str,
    },
    /// An unknown unit, or a unit of another quantity.
    #[error("`{unit}` is not a unit of {kind} here; use one of: {units}{hint}")]
    Unit {
        /// The unit in the text.
        unit: String,
        /// The kind of quantity, such as "rate".
        kind: &'static str,
        /// The units of this quantity.
        units: String,
        /// A hint at a likely mistake.
        hint: &'static str,
    },
    /// The number cannot be read: it is missing, negative or too large.
    #[error("`{text}` is not {kind}; write for example \"{example}\"")]
    Number {
        /// The text.
        text: String,
        /// Quantity with an article, such as "a rate".
        kind: &'static str,
        /// A valid example.
        example: &'static str,
    },
}

/// A kind of quantity: its name, an example, and its units with their sizes.
pub struct Quantity {
    name: &'static str,
    article: &'static str,
    example: &'static str,
    units: &'static [(&'static str, u64)],
}

/// The notation of rates.
pub const RATE: Quantity = Quantity {
    name: "rate",
    article: "a rate",
    example: "20 Mbit/s",
    units: &[
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
    ],
};

/// The notation of sizes.
pub const BYTES: Quantity = Quantity {
    name: "size",
    article: "a size",
    example: "64 KiB",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
    ],
};

/// The notation of times.
pub const DURATION: Quantity = Quantity {
    name: "time",
    article: "a time",
    example: "10 ms",
    units: &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)],
};

/// The notation of probabilities, in parts per billion, so that `0.0001 %` is exact.
pub const CHANCE: Quantity =
    Quantity { name: "chance", article: "a chance", example: "0.5 %", units: &[("%", 10_000_000)] };

impl Quantity {
    /// Unit names of this quantity.
    pub fn unit_names(&self) -> impl Iterator<Item = &'static str> {
        self.units.iter().map(|(name, _)| *name)
    }

    /// Reads `text` as a number of this quantity's smallest units.
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let text = text.trim();
        let at = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
        let Some(at) = at else {
            return Err(if text.is_empty() { self.number(text) } else { self.bare(text) });
        };
        let (digits, unit) = (&text[..at], text[at..].trim());
        if digits.is_empty() {
            return Err(self.number(text));
        }
        let Some((_, size)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(self.unit(unit));
        };
        decimal(digits, *size).ok_or_else(|| self.number(text))
    }

    #[inline]
    fn bare(&self, text: &str) -> UnitError {
        UnitError::Bare { text: text.to_owned(), example: self.example }
    }

    #[inline]
    fn number(&self, text: &str) -> UnitError {
        UnitError::Number { text: text.to_owned(), kind: self.article, example: self.example }
    }

    #[inline]
    fn unit(&self, unit: &str) -> UnitError {
        let units: Vec<_> = self.units.iter().map(|(name, _)| *name).collect();
        let hint = match unit {
            "kbps" | "Kbps" | "Mbps" | "mbps" | "Gbps" => {
                " (`ps` hides whether bits or bytes are meant)"
            }
            "KB" | "K" | "k" => " (kB is 1,000 bytes, KiB is 1,024)",
            _ => "",
        };
        UnitError::Unit { unit: unit.to_owned(), kind: self.name, units: units.join(", "), hint }
    }

    /// Writes `value` in the largest unit that shows it exactly.
    #[inline]
    fn show(&self, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |size: u64| value >= size && value.is_multiple_of(size);
        let largest =
            self.units.iter().filter(|(_, size)| fits(*size)).max_by_key(|(_, size)| *size);
        let (unit, size) = largest.unwrap_or(&self.units[0]);
        if value.is_multiple_of(*size) {
            return write!(f, "{} {unit}", value / size);
        }
        let digits = format!(
            "{}.{:09}",
            value / size,
            u128::from(value % size) * BILLION / u128::from(*size)
        );
        write!(f, "{} {unit}", digits.trim_end_matches('0'))
    }
}

/// Nine decimal places: the most that [`decimal`] reads.
const BILLION: u128 = 1_000_000_000;

/// The decimal number `digits` times `size`. `None` if the product is no integer or is too large.
#[inline]
fn decimal(digits: &str, size: u64) -> Option<u64> {
    let digits = digits.replace('_', "");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    if whole.is_empty() || (digits.contains('.') && fraction.is_empty()) || fraction.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let scale = 10u64.pow(u32::try_from(fraction.len()).ok()?);
    let part: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let part = u128::from(part) * u128::from(size);
    if !part.is_multiple_of(u128::from(scale)) {
        return None;
    }
    let part = u64::try_from(part / u128::from(scale)).ok()?;
    whole.checked_mul(size)?.checked_add(part)
}

/// The notation of times in files, for `#[serde(with = "units::duration")]`.
pub mod duration {
    use super::{DURATION, Deserializer, Duration, QuantityVisitor, Serializer, UnitError, fmt};

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
}

/// A probability, in parts per billion.
///
/// ```
/// use tidegate_base::Chance;
///
/// let loss: Chance = "0.5 %".parse().unwrap();
/// assert_eq!(loss, Chance::from_ppb(5_000_000));
/// assert!("101 %".parse::<Chance>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Chance(u32);

impl Chance {
    /// The probability 1.
    pub const ALWAYS: Self = Self(1_000_000_000);
    /// The probability 0.
    pub const NEVER: Self = Self(0);

    /// A probability of `ppb` parts per billion, at most one billion.
    #[must_use]
    #[inline]
    pub const fn from_ppb(ppb: u32) -> Self {
        Self(if ppb > 1_000_000_000 { 1_000_000_000 } else { ppb })
    }

    /// The probability in parts per billion.
    #[must_use]
    #[inline]
    pub const fn ppb(self) -> u32 {
        self.0
    }

    /// The probability as a real number from 0 to 1.
    #[must_use]
    #[inline]
    pub fn real(self) -> f64 {
        f64::from(self.0) / 1e9
    }
}

/// `number` as a real number, exact up to 2^53.
#[expect(clippy::as_conversions, reason = "the nearest real is meant")]
#[inline]
pub const fn real(number: u64) -> f64 {
    number as f64
}

macro_rules! written_as {
    ($type:ident, $kind:ident, $from:expr, $to:expr) => {
        impl FromStr for $type {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<Self, UnitError> {
                let value = $kind.parse(text)?;
                $from(value).ok_or_else(|| $kind.number(text))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $kind.show($to(*self), f)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(QuantityVisitor(&$kind)).and_then(|value| {
                    $from(value).ok_or_else(|| serde::de::Error::custom("out of range"))
                })
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    };
}

/// A pure number that is not negative, such as a weight or a share, in millionths.
///
/// ```
/// use tidegate_base::Factor;
///
/// let beta = Factor::from_millionths(700_000);
/// assert_eq!(beta.of(100_000), 70_000);
/// assert_eq!(beta.to_string(), "0.7");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Factor(u64);

impl Factor {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// The factor one.
    pub const ONE: Self = Self(MILLION);

    /// A factor of `millionths / 1,000,000`.
    #[must_use]
    #[inline]
    pub const fn from_millionths(millionths: u64) -> Self {
        Self(millionths)
    }

    /// A factor that is a whole number.
    #[must_use]
    #[inline]
    pub fn whole(number: u32) -> Self {
        Self(u64::from(number) * MILLION)
    }

    /// The factor in millionths.
    #[must_use]
    #[inline]
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// The factor as a real number.
    #[must_use]
    #[inline]
    pub fn real(self) -> f64 {
        real(self.0) / 1e6
    }

    /// The product with `amount`, rounded down.
    #[must_use]
    #[inline]
    pub fn of(self, amount: u64) -> u64 {
        let product = u128::from(amount) * u128::from(self.0);
        u64::try_from(product / u128::from(MILLION)).unwrap_or(u64::MAX)
    }
}

const MILLION: u64 = 1_000_000;

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{}.{:06}", self.0 / MILLION, self.0 % MILLION);
        f.write_str(digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Number;

        impl serde::de::Visitor<'_> for Number {
            type Value = Factor;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 0, with at most six decimal places, such as 0.8")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Factor, E> {
                let wrong = || E::invalid_value(serde::de::Unexpected::Signed(number), &self);
                u64::try_from(number).map_err(|_| wrong()).and_then(|number| self.visit_u64(number))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Factor, E> {
                let wrong = || E::invalid_value(serde::de::Unexpected::Unsigned(number), &self);
                number.checked_mul(MILLION).map(Factor).ok_or_else(wrong)
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Factor, E> {
                // The file contains the shortest decimal that reads back as this number, and
                // `to_string` restores it.
                let wrong = || E::invalid_value(serde::de::Unexpected::Float(number), &self);
                decimal(&number.to_string(), MILLION).map(Factor).ok_or_else(wrong)
            }
        }

        from.deserialize_any(Number)
    }
}

written_as!(Bytes, BYTES, |value| Some(Bytes(value)), |it: Bytes| it.0);
written_as!(Rate, RATE, |value| Some(Rate(value)), |it: Rate| it.0);
written_as!(
    Chance,
    CHANCE,
    |value| u32::try_from(value).ok().filter(|ppb| *ppb <= 1_000_000_000).map(Chance),
    |it: Chance| u64::from(it.0)
);

/// Reads a quantity from a file. The error for a bare number says that its unit is missing.
struct QuantityVisitor(&'static Quantity);

impl serde::de::Visitor<'_> for QuantityVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} such as \"{}\"", self.0.article, self.0.example)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u64, E> {
        self.0.parse(text).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<u64, E> {
        Err(E::custom(self.0.bare(&number.to_string())))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<u64, E> {
        Err(E::custom(self.0.bare(&number.to_string())))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<u64, E> {
        Err(E::custom(self.0.bare(&number.to_string())))
    }
}

impl Add for Bytes {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;

    #[inline]
    fn mul(self, count: u64) -> Self {
        Self(self.0 * count)
    }
}

impl Sub for Bytes {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Bytes {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Sum for Bytes {
    #[inline]
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        Self(all.map(|bytes| bytes.0).sum())
    }
}

#[cfg(test)]
mod tests;
