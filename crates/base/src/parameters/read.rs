//! Reads tables of parameters from files, for the structs that `parameters!` declares.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Unexpected, Visitor};

use super::form::{Mechanism, Parameter, Written};
use super::value::Value;

/// A struct that [`parameters!`](crate::parameters!) declares.
pub trait Declared: Default {
    /// The names of the fields.
    const NAMES: &'static [&'static str];

    /// The field that a file may write alone, as a string in place of the table.
    const NAMED_BY: Option<&'static str> = None;

    /// Descriptions of the fields.
    fn parameters() -> Vec<Parameter>;

    /// Reads the next value of `map` as the field `name`.
    ///
    /// # Errors
    ///
    /// If the value is invalid.
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        name: &'static str,
        map: &mut A,
    ) -> Result<(), A::Error>;

    /// The fields that differ from their defaults, in the notation of files.
    fn changed(&self) -> Vec<(&'static str, Written)>;

    /// Sets the field `name`, which files cannot set. Returns `false` if there is no such field of this type.
    fn set_apart(&mut self, name: &str, value: &dyn std::any::Any) -> bool {
        let _ = (name, value);
        false
    }

    /// Checks the range of each field.
    ///
    /// # Errors
    ///
    /// If a value is out of its range. The text names the field and says what to write.
    fn in_range(&self) -> Result<(), String>;

    /// Checks all fields together.
    ///
    /// # Errors
    ///
    /// If the values contradict each other. The text names a field and says what to write.
    fn check_all(&self) -> Result<(), String>;
}

/// An enum of mechanisms that `registry!` declares.
pub trait Registered: Sized {
    /// The kind of the mechanisms with its article, such as "a queue discipline".
    const WHAT: &'static str;

    /// The names of the mechanisms.
    const NAMES: &'static [&'static str];

    /// The names of the parameters of the mechanism `name`. Empty for an unknown name.
    fn fields(name: &str) -> &'static [&'static str];

    /// Descriptions of the mechanisms and their parameters.
    fn mechanisms() -> Vec<Mechanism>;
}

/// Reads a table of parameters. An absent field gets its default.
pub struct TableReader<T>(PhantomData<T>);

impl<T: Declared> TableReader<T> {
    /// Reads a table from `from`.
    ///
    /// # Errors
    ///
    /// If a field is unknown or invalid, or if the values contradict each other.
    pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        let table = match T::NAMED_BY {
            Some(_) => from.deserialize_any(Self(PhantomData))?,
            None => from.deserialize_struct("", T::NAMES, Self(PhantomData))?,
        };
        table.check_all().map_err(D::Error::custom)?;
        Ok(table)
    }
}

impl<'de, T: Declared> Visitor<'de> for TableReader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<T, E> {
        let wrong = || E::invalid_type(Unexpected::Str(name), &self);
        let field = T::NAMED_BY.ok_or_else(wrong)?;
        self.visit_map(MapDeserializer::new(std::iter::once((field, name))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut table = T::default();
        while let Some(name) = map.next_key_seed(Name(T::NAMES))? {
            table.read_field(name, &mut map)?;
        }
        Ok(table)
    }
}

/// Reads a key and accepts only these names.
struct Name(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<&'static str, D::Error> {
        from.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<&'static str, E> {
        let known = self.0.iter().find(|known| **known == name);
        known.copied().ok_or_else(|| E::unknown_field(name, self.0))
    }
}

/// Reads a string that must be one of `names`.
///
/// # Errors
///
/// If the string is not one of `names`.
pub fn name_of<'de, D: Deserializer<'de>>(
    from: D,
    names: &'static [&'static str],
) -> Result<&'static str, D::Error> {
    struct Choice(&'static [&'static str]);

    impl Visitor<'_> for Choice {
        type Value = &'static str;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "one of {}", self.0.join(", "))
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<&'static str, E> {
            let known = self.0.iter().find(|known| **known == name);
            known.copied().ok_or_else(|| E::unknown_variant(name, self.0))
        }
    }

    from.deserialize_str(Choice(names))
}

/// Reads a value, and checks it with `check`.
pub struct Field<T, F> {
    check: F,
    value: PhantomData<T>,
}

impl<T, F: FnOnce(&T) -> Result<(), String>> Field<T, F> {
    /// A reader that calls `check` for the value.
    pub const fn new(check: F) -> Self {
        Self { check, value: PhantomData }
    }
}

impl<'de, T: Value, F: FnOnce(&T) -> Result<(), String>> DeserializeSeed<'de> for Field<T, F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        let value = T::read(from)?;
        (self.check)(&value).map_err(D::Error::custom)?;
        Ok(value)
    }
}
