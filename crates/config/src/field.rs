//! Where in a file's structure a place in its text lies.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::Span;
use crate::read::Node;

/// The path of the field that `span` lies in, such as `link[2].rate`, counted from 0; empty for the
/// file as a whole, and where the text is not TOML.
pub(crate) fn path(text: &str, span: &Span) -> String {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return String::new();
    }
    let mut best = Best { span, length: usize::MAX, path: String::new() };
    best.table(document.get_ref(), "");
    best.path
}

/// Where the field at `path`, such as `link[2].rate`, stands; where it is not written, what it would
/// stand in.
pub(crate) fn place(document: &DeTable<'_>, path: &str) -> Span {
    node(document, path).map_or(0..0, Spanned::span)
}

/// Where `name` stands in the list at `path`; where it does not, the field itself.
pub(crate) fn item(document: &DeTable<'_>, path: &str, name: &str) -> Span {
    let Some(list) = node(document, path) else { return 0..0 };
    let mut items = list.get_ref().as_array().into_iter().flat_map(|it| it.iter());
    let item = items.find(|it| it.get_ref().as_str() == Some(name));
    item.unwrap_or(list).span()
}

/// The table at `path`, and where it stands.
pub(crate) fn table<'a>(document: &'a DeTable<'a>, path: &str) -> Option<(Span, &'a DeTable<'a>)> {
    let node = exact(document, path)?;
    Some((node.span(), node.get_ref().as_table()?))
}

/// The node at `path`, if it is written.
fn exact<'a>(document: &'a DeTable<'a>, path: &str) -> Option<&'a Node<'a>> {
    let mut steps = steps(path);
    let first = document.get(steps.next()?)?;
    steps.try_fold(first, inner)
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[']).map(|step| step.trim_end_matches(']'))
}

fn inner<'a>(node: &'a Node<'a>, step: &str) -> Option<&'a Node<'a>> {
    match node.get_ref() {
        DeValue::Table(table) => table.get(step),
        DeValue::Array(array) => step.parse().ok().and_then(|at: usize| array.get(at)),
        _ => None,
    }
}

/// The node at `path`, or what it would stand in.
fn node<'a>(document: &'a DeTable<'a>, path: &str) -> Option<&'a Node<'a>> {
    let mut steps = steps(path);
    let mut node = document.get(steps.next()?)?;
    while let Some(inner) = steps.next().and_then(|step| inner(node, step)) {
        node = inner;
    }
    Some(node)
}

/// The shortest node so far that holds the whole of `span`. A table that is written in parts spans
/// its header alone, so that no node can be left out because another does not hold the span.
struct Best<'a> {
    span: &'a Span,
    length: usize,
    path: String,
}

impl Best<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &str) {
        for (key, value) in table {
            let name = key.get_ref();
            let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            self.consider(&key.span(), &path);
            self.node(value, &path);
        }
    }

    fn node(&mut self, node: &Node<'_>, path: &str) {
        self.consider(&node.span(), path);
        match node.get_ref() {
            DeValue::Table(table) => self.table(table, path),
            DeValue::Array(array) => {
                for (number, item) in array.iter().enumerate() {
                    self.node(item, &format!("{path}[{number}]"));
                }
            }
            _ => {}
        }
    }

    fn consider(&mut self, node: &Span, path: &str) {
        let holds = node.start <= self.span.start && self.span.end <= node.end;
        // The first of two empty ones, and never the list where one of its tables spans the same.
        if holds && node.len() <= self.length && !self.span.is_empty() {
            self.length = node.len();
            path.clone_into(&mut self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
name = "a"
[run]
duration = "1 s"
[[link]]
from = "x"
back = { rate = "1 Mbit/s", delay = 3 }
[[link]]
to = ["p", "q"]
[link.queue]
kind = "red"
"#;

    /// The path of the first place that says `marked`.
    fn of(marked: &str) -> String {
        let start = FILE.find(marked).unwrap();
        path(FILE, &(start..start + marked.len()))
    }

    /// Kills the mutants that take the first node that holds the place, and that stop at lists.
    #[test]
    fn the_deepest_field_that_holds_the_place_is_named() {
        assert_eq!(of("\"1 s\""), "run.duration");
        assert_eq!(of("3"), "link[0].back.delay");
        assert_eq!(of("\"q\""), "link[1].to[1]");
        assert_eq!(of("\"red\""), "link[1].queue.kind");
        assert_eq!(of("from"), "link[0].from");
        assert_eq!(of("[[link]]"), "link[0]");
        assert_eq!(of("{ rate = \"1 Mbit/s\", delay = 3 }"), "link[0].back");
        assert_eq!(path(FILE, &(0..0)), "");
        assert_eq!(path("[", &(0..1)), "");
    }

    #[test]
    fn a_path_leads_to_its_place_or_as_near_as_there_is() {
        let (document, _) = DeTable::parse_recoverable(FILE);
        let at = |path| &FILE[place(document.get_ref(), path)];
        assert_eq!(at("run.duration"), "\"1 s\"");
        assert_eq!(at("link[1].to[1]"), "\"q\"");
        assert_eq!(at("link[1].queue.kind"), "\"red\"");
        assert_eq!(at("link[1].rate"), "[[link]]");
        assert_eq!(at("traffic[1]"), "");
    }
}
