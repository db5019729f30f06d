//! The JSON Schema of types with a serde reader, found by offering values to the reader.
//!
//! Mechanisms and TCP declare their parameters once, as the fields of a `Config`. This module
//! offers a value of each type for each field to the reader. The accepted types form the schema.

use std::cell::RefCell;

use serde::Deserializer;
use serde::de::value::{Error, U64Deserializer};
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use tidegate_core::{Bytes, Rate};

use crate::read::Read;
use crate::values::Period;

/// Passes an offer to a reader.
type Ask<'a> = &'a dyn Fn(Offer<'_>);

/// The schema of the reader behind `ask`.
pub(crate) fn schema(ask: Ask<'_>) -> Value {
    within(ask, DEPTH)
}

/// Maximum depth of nested tables.
const DEPTH: u32 = 4;

fn within(ask: Ask<'_>, depth: u32) -> Value {
    let mut forms = leaves(ask);
    if depth > 0 {
        // A reader of a table also accepts a list, but nobody writes that.
        forms.extend(fields(ask, depth).or_else(|| list(ask, depth)));
    }
    match forms.len() {
        0 => json!({}),
        1 => forms.swap_remove(0),
        _ => json!({ "anyOf": forms }),
    }
}

/// The accepted types other than tables and lists.
fn leaves(ask: Ask<'_>) -> Vec<Value> {
    let takes = |leaf: Leaf| answer(ask, &Given::Leaf(leaf)).is_ok_and(|taken| taken);
    let any = |texts: &[&'static str]| texts.iter().any(|text| takes(Leaf::Text(text)));
    if any(&[""]) {
        return vec![json!({ "type": "string" })];
    }
    let mut forms = Vec::new();
    let quantities = [
        (["1 bit/s", "1 Mbit/s"], Rate::schema()),
        (["1 B", "1000 B"], Bytes::schema()),
        (["1 ms", "1 s"], Period::schema()),
        (["1 %", "50 %"], crate::values::quantity_schema("%")),
        (["AF11", "EF"], json!({ "type": "string" })),
    ];
    forms.extend(quantities.into_iter().filter(|(texts, _)| any(texts)).map(|(_, form)| form));
    let names = named(answer(ask, &Given::Leaf(Leaf::Text(""))));
    if !names.is_empty() && takes(Leaf::Text(names[0])) {
        forms.push(json!({ "enum": names }));
    }
    if takes(Leaf::Flag(true)) {
        forms.push(json!({ "type": "boolean" }));
    }
    if takes(Leaf::Real(0.5)) {
        let least = (!takes(Leaf::Real(-0.5))).then_some(0);
        forms.push(ranged("number", least, None));
    } else if [1, 2, 10].into_iter().any(|number| takes(Leaf::Number(number))) {
        let least = (0..=10).find(|number| takes(Leaf::Number(*number)));
        let beyond = (1..=32).map(|bits| 1 << bits).find(|number| !takes(Leaf::Number(*number)));
        let most = beyond.map(|beyond| beyond - 1).filter(|most| takes(Leaf::Number(*most)));
        forms.push(ranged("integer", least, most));
    }
    forms
}

/// An integer from `least` to `most`.
fn ranged(kind: &str, least: Option<u64>, most: Option<u64>) -> Value {
    let mut form = json!({ "type": kind });
    for (keyword, bound) in [("minimum", least), ("maximum", most)] {
        bound.into_iter().for_each(|bound| form[keyword] = json!(bound));
    }
    form
}

/// The accepted table, if any.
fn fields(ask: Ask<'_>, depth: u32) -> Option<Value> {
    let names = named(answer(ask, &Given::Unknown));
    let field = |name: &'static str| {
        let inner = |offer: Offer<'_>| ask(offer.under(name));
        (name.to_owned(), within(&inner, depth - 1))
    };
    let properties: Map<_, _> = names.into_iter().map(field).collect();
    (!properties.is_empty()).then(
        || json!({ "type": "object", "additionalProperties": false, "properties": properties }),
    )
}

/// The accepted list, if any.
fn list(ask: Ask<'_>, depth: u32) -> Option<Value> {
    let inner = |offer: Offer<'_>| ask(offer.listed());
    let items = within(&inner, depth - 1);
    (items != json!({})).then(|| json!({ "type": "array", "items": items }))
}

/// The answer to an offer: `true` if it was accepted, or the error message. `false` if the reader
/// did not look at it.
fn answer(ask: Ask<'_>, given: &Given) -> Result<bool, String> {
    let said = RefCell::new(Ok(false));
    ask(Offer { given, said: &said, path: Vec::new() });
    said.into_inner()
}

/// The names that an error message lists as valid.
fn named(said: Result<bool, String>) -> Vec<&'static str> {
    let text = said.err().unwrap_or_default();
    let unknown = text.starts_with("unknown field") || text.starts_with("unknown variant");
    let listed = text.split_once("expected").filter(|_| unknown).map_or("", |(_, listed)| listed);
    // A process makes a schema once or twice only.
    listed.split('`').skip(1).step_by(2).map(|it| &*it.to_owned().leak()).collect()
}

/// A value that is offered.
enum Given {
    Leaf(Leaf),
    /// A table with an unknown field.
    Unknown,
}

#[derive(Clone, Copy)]
enum Leaf {
    Text(&'static str),
    Number(u64),
    Real(f64),
    Flag(bool),
}

/// An offered value, inside the tables and lists of its path.
pub(crate) struct Offer<'a> {
    given: &'a Given,
    said: &'a RefCell<Result<bool, String>>,
    /// From the inside out; `None` for a list.
    path: Vec<Option<&'static str>>,
}

impl Offer<'_> {
    /// The same offer as the field `name` of a table.
    fn under(mut self, name: &'static str) -> Self {
        self.path.push(Some(name));
        self
    }

    /// The same offer as the only item of a list.
    fn listed(mut self) -> Self {
        self.path.push(None);
        self
    }

    fn give<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let answer = match self.given {
            Given::Leaf(Leaf::Text(text)) => visitor.visit_str(text),
            Given::Leaf(Leaf::Number(number)) => visitor.visit_u64(*number),
            Given::Leaf(Leaf::Real(number)) => visitor.visit_f64(*number),
            Given::Leaf(Leaf::Flag(flag)) => visitor.visit_bool(*flag),
            Given::Unknown => visitor.visit_map(Single(Some(""), None)),
        };
        self.say(answer)
    }

    fn say<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        *self.said.borrow_mut() = answer.as_ref().map(|_| true).map_err(ToString::to_string);
        answer
    }
}

impl<'de> Deserializer<'de> for Offer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        match self.path.pop() {
            None => self.give(visitor),
            Some(Some(name)) => visitor.visit_map(Single(Some(name), Some(self))),
            Some(None) => visitor.visit_seq(Single(None, Some(self))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match (self.path.is_empty(), self.given) {
            (true, Given::Leaf(Leaf::Text(text))) => {
                let answer = visitor.visit_enum((*text).into_deserializer());
                self.say(answer)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// A table with one field, or a list with one item. Without an offer, its value is 0.
struct Single<'a>(Option<&'static str>, Option<Offer<'a>>);

impl<'de> MapAccess<'de> for Single<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let name = self.0.take();
        name.map(|name| seed.deserialize(name.into_deserializer())).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        match self.1.take() {
            Some(offer) => seed.deserialize(offer),
            None => seed.deserialize(U64Deserializer::new(0)),
        }
    }
}

impl<'de> SeqAccess<'de> for Single<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.1.take().map(|offer| seed.deserialize(offer)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use tidegate_core::link::{Jitter, Loss};
    use tidegate_core::packet::Codepoint;
    use tidegate_core::units::Chance;

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Side {
        Left,
        FarRight,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its reader is asked")]
    struct Everything {
        rate: Rate,
        size: Option<Bytes>,
        chance: Chance,
        count: u8,
        factor: f64,
        flag: bool,
        side: Side,
        codepoint: Codepoint,
        inner: Option<Inner>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its reader is asked")]
    struct Inner {
        weights: Vec<u32>,
    }

    fn of<T: for<'de> Deserialize<'de>>() -> Value {
        schema(&|offer| drop(T::deserialize(offer)))
    }

    /// Kills: every offer counted as accepted; the type inside an `Option` not examined.
    #[test]
    fn each_field_has_the_form_its_reader_takes() {
        let schema = of::<Everything>();
        assert_eq!(schema["additionalProperties"], json!(false));
        let field = |name: &str| schema["properties"][name].clone();
        assert_eq!(field("rate"), Rate::schema());
        assert_eq!(field("size"), Bytes::schema());
        assert!(field("chance")["pattern"].as_str().unwrap().contains('%'));
        let count = json!({ "type": "integer", "minimum": 0, "maximum": 255 });
        assert_eq!(field("count"), count);
        assert_eq!(field("factor"), json!({ "type": "number" }));
        assert_eq!(field("flag"), json!({ "type": "boolean" }));
        assert_eq!(field("side"), json!({ "enum": ["left", "far-right"] }));
        let number = json!({ "type": "integer", "minimum": 0, "maximum": 63 });
        let codepoint = json!({ "anyOf": [{ "type": "string" }, number] });
        assert_eq!(field("codepoint"), codepoint);
        let weights = &field("inner")["properties"]["weights"];
        let weight = json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX });
        assert_eq!(*weights, json!({ "type": "array", "items": weight }));
    }

    #[test]
    fn what_has_several_forms_has_all_of_them() {
        let jitter = of::<Jitter>();
        assert_eq!(jitter["anyOf"][0], Period::schema());
        let loss = of::<Loss>();
        let table = &loss["anyOf"][1]["properties"];
        assert!(table["p"]["pattern"].is_string() && table["bad"]["pattern"].is_string(), "{loss}");
    }
}
