//! Checks the names in a table against the declared parameters, before the table is read.

use tidegate_core::parameters::{Form, Mechanism, Parameter};
use toml::de::{DeTable, DeValue};

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::read::{Node, one_of};

/// Reports fields of `table` that are not declared in `parameters`, and unknown names in their
/// values. Returns `true` if all names are known.
pub(crate) fn names(table: &DeTable<'_>, parameters: &[Parameter], found: &mut Findings) -> bool {
    fields(table, parameters, &[], found)
}

/// Like [`names`], but also accepts the field names in `more`.
fn fields(
    table: &DeTable<'_>,
    parameters: &[Parameter],
    more: &[&str],
    found: &mut Findings,
) -> bool {
    let mut known = true;
    for (key, value) in table {
        let name: &str = key.get_ref();
        if let Some(parameter) = parameters.iter().find(|it| it.name == name) {
            known &= value_of(value, &parameter.form, found);
        } else if !more.contains(&name) {
            let names: Vec<_> = parameters.iter().map(|it| it.name).collect();
            let message = format!("`{name}` is not a field here");
            let wrong = Diagnostic::error(Code::UnknownField, key.span(), message);
            found.push(wrong.help(one_of(name, &names)));
            known = false;
        }
    }
    known
}

/// Checks the names inside a value. `form` is the declared form of this value.
fn value_of(node: &Node<'_>, form: &Form, found: &mut Findings) -> bool {
    match (form, node.get_ref()) {
        (Form::Choice(names), DeValue::String(text)) => {
            let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
            is_known(text, node.span(), &names, found)
        }
        (Form::Named(mechanisms), DeValue::String(text)) => {
            is_known(text, node.span(), &names_of(mechanisms), found)
        }
        (Form::Named(mechanisms), DeValue::Table(table)) => {
            let Some(kind) = table.get("kind") else { return true };
            let Some(name) = kind.get_ref().as_str() else { return true };
            match mechanisms.iter().find(|it| it.name == name) {
                Some(mechanism) => fields(table, &mechanism.parameters, &["kind"], found),
                None => is_known(name, kind.span(), &names_of(mechanisms), found),
            }
        }
        (Form::Table(parameters), DeValue::Table(table)) => names(table, parameters, found),
        _ => true,
    }
}

fn names_of(mechanisms: &[Mechanism]) -> Vec<&'static str> {
    mechanisms.iter().map(|it| it.name).collect()
}

fn is_known(name: &str, span: Span, names: &[&str], found: &mut Findings) -> bool {
    let known = names.contains(&name);
    if !known {
        let message = format!("`{name}` is not a valid name here");
        let wrong = Diagnostic::error(Code::UnknownName, span, message);
        found.push(wrong.help(one_of(name, names)));
    }
    known
}
