//! Merges the parts of a policy set: the policy file, the files that it includes, and the sets of
//! its sources.
//!
//! All parts become one document, and all byte ranges refer to one text. So the compiler handles a
//! set in parts like a single file, and its findings still mark the right part.

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::item::{ItemKind, Part};
use crate::read::{self, Node};

/// Appends the policies, classes and trunks of all `others` to `document`, in order. Before the
/// call, `found` refers to the text of `document`; afterwards, to the texts of all parts.
pub(crate) fn merge<'a>(
    document: Option<DeTable<'a>>,
    others: &'a [Part],
    found: &mut Findings,
) -> Option<DeTable<'a>> {
    let others: Vec<_> = others
        .iter()
        .map(|part| {
            let start = found.append(part);
            (start, read::parse(&part.text, start, found))
        })
        .collect();
    let mut document = document?;
    for (start, other) in others {
        add(&mut document, other?, start, found);
    }
    Some(document)
}

/// Appends the items of `other`, whose text begins at byte `start`.
fn add<'a>(document: &mut DeTable<'a>, other: DeTable<'a>, start: usize, found: &mut Findings) {
    let DeValue::Table(other) =
        shifted(Spanned::new(0..0, DeValue::Table(other)), start).into_inner()
    else {
        return;
    };
    for (kind, more) in lists(other, found) {
        match document.get_mut(kind.word()).map(Spanned::get_mut) {
            None => {
                let key = Spanned::new(start..start, kind.word().into());
                document.insert(key, Spanned::new(start..start, DeValue::Array(more)));
            }
            Some(DeValue::Array(all)) => more.into_iter().for_each(|item| all.push(item)),
            // The reader of the whole document reports this field, because its value is not a list.
            Some(_) => {}
        }
    }
}

/// The lists of policies, classes and trunks in `document`. Reports all other fields.
pub(crate) fn lists<'a>(
    document: DeTable<'a>,
    found: &mut Findings,
) -> Vec<(ItemKind, DeArray<'a>)> {
    let mut lists = Vec::new();
    for (key, node) in document {
        let name = key.get_ref();
        let (code, message, help) = match (ItemKind::of_word(name), node.into_inner()) {
            (Some(kind), DeValue::Array(list)) => {
                lists.push((kind, list));
                continue;
            }
            (Some(kind), _) => (
                Code::WrongType,
                format!("`{kind}` is not a list"),
                format!("write it with double brackets: [[{kind}]]"),
            ),
            (None, _) => (
                Code::UnknownField,
                format!("`{name}` is only permitted in the policy file itself"),
                "included files and sources can have only [[policy]], [[class]] and [[trunk]]"
                    .to_owned(),
            ),
        };
        found.push(Diagnostic::error(code, key.span(), message).help(help));
    }
    lists
}

/// Adds `start` to every byte range in `node`.
fn shifted(node: Node<'_>, start: usize) -> Node<'_> {
    let span = moved(&node.span(), start);
    let value = match node.into_inner() {
        DeValue::Array(items) => {
            let items = items.into_iter().map(|item| shifted(item, start));
            DeValue::Array(items.collect::<DeArray<'_>>())
        }
        DeValue::Table(table) => {
            let fields = table.into_iter().map(|(key, value)| {
                let key = Spanned::new(moved(&key.span(), start), key.into_inner());
                (key, shifted(value, start))
            });
            DeValue::Table(fields.collect())
        }
        scalar => scalar,
    };
    Spanned::new(span, value)
}

fn moved(span: &Span, start: usize) -> Span {
    span.start + start..span.end + start
}
