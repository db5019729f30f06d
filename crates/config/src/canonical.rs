//! The canonical form of TOML values: one text for all spellings of the same value.
//!
//! Quantities are written in their base unit: `bit/s`, `B` or `ns`; probabilities in `%` with the
//! fewest digits. A mechanism (such as a queue discipline) whose parameters all have their defaults
//! is written as its name.

use serde::de::DeserializeOwned;
use tidegate_core::packet::Codepoint;
use tidegate_core::units::duration;
use tidegate_core::{Bytes, Chance, Rate};
use toml::de::DeValue;
use toml::{Table, Value};

use crate::read::Node;

/// The value as written in the file, without comments and with numbers in decimal.
pub(crate) fn verbatim(node: &Node<'_>) -> Value {
    match node.get_ref() {
        DeValue::String(text) => Value::String(text.as_ref().to_owned()),
        DeValue::Integer(number) => {
            let value = i64::from_str_radix(number.as_str(), number.radix());
            value.map_or_else(|_| Value::String(number.as_str().to_owned()), Value::Integer)
        }
        DeValue::Float(number) => {
            let value = number.as_str().parse();
            value.map_or_else(|_| Value::String(number.as_str().to_owned()), Value::Float)
        }
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(array) => Value::Array(array.iter().map(verbatim).collect()),
        DeValue::Table(table) => {
            let fields = table.iter().map(|(key, value)| {
                let key: &str = key.get_ref();
                (key.to_owned(), verbatim(value))
            });
            Value::Table(fields.collect::<Table>())
        }
    }
}

/// The quantity in `node`, written in its base unit.
pub(crate) fn in_base_unit(node: &Node<'_>) -> Value {
    let quantity = node.get_ref().as_str().and_then(base_unit);
    quantity.map_or_else(|| verbatim(node), Value::String)
}

/// The quantity `text`, written in its base unit. `None` if `text` is not a quantity.
fn base_unit(text: &str) -> Option<String> {
    let rate = || text.parse().ok().map(|rate: Rate| format!("{} bit/s", rate.bps()));
    let size = || text.parse().ok().map(|size: Bytes| format!("{} B", size.0));
    let time = || duration::parse(text).ok().map(|time| format!("{} ns", time.as_nanos()));
    let chance = || text.parse().ok().map(percent);
    rate().or_else(size).or_else(time).or_else(chance)
}

/// A probability in percent, exact, without trailing zeros.
fn percent(chance: Chance) -> String {
    let digits = format!("{}.{:07}", chance.ppb() / PERCENT, chance.ppb() % PERCENT);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// One percent, in parts per billion.
const PERCENT: u32 = 10_000_000;

/// The canonical form of a value of type `T`: a mechanism with its parameters, or a number.
///
/// Replaces a part by its canonical form only if `T` still reads the same value afterwards. So a
/// name that merely looks like a quantity does not change.
pub(crate) fn mechanism<T: DeserializeOwned + PartialEq>(node: &Node<'_>) -> Value {
    mechanism_by(node, |value| T::deserialize(value.clone()).ok())
}

/// Like [`mechanism`], but `read` reads the values.
pub(crate) fn mechanism_by<T: PartialEq>(
    node: &Node<'_>,
    read: impl Fn(&Value) -> Option<T>,
) -> Value {
    let mut whole = verbatim(node);
    let Some(meaning) = read(&whole) else { return whole };
    let mut paths = Vec::new();
    paths_of(&whole, &mut Vec::new(), &mut paths);
    for path in paths {
        for candidate in at(&mut whole, &path).map_or_else(Vec::new, |value| candidates(value)) {
            let mut changed = whole.clone();
            let Some(place) = at(&mut changed, &path) else { continue };
            *place = candidate;
            if read(&changed).is_some_and(|read| read == meaning) {
                whole = changed;
                break;
            }
        }
    }
    whole
}

/// A step into a value.
#[derive(Clone)]
enum Step {
    Field(String),
    Index(usize),
}

/// The paths of all values inside `value`, and of `value` itself; inner ones first.
fn paths_of(value: &Value, here: &mut Vec<Step>, into: &mut Vec<Vec<Step>>) {
    let mut inner = |step, value: &Value| {
        here.push(step);
        paths_of(value, here, into);
        here.pop();
    };
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(key, value)| inner(Step::Field(key.clone()), value));
        }
        Value::Array(array) => {
            array.iter().enumerate().for_each(|(at, value)| inner(Step::Index(at), value));
        }
        _ => {}
    }
    into.push(here.clone());
}

fn at<'a>(whole: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(whole, |value, step| match step {
        Step::Field(key) => value.get_mut(key.as_str()),
        Step::Index(at) => value.get_mut(*at),
    })
}

/// Other spellings of `value`, closer to the canonical form, that may mean the same.
fn candidates(value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) => {
            let codepoint = text.parse().ok().map(|it: Codepoint| Value::from(it.number()));
            base_unit(text).map(Value::String).into_iter().chain(codepoint).collect()
        }
        Value::Float(number) if number.fract() == 0.0 => {
            number.to_string().parse().ok().map(Value::Integer).into_iter().collect()
        }
        Value::Table(table) if table.len() == 1 => table.get("kind").cloned().into_iter().collect(),
        _ => Vec::new(),
    }
}
