//! Reads TOML values and keeps their positions in the file. Collects all errors, not only the
//! first.

mod renamed;

use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::added::Mechanisms;
use crate::canonical::verbatim;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};

pub(crate) use renamed::{Renamed, with_new_names};

/// A value with its position in a file.
pub type Node<'a> = Spanned<DeValue<'a>>;

/// A type that can be read from a TOML value.
pub trait Read: Sized {
    /// Reads the value. Errors go to `found`; there is at least one if the result is `None`.
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self>;

    /// The JSON Schema of accepted values. Values may name the mechanisms of other crates in `added`.
    fn schema(added: &Mechanisms) -> Value;

    /// The canonical form of a valid value. All spellings of a value have the same canonical form,
    /// and reading this form gives the same value. By default, returns the value as written.
    fn canonical(node: &Node<'_>, _: &Mechanisms) -> toml::Value {
        verbatim(node)
    }

    /// The canonical form of a list of values. A filter field matches any of them.
    fn canonical_list(nodes: &[Node<'_>], added: &Mechanisms) -> Vec<toml::Value> {
        nodes.iter().map(|node| Self::canonical(node, added)).collect()
    }
}

/// Parses `text` as TOML, and then calls `read`. Does not call it after a syntax error, which would
/// cause further errors.
pub fn document<T>(
    text: &str,
    read: impl FnOnce(&DeTable<'_>, &mut Findings) -> T,
    found: &mut Findings,
) -> Option<T> {
    parse(text, 0, found).map(|document| read(&document, found))
}

/// Parses `text`, which begins at byte `start` of the text that `found` refers to.
pub(crate) fn parse<'a>(text: &'a str, start: usize, found: &mut Findings) -> Option<DeTable<'a>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let span = span.start + start..span.end + start;
        found.push(Diagnostic::error(Code::Syntax, span, format!("not TOML: {}", error.message())));
    }
    errors.is_empty().then(|| document.into_inner())
}

/// The JSON Schema of a whole file, which may name the mechanisms in `added`.
pub fn file_schema<T: Read>(title: &str, added: &Mechanisms) -> Value {
    let mut schema = T::schema(added);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(title);
    schema
}

/// The type of a table's field: required, or an `Option`.
///
/// An invalid field counts as absent, so the other fields are still checked.
pub trait Field: Sized {
    /// `true` if the field is required.
    const REQUIRED: bool;

    /// Takes the field from `table`.
    fn take(table: &Table<'_>, key: &'static str, found: &mut Findings) -> Self;

    /// The JSON Schema of the value.
    fn schema(added: &Mechanisms) -> Value;

    /// Adds the canonical form of a valid field to `into`, if `table` has the field.
    fn canonical(
        table: &DeTable<'_>,
        key: &'static str,
        into: &mut toml::Table,
        added: &Mechanisms,
    );

    /// The names of the field in the table. A group of fields has several.
    fn keys(key: &'static str, _: &Mechanisms) -> Vec<&'static str> {
        vec![key]
    }

    /// Returns `true` if `name` is one of the field's [`keys`](Self::keys).
    fn has(key: &'static str, name: &str, _: &Mechanisms) -> bool {
        key == name
    }

    /// Adds the field to the JSON Schema of its table.
    fn describe(key: &'static str, doc: &str, into: &mut TableSchema, added: &Mechanisms) {
        if Self::REQUIRED {
            into.required.push(key.into());
        }
        into.add(key, doc, Self::schema(added));
    }
}

/// The default value at the end of a description, such as `Default: "10 ms".`. `None` if the
/// default is not a TOML value.
fn default_of(doc: &str) -> Option<Value> {
    let (_, written) = doc.rsplit_once("Default: ")?;
    let field = format!("default = {}", written.strip_suffix('.')?);
    let value = toml::from_str::<toml::Table>(&field).ok()?.remove("default");
    serde_json::to_value(value).ok()
}

/// A JSON Schema of a table, to which fields are added.
#[derive(Default)]
pub struct TableSchema {
    required: Vec<Value>,
    properties: serde_json::Map<String, Value>,
}

impl TableSchema {
    /// Adds the field `key` with the description `doc`.
    pub(crate) fn add(&mut self, key: &str, doc: &str, mut field: Value) {
        field["description"] = doc.into();
        if let Some(default) = default_of(doc) {
            field["default"] = default;
        }
        self.properties.insert(key.to_owned(), field);
    }

    /// The complete schema. `doc` describes the table.
    pub fn finish(self, doc: &str) -> Value {
        json!({
            "type": "object",
            "description": doc,
            "additionalProperties": false,
            "required": self.required,
            "properties": self.properties,
        })
    }
}

/// A set of fields: all fields of a table, or a part of them.
pub trait Fields: Sized {
    /// The names of the fields.
    fn keys(added: &Mechanisms) -> Vec<&'static str>;

    /// Returns `true` if a field has this name.
    fn has(name: &str, added: &Mechanisms) -> bool;

    /// Reads the fields from `table`, which may also have others.
    fn take(table: &Table<'_>, found: &mut Findings) -> Self;

    /// Adds the fields to the JSON Schema of their table.
    fn describe(into: &mut TableSchema, added: &Mechanisms);

    /// Adds the valid fields of `table` to `into`, in canonical form. By default, copies the fields
    /// as written.
    fn canonical(table: &DeTable<'_>, into: &mut toml::Table, added: &Mechanisms) {
        for key in Self::keys(added) {
            into.extend(table.get(key).map(|node| (key.to_owned(), verbatim(node))));
        }
    }
}

/// A group of fields that is part of another table.
#[derive(Clone, Debug)]
pub struct Also<T>(pub T);

impl<T: Fields> Field for Also<T> {
    const REQUIRED: bool = false;

    fn take(table: &Table<'_>, _: &'static str, found: &mut Findings) -> Self {
        Self(T::take(table, found))
    }

    fn schema(added: &Mechanisms) -> Value {
        let mut schema = TableSchema::default();
        T::describe(&mut schema, added);
        schema.finish("")
    }

    fn canonical(table: &DeTable<'_>, _: &'static str, into: &mut toml::Table, added: &Mechanisms) {
        T::canonical(table, into, added);
    }

    fn keys(_: &'static str, added: &Mechanisms) -> Vec<&'static str> {
        T::keys(added)
    }

    fn has(_: &'static str, name: &str, added: &Mechanisms) -> bool {
        T::has(name, added)
    }

    fn describe(_: &'static str, _: &str, into: &mut TableSchema, added: &Mechanisms) {
        T::describe(into, added);
    }
}

/// A required field. If it is empty, an error has already been reported.
#[derive(Clone, Debug)]
pub struct Required<T>(Option<Spanned<T>>);

impl<T> Required<T> {
    /// The value.
    pub const fn get(&self) -> Option<&Spanned<T>> {
        self.0.as_ref()
    }

    /// Takes the value.
    pub fn take(self) -> Option<Spanned<T>> {
        self.0
    }
}

impl<T: Read> Field for Required<T> {
    const REQUIRED: bool = true;

    fn take(table: &Table<'_>, key: &'static str, found: &mut Findings) -> Self {
        if !table.entries.contains_key(key) {
            let message = format!("`{key}` is missing in {}", table.what);
            found.push(Diagnostic::error(Code::MissingField, table.span.clone(), message));
        }
        Self(Field::take(table, key, found))
    }

    fn schema(added: &Mechanisms) -> Value {
        T::schema(added)
    }

    fn canonical(
        table: &DeTable<'_>,
        key: &'static str,
        into: &mut toml::Table,
        added: &Mechanisms,
    ) {
        <Option<Spanned<T>> as Field>::canonical(table, key, into, added);
    }
}

impl<T: Read> Field for Option<Spanned<T>> {
    const REQUIRED: bool = false;

    fn take(table: &Table<'_>, key: &'static str, found: &mut Findings) -> Self {
        let node = table.entries.get(key)?;
        Some(Spanned::new(node.span(), T::read(node, found)?))
    }

    fn schema(added: &Mechanisms) -> Value {
        T::schema(added)
    }

    fn canonical(
        table: &DeTable<'_>,
        key: &'static str,
        into: &mut toml::Table,
        added: &Mechanisms,
    ) {
        if let Some(node) = table.get(key) {
            into.insert(key.to_owned(), T::canonical(node, added));
        }
    }
}

/// A table that is being read.
pub struct Table<'a> {
    entries: &'a DeTable<'a>,
    /// The name of the table in messages.
    what: &'static str,
    /// The byte range that messages about the whole table mark.
    span: Span,
}

impl<'a> Table<'a> {
    /// Opens `node` as a table that messages name `what`.
    pub fn open(node: &'a Node<'a>, what: &'static str, found: &mut Findings) -> Option<Self> {
        let Some(entries) = node.get_ref().as_table() else {
            found.push(wrong_type(node, &format!("a table: {what}")));
            return None;
        };
        Some(Self { entries, what, span: node.span() })
    }

    /// The value of the field `key`.
    pub(crate) fn node(&self, key: &str) -> Option<&'a Node<'a>> {
        self.entries.get(key)
    }

    /// The top-level table of a document.
    pub fn document(entries: &'a DeTable<'a>) -> Self {
        Self { entries, what: "the file", span: 0..0 }
    }

    /// Reads the fields of `T`, and reports all other fields of the table.
    pub fn only<T: Fields>(&self, found: &mut Findings) -> T {
        self.close::<T>(found);
        T::take(self, found)
    }

    /// Reports every field of the table that `T` does not have.
    fn close<T: Fields>(&self, found: &mut Findings) {
        let is_earlier = |name: &&str| renamed::RENAMED.iter().any(|(_, old)| old == name);
        let added = found.added();
        for key in self.entries.keys().filter(|key| !T::has(key.get_ref(), &added)) {
            let offered: Vec<_> =
                T::keys(&added).into_iter().filter(|name| !is_earlier(name)).collect();
            let name = key.get_ref();
            let message = format!("`{name}` is not a field of {}", self.what);
            let help = one_of(name, &offered);
            found.push(Diagnostic::error(Code::UnknownField, key.span(), message).help(help));
        }
    }
}

/// Declares tables of a file. Each declaration defines the struct, its reader, the known names, and
/// the JSON Schema.
#[macro_export]
macro_rules! tables {
    ($($(#[doc = $doc:literal])+ $what:literal $table:ident {
        $($(#[doc = $field_doc:literal])+ $key:literal => $field:ident: $type:ty,)+
    })+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug)]
        pub(crate) struct $table {
            $($(#[doc = $field_doc])+ pub(crate) $field: $type,)+
        }

        impl $crate::read::Fields for $table {
            fn keys(added: &$crate::added::Mechanisms) -> Vec<&'static str> {
                [$(<$type as Field>::keys($key, added)),+].concat()
            }

            fn has(name: &str, added: &$crate::added::Mechanisms) -> bool {
                $(<$type as Field>::has($key, name, added))||+
            }

            fn take(table: &Table<'_>, found: &mut Findings) -> Self {
                Self { $($field: <$type as Field>::take(table, $key, found),)+ }
            }

            fn describe(into: &mut $crate::read::TableSchema, added: &$crate::added::Mechanisms) {
                $(<$type as Field>::describe($key, concat!($($field_doc),+).trim(), into, added);)+
            }

            fn canonical(table: &toml::de::DeTable<'_>, into: &mut toml::Table, added: &$crate::added::Mechanisms) {
                $(<$type as Field>::canonical(table, $key, into, added);)+
            }
        }

        impl Read for $table {
            fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
                Some(Table::open(node, $what, found)?.only(found))
            }

            fn schema(added: &$crate::added::Mechanisms) -> serde_json::Value {
                let mut schema = $crate::read::TableSchema::default();
                <Self as $crate::read::Fields>::describe(&mut schema, added);
                schema.finish(concat!($($doc),+).trim())
            }

            fn canonical(node: &Node<'_>, added: &$crate::added::Mechanisms) -> toml::Value {
                let mut fields = toml::Table::new();
                if let Some(table) = node.get_ref().as_table() {
                    <Self as $crate::read::Fields>::canonical(table, &mut fields, added);
                }
                toml::Value::Table(fields)
            }
        }
    )+};
}
pub use crate::tables;

/// A value, or a list of values that is not empty.
#[derive(Clone, Debug)]
pub struct List<T>(pub Vec<Spanned<T>>);

impl<T: Read> Read for List<T> {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let Some(array) = node.get_ref().as_array() else {
            return Some(Self(vec![Spanned::new(node.span(), T::read(node, found)?)]));
        };
        if array.is_empty() {
            let message = "the list is empty and would match nothing";
            found.push(Diagnostic::error(Code::EmptyList, node.span(), message));
        }
        Some(Self(all(array.iter(), found)))
    }

    fn schema(added: &Mechanisms) -> Value {
        let item = T::schema(added);
        json!({ "anyOf": [item, { "type": "array", "minItems": 1, "items": item }] })
    }

    fn canonical(node: &Node<'_>, added: &Mechanisms) -> toml::Value {
        let mut values = match node.get_ref().as_array() {
            Some(array) => T::canonical_list(array, added),
            None => T::canonical_list(std::slice::from_ref(node), added),
        };
        match values.pop() {
            Some(only) if values.is_empty() => only,
            last => toml::Value::Array(values.into_iter().chain(last).collect()),
        }
    }
}

/// A list in brackets. A single value is not accepted.
#[derive(Clone, Debug)]
pub struct Array<T>(pub Vec<Spanned<T>>);

impl<T: Read> Read for Array<T> {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let Some(array) = node.get_ref().as_array() else {
            let what = "a list; a table in a list has double brackets: [[policy]]";
            found.push(wrong_type(node, what));
            return None;
        };
        Some(Self(all(array.iter(), found)))
    }

    fn schema(added: &Mechanisms) -> Value {
        json!({ "type": "array", "items": T::schema(added) })
    }

    fn canonical(node: &Node<'_>, added: &Mechanisms) -> toml::Value {
        let array = node.get_ref().as_array().into_iter().flat_map(|array| array.iter());
        toml::Value::Array(array.map(|node| T::canonical(node, added)).collect())
    }
}

/// Every valid value. Errors in the invalid values have already been reported.
fn all<'a, T: Read>(
    nodes: impl Iterator<Item = &'a Node<'a>>,
    found: &mut Findings,
) -> Vec<Spanned<T>> {
    nodes.filter_map(|node| Some(Spanned::new(node.span(), T::read(node, found)?))).collect()
}

impl Read for String {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let text = node.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            found.push(wrong_type(node, "a string in quotes"));
        }
        text
    }

    fn schema(_: &Mechanisms) -> Value {
        json!({ "type": "string" })
    }
}

/// A whole number.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub i64);

impl Read for Number {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let number =
            node.get_ref().as_integer().map(|it| i64::from_str_radix(it.as_str(), it.radix()));
        match number {
            Some(Ok(number)) => Some(Self(number)),
            Some(Err(_)) => {
                found.push(Diagnostic::error(
                    Code::OutOfRange,
                    node.span(),
                    "the number is too large: the largest is 9223372036854775807",
                ));
                None
            }
            None => {
                found.push(wrong_type(node, "a whole number without quotes"));
                None
            }
        }
    }

    fn schema(_: &Mechanisms) -> Value {
        json!({ "type": "integer" })
    }
}

/// A value from a fixed set of names.
pub trait Choice: Copy + 'static {
    /// A description of such a value for messages, with an article.
    const WHAT: &str;
    /// The names with their values.
    const CHOICES: &[(&str, Self)];
}

impl<T: Choice> Read for T {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let text = String::read(node, found)?;
        let choice = T::CHOICES.iter().find(|(name, _)| *name == text);
        if choice.is_none() {
            let names: Vec<_> = T::CHOICES.iter().map(|(name, _)| *name).collect();
            found.push(unknown_name(node.span(), &text, T::WHAT, &names));
        }
        choice.map(|(_, value)| *value)
    }

    fn schema(_: &Mechanisms) -> Value {
        let names: Vec<_> = T::CHOICES.iter().map(|(name, _)| *name).collect();
        json!({ "enum": names })
    }
}

/// The error for a `node` of the wrong type. `what` describes the expected value.
pub fn wrong_type(node: &Node<'_>, what: &str) -> Diagnostic {
    let message = format!("expected {what}, found {}", type_name(node.get_ref()));
    Diagnostic::error(Code::WrongType, node.span(), message)
}

/// The error for `name`, which is not in `names`. `what` describes the valid names.
pub fn unknown_name(span: Span, name: &str, what: &str, names: &[&str]) -> Diagnostic {
    let message = format!("`{name}` is not {what}");
    Diagnostic::error(Code::UnknownName, span, message).help(one_of(name, names))
}

/// The help for an unknown `name`: the most similar entry of `names`, and a list of them.
pub fn one_of(name: &str, names: &[&str]) -> String {
    let close = names
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&name.to_lowercase(), known), known))
        .filter(|(distance, known)| *distance <= 1 + known.len() / 5)
        .min_by_key(|(distance, _)| *distance);
    let close = close.map(|(_, known)| known).or_else(|| {
        let meant = USUAL_NAMES.iter().find(|(usual, _)| *usual == name)?.1;
        names.iter().find(|known| **known == meant)
    });
    let mut all = names[..names.len().min(MOST_NAMES)].join(", ");
    if names.len() > MOST_NAMES {
        all += &format!(" and {} more", names.len() - MOST_NAMES);
    }
    match close {
        Some(known) => format!("did you mean `{known}`? there are: {all}"),
        None => format!("there are: {all}"),
    }
}

/// Field names of other programs, such as tc and iptables, each with our name of the same field.
const USUAL_NAMES: [(&str, &str); 14] = [
    ("proto", "protocol"),
    ("sport", "src_port"),
    ("dport", "dst_port"),
    ("saddr", "src"),
    ("daddr", "dst"),
    ("source", "src"),
    ("destination", "dst"),
    ("tos", "dscp"),
    ("vid", "vlan"),
    ("rate", "mean"),
    ("prio", "priority"),
    ("ceil", "ceiling"),
    ("limit", "ceiling"),
    ("share", "weight"),
];

/// Largest number of names in a help text.
const MOST_NAMES: usize = 40;

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
