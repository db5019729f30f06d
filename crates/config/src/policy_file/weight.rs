//! The weight of a trunk: a number, the name of a rule, or a table with the parameters of a rate
//! adjuster. Competing trunks share a path by their weights.

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_core::Factor;
use tidegate_core::itcp::{self, Config, LawKind, Most};
use tidegate_core::parameters::{Declared, Form, Value as _};
use tidegate_core::trunk::MOST_WEIGHT;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::added::Mechanisms;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::mechanism::mechanism;
use crate::read::{Node, Read, wrong_type};
use crate::{canonical, schema};

/// The rate adjuster of a trunk. The weight is between 1 and [`MOST_WEIGHT`].
#[derive(Clone, Debug)]
pub(crate) struct TrunkWeight(pub(crate) Config);

impl Read for TrunkWeight {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let fields = |_: &str| Config::NAMES;
        let config = match node.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => fixed(node, found)?,
            DeValue::String(_) => {
                let Config { kind, .. } = mechanism(node, WHAT, KINDS, fields, found)?;
                Config { kind, ..usual() }
            }
            DeValue::Table(table) => {
                let table = DeValue::Table(with_defaults(table));
                mechanism(&Spanned::new(node.span(), table), WHAT, KINDS, fields, found)?
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

    fn schema(_: &Mechanisms) -> Value {
        let mut laws = itcp::mechanisms();
        laws.retain(|law| KINDS.contains(&law.name));
        for parameter in laws.iter_mut().flat_map(|law| &mut law.parameters) {
            match parameter.name {
                "weight" => {
                    parameter.default = usual().weight.written();
                    parameter.limits.most = most().written();
                }
                "most" => {
                    parameter.default = usual().most.written();
                    parameter.about = "The greatest weight.";
                    parameter.form = Form::Whole(1, MOST_WEIGHT.into());
                }
                _ => {}
            }
        }
        let table = schema::mechanisms(&laws);
        let number = json!({ "type": "number", "minimum": 1, "maximum": MOST_WEIGHT });
        json!({ "anyOf": [number, table] })
    }

    fn canonical(node: &Node<'_>, added: &Mechanisms) -> toml::Value {
        match node.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => Factor::canonical(node, added),
            _ => canonical::mechanism::<Config>(node),
        }
    }
}

const WHAT: &str = "a law of weights";

/// The rules for trunks. The rule `literal` is missing, because it needs the slope of a queue
/// without a limit.
const KINDS: &[&str] = &["fixed", "measured"];

/// A rate adjuster that keeps the weight at the number in `node`.
fn fixed(node: &Node<'_>, found: &mut Findings) -> Option<Config> {
    match Factor::deserialize(ValueDeserializer::from(node.clone())) {
        Ok(weight) => Some(Config { kind: LawKind::Fixed, weight, ..usual() }),
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

/// Adds the initial weight and the largest weight of [`usual`] to `table` if they are missing.
fn with_defaults<'a>(table: &DeTable<'a>) -> DeTable<'a> {
    let mut table = table.clone();
    for (key, value) in DeTable::parse(DEFAULTS).into_iter().flat_map(Spanned::into_inner) {
        table.entry(key).or_insert(value);
    }
    table
}

/// The same values as in [`usual`], as TOML.
const DEFAULTS: &str = "weight = 4\nmost = 16";
