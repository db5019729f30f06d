//! Fields that had another name in earlier versions. A file may use either name; a warning gives
//! the new one.

use serde_json::Value;
use toml::Spanned;
use toml::de::DeTable;

use super::{Field, Read, Table, TableSchema};
use crate::added::Mechanisms;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};

/// Renamed fields: the new name and the earlier name.
pub(super) const RENAMED: [(&str, &str); 1] = [("ack_control", "signal")];

/// The earlier name of the field `key`; `key` itself if the field was never renamed.
fn earlier(key: &'static str) -> &'static str {
    RENAMED.iter().find(|(name, _)| *name == key).map_or(key, |(_, old)| old)
}

/// Replaces earlier names of fields by the new names. A policy with both names keeps both; this is
/// an error.
pub(crate) fn with_new_names(fields: &mut toml::Table) {
    for (name, old) in RENAMED {
        if !fields.contains_key(name)
            && let Some(value) = fields.remove(old)
        {
            fields.insert(name.to_owned(), value);
        }
    }
}

/// An optional field that may be written under its earlier name. The canonical form uses the new
/// name.
#[derive(Clone, Debug)]
pub(crate) struct Renamed<T>(Option<Spanned<T>>);

impl<T> Renamed<T> {
    /// The value.
    pub(crate) const fn get(&self) -> Option<&Spanned<T>> {
        self.0.as_ref()
    }
}

impl<T: Read> Field for Renamed<T> {
    const REQUIRED: bool = false;

    fn take(table: &Table<'_>, key: &'static str, found: &mut Findings) -> Self {
        let old = earlier(key);
        let written = table.entries.get_key_value(key).map(|(name, _)| name.span());
        let as_before = table.entries.get_key_value(old).map(|(name, _)| name.span());
        match (&written, as_before) {
            (Some(place), Some(before)) => {
                let message =
                    format!("`{old}` is the earlier name of `{key}`, which is also written");
                let twice = Diagnostic::error(Code::EarlierName, before, message);
                let help = format!("remove `{old}`");
                found.push(twice.help(help).other(place.clone(), "the same field"));
            }
            (None, Some(before)) => {
                let message = format!("`{old}` is now called `{key}`");
                let help = format!("write `{key}` in place of `{old}`");
                found.push(Diagnostic::warning(Code::EarlierName, before, message).help(help));
            }
            _ => {}
        }
        let name = if written.is_some() { key } else { old };
        Self(Field::take(table, name, found))
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
        if let Some(node) = table.get(key).or_else(|| table.get(earlier(key))) {
            into.insert(key.to_owned(), T::canonical(node, added));
        }
    }

    fn keys(key: &'static str, _: &Mechanisms) -> Vec<&'static str> {
        vec![key, earlier(key)]
    }

    fn has(key: &'static str, name: &str, _: &Mechanisms) -> bool {
        key == name || earlier(key) == name
    }

    fn describe(key: &'static str, doc: &str, into: &mut TableSchema, added: &Mechanisms) {
        <Option<Spanned<T>> as Field>::describe(key, doc, into, added);
        let mut old = T::schema(added);
        old["description"] = format!("Earlier name of `{key}`.").into();
        old["deprecated"] = true.into();
        into.properties.insert(earlier(key).to_owned(), old);
    }
}
