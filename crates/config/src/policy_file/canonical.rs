//! The canonical text of a set of policies, classes and trunks.
//!
//! Two sets have the same canonical text if, and only if, they set the same fields to the same
//! values. Items are sorted by kind and name, fields by name, and the values of a filter in
//! ascending order. The text contains only fields that the set writes, not their defaults.

use std::sync::Arc;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::{filter, raw};
use crate::added::Mechanisms;
use crate::diagnostic::Findings;
use crate::item::{ItemKind, Part};
use crate::read::{self, Node, Read, wrong_type};

/// The canonical text of the policies, classes and trunks in `parts`.
///
/// Leaves out other tables, such as `[gateway]`. An item may have a list `roles`. A canonical text
/// does not change if it is made canonical again.
///
/// # Errors
///
/// The findings of the first part with an invalid value. Does not check for contradictions between
/// fields or items.
pub fn canonical(parts: &[Part]) -> Result<String, Findings> {
    canonical_with(parts, &Arc::default())
}

/// Like [`canonical`], for parts that may name mechanisms of other crates, which `added` lists.
///
/// # Errors
///
/// As [`canonical`].
pub fn canonical_with(parts: &[Part], added: &Arc<Mechanisms>) -> Result<String, Findings> {
    let mut items = Vec::new();
    for part in parts {
        let mut found = Findings::with(&part.origin, &part.text, added.clone());
        read::document(
            &part.text,
            |document, found| items_of(document, &mut items, found),
            &mut found,
        );
        if found.has_errors() {
            found.sort();
            return Err(found);
        }
    }
    items.sort();
    let texts: Vec<_> = items.into_iter().map(|(_, _, text)| text).collect();
    Ok(texts.join("\n"))
}

/// The kind, the name and the canonical text of an item.
type Canonical = (ItemKind, String, String);

fn items_of(document: &DeTable<'_>, into: &mut Vec<Canonical>, found: &mut Findings) {
    for kind in ItemKind::ALL {
        let Some(node) = document.get(kind.word()) else { continue };
        let Some(list) = node.get_ref().as_array() else {
            found.push(wrong_type(
                node,
                "a list; a table in a list has double brackets: [[policy]]",
            ));
            continue;
        };
        for node in list.iter() {
            let (node, roles) = apart_from_roles(node, found);
            let fields = match kind {
                ItemKind::Class => fields::<raw::Class>(&node, found),
                ItemKind::Trunk => fields::<raw::Trunk>(&node, found),
                ItemKind::Policy => policy(&node, found),
            };
            into.extend(fields.map(|fields| item(kind, fields, roles)));
        }
    }
}

/// The fields of an item in canonical form; `None` if the item is invalid.
fn fields<T: Read>(node: &Node<'_>, found: &mut Findings) -> Option<Table> {
    T::read(node, found)?;
    match T::canonical(node, &found.added()) {
        Value::Table(fields) => Some(fields),
        _ => None,
    }
}

/// Like [`fields`], for a policy. Also parses its filters and codepoints, which `read` keeps as
/// text.
fn policy(node: &Node<'_>, found: &mut Findings) -> Option<Table> {
    let policy = raw::Policy::read(node, found)?;
    let weights = policy.weights.iter().flat_map(|weights| &weights.get_ref().0);
    let of_weights = weights.filter_map(|weight| weight.get_ref().filter.get());
    for written in policy.filter.iter().chain(of_weights) {
        filter::filter(written.get_ref(), found);
    }
    for mark in policy.mark.iter().map(Spanned::get_ref) {
        for token in mark.in_profile.iter().chain(&mark.out_of_profile) {
            filter::codepoint(token, found);
        }
    }
    fields::<raw::Policy>(node, found)
}

/// Splits `node` into the item without its `roles`, and its roles in sorted order.
fn apart_from_roles<'a>(node: &Node<'a>, found: &mut Findings) -> (Node<'a>, Option<Value>) {
    let DeValue::Table(table) = node.get_ref() else { return (node.clone(), None) };
    let mut table = table.clone();
    let Some(roles) = table.remove(ROLES) else { return (node.clone(), None) };
    let bare = Spanned::new(node.span(), DeValue::Table(table));
    let names = read::Array::<String>::read(&roles, found);
    let mut names: Vec<_> = names.into_iter().flat_map(|names| names.0).collect();
    names.sort_unstable();
    names.dedup();
    let names: Vec<_> = names.into_iter().map(|name| Value::String(name.into_inner())).collect();
    (bare, (!names.is_empty()).then_some(Value::Array(names)))
}

/// The field that lists the roles of gateways to which an item applies.
const ROLES: &str = "roles";

/// The text of an item: its header, its name, and a line for each other field.
fn item(kind: ItemKind, mut fields: Table, roles: Option<Value>) -> Canonical {
    fields.extend(roles.map(|roles| (ROLES.to_owned(), roles)));
    let name = fields.remove("name").unwrap_or_else(|| Value::String(String::new()));
    let mut text = format!("[[{kind}]]\nname = {name}\n");
    for (key, value) in fields.iter().filter(|(_, value)| !is_empty(value)) {
        text += &format!("{key} = {value}\n");
    }
    let name = name.as_str().unwrap_or_default().to_owned();
    (kind, name, text)
}

/// Returns `true` for a table without fields and for an empty list, both of which mean the default.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Table(table) => table.is_empty(),
        Value::Array(array) => array.is_empty(),
        _ => false,
    }
}
