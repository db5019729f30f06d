//! Classes of the link: their state, the promises to them, and changes of classes.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tidegate_core::policy;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::{Ratio, SchedulerSpec, Term, TermForm, TermValue};
use tidegate_core::units::duration;
use tidegate_core::{Bytes, Chance, Factor, Rate};

pub use tidegate_core::report::{ClassReport as Class, PromiseReport as Promise};
pub use tidegate_core::scheduler::Delays as ClassDelays;

/// The classes that share the link.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Classes {
    /// All classes, once for each direction. Empty if the link has a single queue.
    pub classes: Vec<Class>,
}

/// A class to be added.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewClass {
    /// Its name.
    pub name: String,
    /// The parent class. None for a class directly below the link.
    #[serde(default)]
    pub parent: Option<String>,
    /// The queue of the class. None for the gateway's queue discipline.
    #[serde(default)]
    pub queue: Option<QdiscSpec>,
    /// The terms of the class.
    #[serde(default)]
    pub rights: ClassChange,
}

/// Changes of a class: a field for each term that changes.
///
/// A value may be a table of one value for each direction, if a policy file may write that. A value "none" removes a
/// ceiling, a bound or a ratio.
#[derive(Clone, Debug, Default)]
pub struct ClassChange(pub policy::ClassChange);

impl ClassChange {
    /// The terms that a change can have.
    pub fn terms() -> impl Iterator<Item = Term> {
        SchedulerSpec::all_terms().filter(|term| term.form() != TermForm::Other)
    }
}

/// Written by hand, because the schedulers declare the fields.
impl<'de> Deserialize<'de> for ClassChange {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ChangeVisitor)
    }
}

/// Reads a [`ClassChange`]. Each value is converted before the next field is read, so that the daemon can put the
/// name of the field in front of an error.
struct ChangeVisitor;

impl<'de> Visitor<'de> for ChangeVisitor {
    type Value = ClassChange;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of terms")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<ClassChange, A::Error> {
        let mut change = policy::ClassChange::default();
        let mut seen = BTreeSet::new();
        while let Some(FieldName(term)) = fields.next_key()? {
            if !seen.insert(term) {
                return Err(A::Error::duplicate_field(term.name()));
            }
            change.set(term, fields.next_value_seed(FieldValue(term))?);
        }
        Ok(ClassChange(change))
    }
}

/// The name of a field, which is the name of a term.
struct FieldName(Term);

impl<'de> Deserialize<'de> for FieldName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let found = ClassChange::terms().find(|term| term.name() == name);
        found.map(Self).ok_or_else(|| {
            let names: Vec<_> =
                ClassChange::terms().map(|term| format!("`{}`", term.name())).collect();
            let names = names.join(", ");
            D::Error::custom(format!("unknown field `{name}`, expected one of {names}"))
        })
    }
}

/// Reads the changes of a term, up and down. The value `null` changes nothing.
struct FieldValue(Term);

impl<'de> DeserializeSeed<'de> for FieldValue {
    type Value = [policy::TermChange; 2];

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        match Value::deserialize(from)? {
            Value::Null => Ok([None, None]),
            value => ways(self.0, value).map_err(D::Error::custom),
        }
    }
}

/// The changes of `term`, up and down.
fn ways(term: Term, value: Value) -> Result<[policy::TermChange; 2], String> {
    let read = |value| one(term, value).map_err(|error| error.to_string());
    let mut each = match value {
        Value::Object(each) if term.declaration().each_way => each,
        both => {
            let both = read(both)?;
            return Ok([Some(both.clone()), Some(both)]);
        }
    };
    let [up, down] = ["up", "down"].map(|way| each.remove(way).map(read).transpose());
    match each.keys().next() {
        Some(other) => Err(format!("`{other}` is not a direction: up or down")),
        None => Ok([up?, down?]),
    }
}

/// The new value of `term`. `None` if the change removes it.
fn one(term: Term, value: Value) -> Result<Option<TermValue>, serde_json::Error> {
    if term.declaration().removable && value == "none" {
        return Ok(None);
    }
    Ok(Some(match term.form() {
        TermForm::Rate => Rate::deserialize(value)?.into(),
        TermForm::Bytes => Bytes::deserialize(value)?.into(),
        TermForm::Duration => duration::deserialize(value)?.into(),
        TermForm::Chance => Chance::deserialize(value)?.into(),
        TermForm::Ratio => WrittenRatio::deserialize(value)?.into(),
        TermForm::Whole(..) | TermForm::Other => u32::deserialize(value)?.into(),
    }))
}

/// A ratio: `factor` times the value of the class `of`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRatio {
    of: String,
    factor: Factor,
}

impl From<WrittenRatio> for TermValue {
    fn from(WrittenRatio { of, factor }: WrittenRatio) -> Self {
        Ratio { of, factor }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a request whose second value of a field silently replaces the first value.
    #[test]
    fn a_field_that_is_given_twice_is_refused() {
        let read = |text| serde_json::from_str::<ClassChange>(text).map_err(|it| it.to_string());
        for twice in [r#"{"weight": 2, "weight": 3}"#, r#"{"weight": null, "weight": 3}"#] {
            let said = read(twice).unwrap_err();
            assert!(said.starts_with("duplicate field `weight`"), "{said}");
        }
        let once = read(r#"{"weight": 3, "priority": null}"#).unwrap();
        assert_eq!(once.0, policy::ClassChange::default().with(Term::WEIGHT, 3_u32));
    }
}
