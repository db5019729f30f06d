//! Descriptions of parameters: their forms in files, defaults and ranges.

use std::fmt;

use super::range::Limits;
use crate::Factor;

/// A mechanism of a registry.
#[derive(Clone, Debug, PartialEq)]
pub struct Mechanism {
    /// Its name in files.
    pub name: &'static str,
    /// A sentence about it.
    pub about: &'static str,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name in files.
    pub name: &'static str,
    /// Its documentation.
    pub about: &'static str,
    /// Its value if a file does not set it. `None` if no value stands for the default.
    pub default: Option<Written>,
    /// The forms of its values.
    pub form: Form,
    /// Its range.
    pub limits: Limits,
}

/// The forms in which files write a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A string.
    Text,
    /// A number and one of these units, in a string.
    Quantity(Vec<&'static str>),
    /// A whole number within the range of its type.
    Whole(u64, u64),
    /// A number from zero, perhaps with a fraction.
    Number,
    /// `true` or `false`.
    Flag,
    /// One of these names; a sentence about each.
    Choice(&'static [(&'static str, &'static str)]),
    /// A list.
    List(Box<Self>),
    /// A table with these fields.
    Table(Vec<Parameter>),
    /// The name of a mechanism.
    Named(Vec<Mechanism>),
    /// Any of these forms.
    Any(Vec<Self>),
}

/// A value as a file writes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// A string.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A number that may have a fraction.
    Number(Factor),
    /// `true` or `false`.
    Flag(bool),
    /// A list.
    List(Vec<Self>),
    /// A table.
    Table(Vec<(&'static str, Self)>),
}

impl Written {
    /// The mechanism `name`: its name, or a table if any parameters `changed`.
    #[must_use]
    pub fn mechanism(name: &str, changed: Vec<(&'static str, Self)>) -> Self {
        let name = Self::Text(name.to_owned());
        if changed.is_empty() {
            return name;
        }
        Self::Table(std::iter::once(("kind", name)).chain(changed).collect())
    }
}

/// The notation of TOML.
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
