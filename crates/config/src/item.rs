//! Documents of several origins, and the single tables in them.

use std::fmt;

use toml::{Table, Value};

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read;

/// A document in TOML, from a file or a repository.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// What messages call it: a path, a key, a DN.
    pub origin: String,
    /// Its text.
    pub text: String,
}

/// One policy, class or trunk, as a repository keeps it.
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

    /// The word for it in files, keys and messages.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Trunk => "trunk",
            Self::Policy => "policy",
        }
    }

    /// The kind with this word.
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
    /// The item as a document of one table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut fields = self.fields.clone();
        fields.insert("name".to_owned(), Value::String(self.name.clone()));
        let list = Value::Array(vec![Value::Table(fields)]);
        Table::from_iter([(self.kind.word().to_owned(), list)]).to_string()
    }
}

/// The policies, classes and trunks of `part`, in its order.
///
/// # Errors
///
/// The findings, if it is not TOML, has other tables, or has an item without a name.
pub fn items(part: &Part) -> Result<Vec<Item>, Findings> {
    let mut found = Findings::new(&part.origin, &part.text);
    read::document(&part.text, |_, _| (), &mut found).ok_or_else(|| found.clone())?;
    let document: Table = toml::from_str(&part.text).map_err(|_| found.clone())?;
    let mut items = Vec::new();
    for (key, value) in document {
        let Some(kind) = ItemKind::of_word(&key) else {
            let message = format!("`{key}` is not part of a repository");
            let help = "a repository holds [[policy]], [[class]] and [[trunk]]";
            found.push(Diagnostic::error(Code::UnknownField, 0..0, message).help(help));
            continue;
        };
        let Value::Array(list) = value else {
            let message = format!("`{key}` is not a list; write [[{key}]]");
            found.push(Diagnostic::error(Code::WrongType, 0..0, message));
            continue;
        };
        for one in list {
            match named(kind, one) {
                Some(item) => items.push(item),
                None => {
                    let message = format!("`name` is missing in a {kind}");
                    found.push(Diagnostic::error(Code::MissingField, 0..0, message));
                }
            }
        }
    }
    if found.has_errors() { Err(found) } else { Ok(items) }
}

fn named(kind: ItemKind, one: Value) -> Option<Item> {
    let Value::Table(mut fields) = one else { return None };
    let Value::String(name) = fields.remove("name")? else { return None };
    Some(Item { kind, name, fields })
}
