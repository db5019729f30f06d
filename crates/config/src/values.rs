//! Types of values that all kinds of files use: quantities with units, and mechanisms.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_core::itcp;
use tidegate_core::link::{Jitter, Loss};
use tidegate_core::parameters::{Declared, Value as _};
use tidegate_core::units::{self, UnitError};
use tidegate_core::{Bytes, Chance, Factor, Rate};
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use crate::added::Mechanisms;
use crate::canonical::{self, in_base_unit};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::mechanism::mechanism;
use crate::read::{Node, Number, Read, wrong_type};
use crate::schema;

/// A duration.
#[derive(Clone, Copy, Debug)]
pub struct Period(pub Duration);

/// Reads a quantity with `parse`. If the value is not a string, the error shows `example`.
fn quantity<T>(
    node: &Node<'_>,
    example: &str,
    parse: impl FnOnce(&str) -> Result<T, UnitError>,
    found: &mut Findings,
) -> Option<T> {
    let number = match node.get_ref() {
        DeValue::Integer(number) => Some(number.as_str()),
        DeValue::Float(number) => Some(number.as_str()),
        _ => None,
    };
    let Some(text) = node.get_ref().as_str().or(number) else {
        found.push(wrong_type(node, &format!("a string such as \"{example}\"")));
        return None;
    };
    let wrong = |error: UnitError| {
        let code = match error {
            UnitError::Bare { .. } => Code::NoUnit,
            UnitError::Unit { .. } => Code::UnknownUnit,
            _ => Code::NotAQuantity,
        };
        found.push(Diagnostic::worded(code, node.span(), &error.to_string()));
    };
    parse(text).map_err(wrong).ok()
}

impl Read for Rate {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        quantity(node, "20 Mbit/s", str::parse, found)
    }

    fn schema(_: &Mechanisms) -> Value {
        schema::quantity("bit/s|kbit/s|Mbit/s|Gbit/s|Tbit/s")
    }

    fn canonical(node: &Node<'_>, _: &Mechanisms) -> toml::Value {
        in_base_unit(node)
    }
}

impl Read for Bytes {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        quantity(node, "64 KiB", str::parse, found)
    }

    fn schema(_: &Mechanisms) -> Value {
        schema::quantity("B|kB|KiB|MB|MiB|GB|GiB")
    }

    fn canonical(node: &Node<'_>, _: &Mechanisms) -> toml::Value {
        in_base_unit(node)
    }
}

impl Read for Chance {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        quantity(node, "1 %", str::parse, found)
    }

    fn schema(_: &Mechanisms) -> Value {
        schema::quantity("%")
    }

    fn canonical(node: &Node<'_>, _: &Mechanisms) -> toml::Value {
        in_base_unit(node)
    }
}

impl Read for Factor {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let read = Self::deserialize(ValueDeserializer::from(node.clone()));
        let wrong = |_| found.push(wrong_type(node, "a number such as 0.5"));
        read.map_err(wrong).ok()
    }

    fn schema(_: &Mechanisms) -> Value {
        json!({ "type": "number", "minimum": 0 })
    }

    fn canonical(node: &Node<'_>, _: &Mechanisms) -> toml::Value {
        canonical::mechanism::<Self>(node)
    }
}

impl Read for Period {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        quantity(node, "10 ms", units::duration::parse, found).map(Self)
    }

    fn schema(_: &Mechanisms) -> Value {
        schema::quantity("ns|us|ms|s")
    }

    fn canonical(node: &Node<'_>, _: &Mechanisms) -> toml::Value {
        in_base_unit(node)
    }
}

/// The rate adjuster of an aggregate connection.
#[derive(Clone, Debug)]
pub struct Weight(pub itcp::Config);

impl Read for Weight {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let fields = |_: &str| itcp::Config::NAMES;
        mechanism(node, "a rate adjuster", itcp::LawKind::NAMES, fields, found).map(Self)
    }

    fn schema(_: &Mechanisms) -> Value {
        schema::mechanisms(&itcp::mechanisms())
    }
}

/// A Boolean.
#[derive(Clone, Copy, Debug)]
pub struct Flag(pub bool);

impl Read for Flag {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let flag = node.get_ref().as_bool().map(Self);
        if flag.is_none() {
            found.push(wrong_type(node, "true or false"));
        }
        flag
    }

    fn schema(_: &Mechanisms) -> Value {
        json!({ "type": "boolean" })
    }
}

/// Reads a type through its own deserializer, from a string or a table.
fn described<T: DeserializeOwned>(node: &Node<'_>, found: &mut Findings) -> Option<T> {
    T::deserialize(ValueDeserializer::from(node.clone()))
        .map_err(|error| {
            let span = error.span().unwrap_or_else(|| node.span());
            let code = match node.get_ref() {
                DeValue::String(_) => Code::NotAQuantity,
                DeValue::Table(_) => Code::BadMechanism,
                _ => Code::WrongType,
            };
            found.push(Diagnostic::error(code, span, error.message()));
        })
        .ok()
}

impl Read for Jitter {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        described(node, found)
    }

    fn schema(_: &Mechanisms) -> Value {
        schema::of(&Self::form())
    }
}

impl Read for Loss {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        described(node, found)
    }

    fn schema(_: &Mechanisms) -> Value {
        schema::of(&Self::form())
    }
}

/// Returns `number` if it is within `range`.
pub fn number<T: TryFrom<i64> + PartialOrd + fmt::Display>(
    number: &Spanned<Number>,
    name: &str,
    range: RangeInclusive<T>,
    found: &mut Findings,
) -> Option<T> {
    let Number(value) = *number.get_ref();
    let fits = T::try_from(value).ok().filter(|value| range.contains(value));
    if fits.is_none() {
        let message = format!("{value} is out of range for `{name}`");
        let help = format!("it goes from {} to {}", range.start(), range.end());
        found.push(Diagnostic::error(Code::OutOfRange, number.span(), message).help(help));
    }
    fits
}
