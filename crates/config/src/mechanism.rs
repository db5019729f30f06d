//! Reads mechanisms (queue disciplines, schedulers and so on). A mechanism is written as a name, or
//! as a table with `kind` and parameters.

use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::parameters::Mechanism;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::SchedulerSpec;
use toml::Spanned;
use toml::de::ValueDeserializer;

use crate::added::Extended;
use crate::added::Mechanisms;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::{Node, Read, one_of, unknown_name};
use crate::{canonical, removed, schema};

/// Reads a mechanism of the registry `T`, or one that another crate has added to this registry.
pub(crate) fn registered<T: Extended>(node: &Node<'_>, found: &mut Findings) -> Option<T> {
    let all = found.added();
    let added: Vec<_> = T::added(&all).iter().collect();
    let named = |name: &str| added.iter().find(|it| it.mechanism.name == name);
    let names: Vec<_> =
        T::NAMES.iter().copied().chain(added.iter().map(|it| it.mechanism.name)).collect();
    let fields = |name: &str| named(name).map_or_else(|| T::fields(name), |it| it.fields);
    let read = |name: &str, node: &Node<'_>| match named(name) {
        Some(addition) => addition.read(node),
        None => T::deserialize(ValueDeserializer::from(node.clone())),
    };
    one_mechanism(node, T::WHAT, &names, fields, read, found)
}

/// The mechanisms of the registry `T`, and those that other crates have added to it.
pub(crate) fn mechanisms<T: Extended>(all: &Mechanisms) -> Vec<Mechanism> {
    let added = T::added(all).iter().map(|it| it.mechanism.clone());
    T::mechanisms().into_iter().chain(added).collect()
}

/// The canonical form of a mechanism of the registry `T`, or of one in `all`.
pub(crate) fn canonical_form<T: Extended>(node: &Node<'_>, all: &Mechanisms) -> toml::Value {
    canonical::mechanism_by(node, |value| {
        let kind = value.as_table().map_or(Some(value), |table| table.get("kind"));
        let name = kind.and_then(toml::Value::as_str);
        match T::added(all).iter().find(|it| name == Some(it.mechanism.name)) {
            Some(addition) => addition.read_value(value),
            None => T::deserialize(value.clone()).ok(),
        }
    })
}

/// Reads a mechanism whose name is in `names`. `fields` returns the parameters of the mechanism
/// with a given name.
pub(crate) fn mechanism<T: DeserializeOwned>(
    node: &Node<'_>,
    what: &'static str,
    names: &[&str],
    fields: impl Fn(&str) -> &'static [&'static str],
    found: &mut Findings,
) -> Option<T> {
    let read = |_: &str, node: &Node<'_>| T::deserialize(ValueDeserializer::from(node.clone()));
    one_mechanism(node, what, names, fields, read, found)
}

/// Like [`mechanism`], but the function `read` reads the value. It gets the name and the whole
/// value.
fn one_mechanism<T>(
    node: &Node<'_>,
    what: &'static str,
    names: &[&str],
    fields: impl Fn(&str) -> &'static [&'static str],
    read: impl Fn(&str, &Node<'_>) -> Result<T, toml::de::Error>,
    found: &mut Findings,
) -> Option<T> {
    let table = node.get_ref().as_table();
    let kind = match table {
        Some(table) => table.get("kind"),
        None => Some(node),
    };
    let Some(kind) = kind else {
        let message = format!("`kind` is missing in the table of {what}");
        let help = format!("add kind = \"...\", one of: {}", names.join(", "));
        found.push(Diagnostic::error(Code::MissingField, node.span(), message).help(help));
        return None;
    };
    let name = String::read(kind, found)?;
    if !names.contains(&name.as_str()) {
        found.push(unknown_name(kind.span(), &name, what, names));
        return None;
    }
    if removed::reports(node, &name, found) {
        return None;
    }
    let known = fields(&name);
    let keys = table.into_iter().flat_map(|table| table.keys());
    let unknown =
        keys.filter(|key| key.get_ref() != "kind" && !known.contains(&key.get_ref().as_ref()));
    let unknown: Vec<_> = unknown.map(|key| not_a_parameter(key, &name, known)).collect();
    if !unknown.is_empty() {
        unknown.into_iter().for_each(|finding| found.push(finding));
        return None;
    }
    read(&name, node)
        .map_err(|error| {
            let span = error.span().unwrap_or_else(|| node.span());
            let message = format!("`{name}`: {}", error.message());
            found.push(Diagnostic::error(Code::BadMechanism, span, message));
        })
        .ok()
}

/// The error for the field `key`. The mechanism `name` has only the parameters `known`.
fn not_a_parameter(key: &Spanned<impl AsRef<str>>, name: &str, known: &[&str]) -> Diagnostic {
    let field = key.get_ref().as_ref();
    let message = format!("`{field}` is not a parameter of `{name}`");
    let help = match known {
        [] => format!("write \"{name}\": it has no parameters"),
        known => one_of(field, known),
    };
    Diagnostic::error(Code::BadMechanism, key.span(), message).help(help)
}

/// Implements [`Read`] for registries of mechanisms.
macro_rules! registries {
    ($($registry:ty),+) => {$(
        impl Read for $registry {
            fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
                registered(node, found)
            }

            fn schema(added: &Mechanisms) -> Value {
                schema::mechanisms(&mechanisms::<Self>(added))
            }

            fn canonical(node: &Node<'_>, added: &Mechanisms) -> toml::Value {
                canonical_form::<Self>(node, added)
            }
        }
    )+};
}

registries!(AllocationSpec, MarkingSpec, QdiscSpec, SchedulerSpec);
