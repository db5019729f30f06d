//! Entries of an LDAP directory, and the comparison of their names.

use std::collections::BTreeMap;

use ldap3::SearchEntry;

use crate::{Fault, FaultKind};

/// An entry of the directory: received from the server, or to be written. The names of its
/// attributes are in lower case, because LDAP ignores case in them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Entry {
    /// The distinguished name.
    pub(super) dn: String,
    /// The values of each attribute.
    pub(super) attributes: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Entry {
    /// A new entry with these object classes, to be written.
    pub(super) fn new(dn: String, classes: &[&str]) -> Self {
        let mut entry = Self { dn, attributes: BTreeMap::new() };
        for class in classes {
            entry.add(OBJECT_CLASS, *class);
        }
        entry
    }

    /// Adds a value of `attribute`.
    pub(super) fn add(&mut self, attribute: &str, value: impl Into<Vec<u8>>) {
        self.attributes.entry(attribute.to_ascii_lowercase()).or_default().push(value.into());
    }

    /// The values of `attribute`; empty if the entry lacks it.
    pub(super) fn values(&self, attribute: &str) -> &[Vec<u8>] {
        self.attributes.get(&attribute.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
    }

    /// Returns `true` if the entry has `attribute`.
    pub(super) fn has(&self, attribute: &str) -> bool {
        !self.values(attribute).is_empty()
    }

    /// Returns `true` if the entry has the object class `class`.
    pub(super) fn is_a(&self, class: &str) -> bool {
        let is = |value: &Vec<u8>| value.eq_ignore_ascii_case(class.as_bytes());
        self.values(OBJECT_CLASS).iter().any(is)
    }

    /// All values of `attribute` as texts.
    pub(super) fn texts(&self, attribute: &str) -> Result<Vec<&str>, Fault> {
        let text = |value| {
            std::str::from_utf8(value).map_err(|_| self.malformed(attribute, "is not text"))
        };
        self.values(attribute).iter().map(|value| text(value)).collect()
    }

    /// The single value of `attribute` as bytes.
    pub(super) fn bytes(&self, attribute: &str) -> Result<Option<&[u8]>, Fault> {
        match self.values(attribute) {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(self.malformed(attribute, "has several values")),
        }
    }

    /// The single value of `attribute` as a text.
    pub(super) fn text(&self, attribute: &str) -> Result<Option<&str>, Fault> {
        self.bytes(attribute)?;
        Ok(self.texts(attribute)?.first().copied())
    }

    /// The single value of `attribute` as a number.
    pub(super) fn integer(&self, attribute: &str) -> Result<Option<i64>, Fault> {
        let Some(text) = self.text(attribute)? else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| self.malformed(attribute, "is not a number"))
    }

    /// The single value of `attribute` as a Boolean, `TRUE` or `FALSE`.
    pub(super) fn boolean(&self, attribute: &str) -> Result<bool, Fault> {
        match self.text(attribute)? {
            None => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("FALSE") => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("TRUE") => Ok(true),
            Some(_) => Err(self.malformed(attribute, "is neither TRUE nor FALSE")),
        }
    }

    /// The fault for a wrong value of `attribute` in this entry. `why` completes the sentence.
    pub(super) fn malformed(&self, attribute: &str, why: &str) -> Fault {
        Fault::new(FaultKind::Malformed, format!("{}: `{attribute}` {why}", self.dn))
    }
}

impl From<SearchEntry> for Entry {
    fn from(entry: SearchEntry) -> Self {
        let texts = entry.attrs.into_iter().map(|(name, values)| {
            (name, values.into_iter().map(String::into_bytes).collect::<Vec<_>>())
        });
        let all = texts.chain(entry.bin_attrs);
        let attributes = all.map(|(name, values)| (name.to_ascii_lowercase(), values)).collect();
        Self { dn: entry.dn, attributes }
    }
}

/// Returns `dn` in a form in which two spellings of one name are equal: in lower case, without
/// spaces around separators.
///
/// Source: RFC 4517, section 4.2.15 (`distinguishedNameMatch`).
/// Differs: escapes are compared literally, so `\,` and `\2C` are different, although both mean a
/// comma. This is enough for names that this program writes.
pub(super) fn key(dn: &str) -> String {
    let part = |part: &str| part.split('=').map(str::trim).collect::<Vec<_>>().join("=");
    dn.split(',').map(part).collect::<Vec<_>>().join(",").to_lowercase()
}

/// The name of the parent of the entry `dn`, or `None` if `dn` has no comma.
pub(super) fn parent(dn: &str) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in dn.char_indices() {
        match c {
            ',' if !escaped => return dn.get(at + 1..),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

/// The attribute that lists the object classes of an entry; RFC 4512, section 3.3.
pub(super) const OBJECT_CLASS: &str = "objectClass";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_equal_without_case_and_spaces() {
        assert_eq!(key("CN = a, OU=b ,dc=C"), key("cn=A,ou=B,dc=c"));
        assert_ne!(key("cn=a,ou=b"), key("cn=a,ou=c"));
    }

    #[test]
    fn an_escaped_comma_does_not_end_a_name() {
        assert_eq!(parent("cn=a\\,b,ou=c,dc=d"), Some("ou=c,dc=d"));
        assert_eq!(parent("dc=d"), None);
    }
}
