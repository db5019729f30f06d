//! Documents of a policy set, and the single policies, classes and trunks in them.

use std::fmt;

use serde::{Deserialize, Serialize};
use toml::de::ValueDeserializer;
use toml::{Table, Value};

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::Node;
use crate::{parts, read};

/// A TOML document: a file, or a value in a repository.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Part {
    /// Its name in messages: a file path, a key of etcd, or a DN of LDAP.
    pub origin: String,
    /// Its text.
    pub text: String,
}

/// A policy, class or trunk, as a repository stores it.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its kind.
    pub kind: ItemKind,
    /// Its name, unique among the items of its kind.
    pub name: String,
    /// Its fields, without the name.
    pub fields: Table,
}

/// Kinds of items.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ItemKind {
    /// A `[[class]]`.
    Class,
    /// A `[[trunk]]`.
    Trunk,
    /// A `[[policy]]`.
    Policy,
}

impl ItemKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Class, Self::Trunk, Self::Policy];

    /// The name of this kind in files, keys and messages.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Trunk => "trunk",
            Self::Policy => "policy",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for ItemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Item {
    /// The item as a TOML document with a single table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut fields = self.fields.clone();
        fields.insert("name".to_owned(), Value::String(self.name.clone()));
        let list = Value::Array(vec![Value::Table(fields)]);
        Table::from_iter([(self.kind.word().to_owned(), list)]).to_string()
    }
}

/// The policies, classes and trunks of `part`, sorted by kind. Items of one kind are in the order
/// of the text.
///
/// # Errors
///
/// The findings, if the part is not TOML, has other tables, or has an item without a name.
pub fn items(part: &Part) -> Result<Vec<Item>, Findings> {
    let mut found = Findings::new(&part.origin, &part.text);
    let mut items = Vec::new();
    if let Some(document) = read::parse(&part.text, 0, &mut found) {
        let lists = parts::lists(document, &mut found);
        let lists =
            lists.into_iter().flat_map(|(kind, list)| list.into_iter().map(move |it| (kind, it)));
        items.extend(lists.filter_map(|(kind, node)| item(kind, node, &mut found)));
    }
    found.sort();
    if found.has_errors() { Err(found) } else { Ok(items) }
}

/// Converts `node` to an item. Reports an item without a name.
fn item(kind: ItemKind, node: Node<'_>, found: &mut Findings) -> Option<Item> {
    let span = node.span();
    let table = Value::deserialize(ValueDeserializer::from(node));
    let mut fields = table.ok().and_then(|value| match value {
        Value::Table(fields) => Some(fields),
        _ => None,
    });
    let name = fields.as_mut().and_then(|fields| fields.remove("name"));
    if let (Some(mut fields), Some(Value::String(name))) = (fields, name) {
        if kind == ItemKind::Policy {
            read::with_new_names(&mut fields);
        }
        return Some(Item { kind, name, fields });
    }
    let message = format!("`name` is missing in a {kind}");
    found.push(Diagnostic::error(Code::MissingField, span, message));
    None
}
