//! DS codepoints, read by name or number.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A DS codepoint (RFC 2474): 0 to 63.
///
/// ```
/// use tidegate_base::packet::Codepoint;
///
/// let voice: Codepoint = "EF".parse().unwrap();
/// assert_eq!(voice.number(), 46);
/// assert!("64".parse::<Codepoint>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Codepoint(u8);

/// The error for a text that is no DS codepoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a number from 0 to 63, or EF, VA, LE, DF, CS0 to CS7 or AF11 to AF43")]
pub struct NotACodepoint;

impl Codepoint {
    /// The codepoints of assured forwarding with the lowest drop precedence: AF11, AF21, AF31,
    /// AF41.
    ///
    /// Source: RFC 2597, section 6.
    pub const LOW_DROP_PRECEDENCE: [Self; 4] = [Self(10), Self(18), Self(26), Self(34)];

    /// The codepoints of assured forwarding with the highest drop precedence: AF13, AF23, AF33,
    /// AF43.
    ///
    /// Source: RFC 2597, section 6.
    pub const HIGH_DROP_PRECEDENCE: [Self; 4] = [Self(14), Self(22), Self(30), Self(38)];

    /// The codepoint with this number. `None` above [`MOST`](Self::MOST).
    #[must_use]
    #[inline]
    pub const fn new(number: u8) -> Option<Self> {
        if number <= Self::MOST { Some(Self(number)) } else { None }
    }

    /// The largest number of a codepoint.
    pub const MOST: u8 = 63;

    /// The name of the codepoint in lower case, if it has a name.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(_, number)| *number == self.0).map(|(name, _)| *name)
    }

    /// The number of the codepoint.
    #[must_use]
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl FromStr for Codepoint {
    type Err = NotACodepoint;

    /// Reads a name in upper or lower case, or a number.
    fn from_str(text: &str) -> Result<Self, NotACodepoint> {
        let text = text.trim();
        let by_name = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        let digits = || text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok());
        let number = by_name.map(|(_, number)| *number).or_else(|| digits().flatten());
        number.and_then(Self::new).ok_or(NotACodepoint)
    }
}

impl<'de> Deserialize<'de> for Codepoint {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NameOrNumber)
    }
}

struct NameOrNumber;

impl Visitor<'_> for NameOrNumber {
    type Value = Codepoint;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a DS codepoint: {NotACodepoint}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Codepoint, E> {
        text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Codepoint, E> {
        let codepoint = u8::try_from(number).ok().and_then(Codepoint::new);
        codepoint.ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Codepoint, E> {
        let codepoint = u8::try_from(number).ok().and_then(Codepoint::new);
        codepoint.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }
}

/// Names and numbers of codepoints.
///
/// Source: RFC 2474, section 4.2 (DF, CS); RFC 2597, section 6 (AF); RFC 3246, section 2.7 (EF);
/// RFC 5865, section 3 (VA); RFC 8622, section 1.2 (LE).
const NAMES: [(&str, u8); 24] = [
    ("df", 0),
    ("le", 1),
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("va", 44),
    ("ef", 46),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codepoint_is_read_by_name_or_by_number() {
        let numbers = ["EF", "AF11", "cs1", "LE", "DF", "AF43", "63", "0"]
            .map(|text| text.parse::<Codepoint>().unwrap().number());
        assert_eq!(numbers, [46, 10, 8, 1, 0, 38, 63, 0]);
        for text in ["", "64", "+1", "AF14", "AF51", "CS8", "BE"] {
            assert_eq!(text.parse::<Codepoint>(), Err(NotACodepoint), "{text}");
        }
    }

    /// RFC 2597, section 6: codepoint AFxy is 8 x + 2 y. RFC 2474: codepoint CSx is 8 x.
    #[test]
    fn assured_forwarding_codepoints_follow_their_rule() {
        let number = |text: String| text.parse::<Codepoint>().unwrap().number();
        for class in 1..=4u8 {
            for precedence in 1..=3u8 {
                assert_eq!(number(format!("AF{class}{precedence}")), 8 * class + 2 * precedence);
            }
        }
        (0..=7u8).for_each(|class| assert_eq!(number(format!("CS{class}")), 8 * class));
    }

    #[test]
    fn files_give_codepoints_as_names_or_numbers() {
        #[derive(serde::Deserialize)]
        struct File {
            all: Vec<Codepoint>,
        }
        let file: File = toml::from_str("all = [\"af11\", 46]").unwrap();
        assert_eq!(file.all.iter().map(|it| it.number()).collect::<Vec<_>>(), [10, 46]);
        let error = toml::from_str::<File>("all = [64]").err().unwrap().to_string();
        assert!(error.contains("AF11 to AF43"), "{error}");
    }
}
