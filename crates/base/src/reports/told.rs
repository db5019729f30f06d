//! The JSON of reports.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Peak, Shown};
use crate::packet::Direction;
use crate::{Bytes, Rate};

/// A struct that [`report!`](crate::report!) declares.
pub trait Report: Default {
    /// Writes the fields to an object.
    ///
    /// # Errors
    ///
    /// If the serializer fails.
    fn tell_fields<M: SerializeMap>(&self, object: &mut M) -> Result<(), M::Error>;

    /// Reads the next value of an object into the field `name`. Returns `false`, and reads nothing,
    /// if there is no such field.
    ///
    /// # Errors
    ///
    /// If the value has another type than the field.
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        object: &mut A,
    ) -> Result<bool, A::Error>;

    /// The metrics and columns, in the order of the declaration.
    fn shown() -> Vec<Shown<Self>>;
}

/// Writes `report` as an object.
///
/// # Errors
///
/// If the serializer fails.
pub fn write<R: Report, S: Serializer>(report: &R, to: S) -> Result<S::Ok, S::Error> {
    let mut object = to.serialize_map(None)?;
    report.tell_fields(&mut object)?;
    object.end()
}

/// Reads an object. Skips fields that the report does not have.
///
/// # Errors
///
/// If the input is no object, or a value has another type than its field.
pub fn read<'de, R: Report, D: Deserializer<'de>>(from: D) -> Result<R, D::Error> {
    from.deserialize_map(ReportVisitor(PhantomData))
}

/// Reads a report.
struct ReportVisitor<R>(PhantomData<R>);

impl<'de, R: Report> Visitor<'de> for ReportVisitor<R> {
    type Value = R;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<R, A::Error> {
        let mut report = R::default();
        while let Some(name) = object.next_key::<String>()? {
            if !report.read_field(&name, &mut object)? {
                object.next_value::<IgnoredAny>()?;
            }
        }
        Ok(report)
    }
}

/// A type with a form in JSON. Quantities become numbers: rates in bit/s, times in microseconds.
pub trait Told: Sized {
    /// Writes the value.
    ///
    /// # Errors
    ///
    /// If the serializer fails.
    fn tell<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// If the text has another form.
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
}

/// Serializes a [`Told`] value.
pub struct Telling<'a, T>(pub &'a T);

impl<T: Told> Serialize for Telling<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.tell(to)
    }
}

/// Deserializes a [`Told`] value.
pub struct Reading<T>(pub T);

impl<'de, T: Told> Deserialize<'de> for Reading<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::read(from).map(Self)
    }
}

impl<T: Told> Told for Option<T> {
    fn tell<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Telling).serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Option::<Reading<T>>::deserialize(from)?.map(|it| it.0))
    }
}

impl<T: Told> Told for Vec<T> {
    fn tell<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(Telling))
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Vec::<Reading<T>>::deserialize(from)?.into_iter().map(|it| it.0).collect())
    }
}

/// Implements [`Told`] by the type's own serialization.
#[macro_export]
macro_rules! told {
    ($($type:ty),+ $(,)?) => {
        $(impl $crate::reports::Told for $type {
            fn tell<S: $crate::parameters::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::parameters::serde::Serialize::serialize(self, to)
            }

            fn read<'de, D: $crate::parameters::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::parameters::serde::Deserialize::deserialize(from)
            }
        })+
    };
}

told!(u8, u16, u32, u64, i64, f64, bool, String, Cow<'static, str>, BTreeMap<String, u64>);

/// Implements [`Told`] for types that become a number.
macro_rules! as_number {
    ($($type:ty: $number:ty, |$it:ident| $written:expr, |$read:ident| $made:expr;)+) => {
        $(impl Told for $type {
            fn tell<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let $it = self;
                Serialize::serialize(&$written, to)
            }

            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let $read = <$number>::deserialize(from)?;
                Ok($made)
            }
        })+
    };
}

as_number! {
    Bytes: u64, |it| it.0, |number| Self(number);
    Rate: u64, |it| it.bps(), |number| Self::from_bps(number);
    Duration: u64, |it| u64::try_from(it.as_micros()).unwrap_or(u64::MAX), |number| Self::from_micros(number);
    Peak: u32, |it| it.0, |number| Self(number);
}

impl Told for Direction {
    fn tell<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let found = Self::BOTH.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| D::Error::custom(format!("`{name}` is not a direction: up or down")))
    }
}
