//! Distributions of lengths and times, as written in scenario files.

use serde_json::{Value, json};
use tidegate_config::added::Mechanisms;
use toml::Spanned;
use toml::de::DeValue;

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::{
    Field, Fields, Node, Read, Required, Table, TableSchema, unknown_name, wrong_type,
};

/// A constant, or a distribution to draw from.
#[derive(Clone, Debug)]
pub(crate) enum Draw<T> {
    /// A constant value.
    Constant(T),
    /// Uniform between the two values.
    Uniform(Spanned<T>, Spanned<T>),
    /// Exponential with this mean.
    Exponential(Spanned<T>),
    /// Pareto with this mean and shape.
    Pareto(Spanned<T>, Spanned<Real>),
    /// Lognormal with this mean and standard deviation.
    Lognormal(Spanned<T>, Spanned<T>),
    /// Weibull with this mean and shape.
    Weibull(Spanned<T>, Spanned<Real>),
}

/// The names of distributions.
const DRAWS: &[&str] = &["uniform", "exponential", "pareto", "lognormal", "weibull"];

impl<T: Read> Read for Draw<T> {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let Some(table) = node.get_ref().as_table() else {
            return T::read(node, found).map(Self::Constant);
        };
        let mut entries = table.iter();
        let (Some((name, value)), None) = (entries.next(), entries.next()) else {
            let message = "this is neither a quantity nor a distribution";
            let help = "write { exponential = MEAN }, { uniform = [LEAST, MOST] }, { pareto = { mean = MEAN, shape = 2.5 } }, { lognormal = { mean = MEAN, deviation = DEVIATION } } or { weibull = { mean = MEAN, shape = 0.5 } }";
            found.push(Diagnostic::error(Code::BadDraw, node.span(), message).help(help));
            return None;
        };
        let spanned = |node: &Node<'_>, found: &mut Findings| {
            Some(Spanned::new(node.span(), T::read(node, found)?))
        };
        match name.get_ref().as_ref() {
            "exponential" => spanned(value, found).map(Self::Exponential),
            "uniform" => match value.get_ref().as_array().map(|it| it.iter().as_slice()) {
                Some([least, most]) => {
                    let (least, most) = (spanned(least, found), spanned(most, found));
                    Some(Self::Uniform(least?, most?))
                }
                _ => {
                    let message = "a uniform distribution is given by its two ends";
                    let help = "write { uniform = [LEAST, MOST] }";
                    found.push(Diagnostic::error(Code::BadDraw, value.span(), message).help(help));
                    None
                }
            },
            "pareto" => {
                let Pareto { mean, shape } = Table::open(value, "`pareto`", found)?.only(found);
                Some(Self::Pareto(mean.take()?, shape.take()?))
            }
            "lognormal" => {
                let Lognormal { mean, deviation } =
                    Table::open(value, "`lognormal`", found)?.only(found);
                Some(Self::Lognormal(mean.take()?, deviation.take()?))
            }
            "weibull" => {
                let Weibull { mean, shape } = Table::open(value, "`weibull`", found)?.only(found);
                Some(Self::Weibull(mean.take()?, shape.take()?))
            }
            other => {
                found.push(unknown_name(name.span(), other, "a distribution", DRAWS));
                None
            }
        }
    }

    fn schema(added: &Mechanisms) -> Value {
        let item = T::schema(added);
        let (mut pareto, mut lognormal, mut weibull) = Default::default();
        Pareto::<T>::describe(&mut pareto, added);
        Lognormal::<T>::describe(&mut lognormal, added);
        Weibull::<T>::describe(&mut weibull, added);
        json!({ "anyOf": [
            item,
            { "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
              "properties": {
                "uniform": { "type": "array", "items": item, "minItems": 2, "maxItems": 2 },
                "exponential": item,
                "pareto": pareto.finish("By the distribution of Pareto."),
                "lognormal": lognormal.finish("Lognormally."),
                "weibull": weibull.finish("By the distribution of Weibull."),
            } },
        ] })
    }
}

/// A Pareto distribution.
struct Pareto<T> {
    mean: Required<T>,
    shape: Required<Real>,
}

impl<T: Read> Fields for Pareto<T> {
    fn keys(_: &Mechanisms) -> Vec<&'static str> {
        vec!["mean", "shape"]
    }

    fn has(name: &str, added: &Mechanisms) -> bool {
        Self::keys(added).contains(&name)
    }

    fn take(table: &Table<'_>, found: &mut Findings) -> Self {
        Self { mean: Field::take(table, "mean", found), shape: Field::take(table, "shape", found) }
    }

    fn describe(into: &mut TableSchema, added: &Mechanisms) {
        <Required<T> as Field>::describe("mean", "Its mean.", into, added);
        let shape = "Its shape, above 1: the nearer to 1, the heavier its tail.";
        <Required<Real> as Field>::describe("shape", shape, into, added);
    }
}

/// A lognormal distribution.
struct Lognormal<T> {
    mean: Required<T>,
    deviation: Required<T>,
}

impl<T: Read> Fields for Lognormal<T> {
    fn keys(_: &Mechanisms) -> Vec<&'static str> {
        vec!["mean", "deviation"]
    }

    fn has(name: &str, added: &Mechanisms) -> bool {
        Self::keys(added).contains(&name)
    }

    fn take(table: &Table<'_>, found: &mut Findings) -> Self {
        Self {
            mean: Field::take(table, "mean", found),
            deviation: Field::take(table, "deviation", found),
        }
    }

    fn describe(into: &mut TableSchema, added: &Mechanisms) {
        <Required<T> as Field>::describe("mean", "Its mean.", into, added);
        <Required<T> as Field>::describe("deviation", "Its standard deviation.", into, added);
    }
}

/// A Weibull distribution.
struct Weibull<T> {
    mean: Required<T>,
    shape: Required<Real>,
}

impl<T: Read> Fields for Weibull<T> {
    fn keys(_: &Mechanisms) -> Vec<&'static str> {
        vec!["mean", "shape"]
    }

    fn has(name: &str, added: &Mechanisms) -> bool {
        Self::keys(added).contains(&name)
    }

    fn take(table: &Table<'_>, found: &mut Findings) -> Self {
        Self { mean: Field::take(table, "mean", found), shape: Field::take(table, "shape", found) }
    }

    fn describe(into: &mut TableSchema, added: &Mechanisms) {
        <Required<T> as Field>::describe("mean", "Its mean.", into, added);
        let shape = "Its shape, from 0.1: 1 is exponential, less has a heavier tail.";
        <Required<Real> as Field>::describe("shape", shape, into, added);
    }
}

/// A number without a unit. It may have a fraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Real(pub(crate) f64);

impl Read for Real {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let text = match node.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str()),
            DeValue::Float(number) => Some(number.as_str()),
            _ => None,
        };
        let number = text.and_then(|it| it.replace('_', "").parse::<f64>().ok());
        let number = number.filter(|it| it.is_finite());
        if number.is_none() {
            found.push(wrong_type(node, "a number without quotes"));
        }
        number.map(Self)
    }

    fn schema(_: &Mechanisms) -> Value {
        json!({ "type": "number" })
    }
}
