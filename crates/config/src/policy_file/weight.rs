//! The weight of a trunk: a number, the name of a law, or a table with the rate adjuster's
//! parameters.

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_core::Factor;
use tidegate_core::itcp::{Config, Kind, Most};
use tidegate_core::trunk::MOST_WEIGHT;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::canonical;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::{Node, Read, mechanism, mechanism_schema, wrong_type};

/// The rate adjuster of a trunk. Its weight ranges from 1 to [`MOST_WEIGHT`].
#[derive(Clone, Debug)]
pub(crate) struct TrunkWeight(pub(crate) Config);

impl Read for TrunkWeight {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let config = match node.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => fixed(node, found)?,
            DeValue::String(_) => {
                let Config { kind, .. } = mechanism(node, WHAT, KINDS, found)?;
                Config { kind, ..usual() }
            }
            DeValue::Table(table) => {
                let table = DeValue::Table(with_defaults(table));
                mechanism(&Spanned::new(node.span(), table), WHAT, KINDS, found)?
            }
            _ => {
                found.push(wrong_type(node, "a number from 1 to 16, or \"measured\""));
                return None;
            }
        };
        if config.weight < Factor::ONE || config.weight > most() {
            let message = format!("{} is out of range for the weight of a trunk", config.weight);
            let help = format!("it goes from 1 to {MOST_WEIGHT}");
            found.push(Diagnostic::error(Code::OutOfRange, node.span(), message).help(help));
            return None;
        }
        if !matches!(config.most, Most::Constant(most) if most <= MOST_WEIGHT.into()) {
            let message = "routers are not sized for this greatest weight of a trunk";
            let help = format!("write most = {MOST_WEIGHT}, or a smaller number");
            found.push(Diagnostic::error(Code::BadTrunk, node.span(), message).help(help));
            return None;
        }
        Some(Self(config))
    }

    fn schema() -> Value {
        let mut table = mechanism_schema(KINDS, ABOUT, |_, offer| drop(Config::deserialize(offer)));
        let forms = table["anyOf"].as_array_mut().into_iter().flatten();
        for properties in forms.filter_map(|form| form.get_mut("properties")) {
            for (name, about) in PARAMETERS {
                if let Some(property) = properties.get_mut(*name) {
                    property["description"] = json!(about);
                }
            }
            for (name, default) in [("weight", u64::from(INITIAL)), ("most", MOST_WEIGHT.into())] {
                if let Some(property) = properties.get_mut(name) {
                    property["default"] = json!(default);
                }
            }
        }
        let number = json!({ "type": "number", "minimum": 1, "maximum": MOST_WEIGHT });
        json!({ "anyOf": [number, table] })
    }

    fn canonical(node: &Node<'_>) -> toml::Value {
        match node.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => Factor::canonical(node),
            _ => canonical::mechanism::<Config>(node),
        }
    }
}

const WHAT: &str = "a law of weights";

/// The laws for trunks. `literal` is excluded, because it needs the slope of a queue without a
/// bound.
const KINDS: &[&str] = &["fixed", "measured"];

const ABOUT: &[&str] =
    &["The weight does not change.", "The measured load and the measured service rate decide."];

/// Descriptions of the parameters of a table.
const PARAMETERS: &[(&str, &str)] = &[
    ("samples", "Samples of a round. Default: 180."),
    ("every", "Time between two samples, not below the round-trip time. Default: \"500 ms\"."),
    ("weight", "The initial weight, from `least` to `most`. Default: 4."),
    ("least", "The least weight, at least 1. Default: 1."),
    ("most", "The greatest weight, from `least` to 16. Default: 16."),
    ("margin", "The part of the load that the share is to exceed it by, below 1. Default: 0.1."),
    (
        "service",
        "The busy time that the service rate is measured in: all of it, or the samples with the least rates. Default: \"mean\".",
    ),
    ("beta", "The part of the weight that a decrease takes, below 1. Default: 0.2."),
    ("epsilon", "Not used by the laws of trunks."),
    ("low_threshold", "Not used by the laws of trunks."),
    ("high_threshold", "Not used by the laws of trunks."),
    ("max_queue", "Not used by the laws of trunks."),
];

/// A number: a weight that does not change.
fn fixed(node: &Node<'_>, found: &mut Findings) -> Option<Config> {
    match Factor::deserialize(ValueDeserializer::from(node.clone())) {
        Ok(weight) => Some(Config { kind: Kind::Fixed, weight, ..usual() }),
        Err(error) => {
            let message = format!("`weight`: {}", error.message());
            let help = "write a number from 1 to 16, or \"measured\"";
            found.push(Diagnostic::error(Code::OutOfRange, node.span(), message).help(help));
            None
        }
    }
}

/// The default rate adjuster of a trunk.
fn usual() -> Config {
    let most = Most::Constant(MOST_WEIGHT.into());
    Config { weight: Factor::whole(INITIAL), most, ..Config::default() }
}

/// The initial weight: the number of connections of a trunk without a weight.
const INITIAL: u32 = 4;

fn most() -> Factor {
    Factor::whole(MOST_WEIGHT.into())
}

/// Adds the initial and the greatest weight of [`usual`] to `table` if they are missing.
fn with_defaults<'a>(table: &DeTable<'a>) -> DeTable<'a> {
    let mut table = table.clone();
    for (key, value) in DeTable::parse(DEFAULTS).into_iter().flat_map(Spanned::into_inner) {
        table.entry(key).or_insert(value);
    }
    table
}

/// The values of [`usual`] in a table.
const DEFAULTS: &str = "weight = 4\nmost = 16";
