//! Descriptions of mechanisms and their parameters, from which schemas and manuals are generated.

use std::fmt;

use super::range::Limits;
use crate::Factor;

/// A mechanism that files can select by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Mechanism {
    /// Name of the mechanism in files.
    pub name: &'static str,
    /// One sentence about the mechanism.
    pub about: &'static str,
    /// The parameters of the mechanism.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Name of the parameter in files.
    pub name: &'static str,
    /// Documentation of the parameter.
    pub about: &'static str,
    /// The default value. `None` if the default cannot be written as a value.
    pub default: Option<Written>,
    /// The notation of its values.
    pub form: Form,
    /// The range of its values.
    pub limits: Limits,
}

/// The notation of a value in files.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A string.
    Text,
    /// A string with a number and one of these units.
    Quantity(Vec<&'static str>),
    /// A whole number between these two, the range of its type.
    Whole(u64, u64),
    /// A number of at least zero, possibly with a fraction.
    Number,
    /// `true` or `false`.
    Flag,
    /// One of some names, listed with a sentence about each.
    Choice(&'static [(&'static str, &'static str)]),
    /// A list.
    List(Box<Self>),
    /// A table with these fields.
    Table(Vec<Parameter>),
    /// The name of one of these mechanisms, or a table with its name and parameters.
    Named(Vec<Mechanism>),
    /// One of several notations.
    Any(Vec<Self>),
}

/// A value in the notation of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// A string.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A number, possibly with a fraction.
    Number(Factor),
    /// `true` or `false`.
    Flag(bool),
    /// A list.
    List(Vec<Self>),
    /// A table.
    Table(Vec<(&'static str, Self)>),
}

impl Written {
    /// The mechanism `name` in the notation of a file: its name, or a table if `changed` has
    /// parameters.
    #[must_use]
    pub fn mechanism(name: &str, changed: Vec<(&'static str, Self)>) -> Self {
        let name = Self::Text(name.to_owned());
        if changed.is_empty() {
            return name;
        }
        Self::Table(std::iter::once(("kind", name)).chain(changed).collect())
    }
}

/// Writes the value in the notation of TOML.
impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(Self::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Table(fields) => {
                let field = |(name, value): &(&str, Self)| format!("{name} = {value}");
                let fields: Vec<_> = fields.iter().map(field).collect();
                write!(f, "{{ {} }}", fields.join(", "))
            }
        }
    }
}
