//! Finds the field at a byte range of a TOML file, and the byte range of a field.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::Span;
use crate::read::Node;

/// The byte ranges of all fields of a file.
pub struct Places {
    /// Sorted by first byte. An outer field comes before its inner fields.
    nodes: Vec<FieldPlace>,
}

/// The byte range of one field.
struct FieldPlace {
    span: Span,
    path: String,
    /// Index in `nodes` of the field that encloses this one most closely.
    within: Option<usize>,
}

impl Places {
    /// The fields of `text`; none if `text` is not valid TOML.
    pub fn of(text: &str) -> Self {
        let (document, errors) = DeTable::parse_recoverable(text);
        let mut places = Self { nodes: Vec::new() };
        if errors.is_empty() {
            places.table(document.get_ref(), "");
        }
        places.nest();
        places
    }

    /// The path of the smallest field that contains `span`, such as `link[2].rate` (indexes from
    /// 0). Empty if no field contains it.
    ///
    /// The range of a `[table]` is only its header. The fields below the header are not inside that
    /// range.
    pub fn path(&self, span: &Span) -> String {
        if span.is_empty() {
            return String::new();
        }
        let before = self.nodes.partition_point(|node| node.span.start <= span.start);
        let mut at = before.checked_sub(1);
        while let Some(node) = at.map(|at| &self.nodes[at]) {
            if span.end <= node.span.end {
                return node.path.clone();
            }
            at = node.within;
        }
        String::new()
    }

    fn table(&mut self, table: &DeTable<'_>, path: &str) {
        for (key, value) in table {
            let name = key.get_ref();
            let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            self.add(key.span(), &path);
            self.node(value, &path);
        }
    }

    fn node(&mut self, node: &Node<'_>, path: &str) {
        self.add(node.span(), path);
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

    fn add(&mut self, span: Span, path: &str) {
        self.nodes.push(FieldPlace { span, path: path.to_owned(), within: None });
    }

    /// Sorts the fields by position, and links each field to the one that encloses it.
    fn nest(&mut self) {
        // A field and the only field inside it may have equal ranges. The outer field was added
        // first. The sort is stable, so the outer field stays first.
        self.nodes.sort_by_key(|node| (node.span.start, std::cmp::Reverse(node.span.end)));
        let mut around: Vec<usize> = Vec::new();
        for at in 0..self.nodes.len() {
            let span = self.nodes[at].span.clone();
            while around.last().is_some_and(|last| self.nodes[*last].span.end < span.end) {
                around.pop();
            }
            self.nodes[at].within = around.last().copied();
            around.push(at);
        }
    }
}

/// The byte range of the field at `path`, such as `link[2].rate`. If the file lacks this field,
/// returns the range of the innermost existing table or list on the path.
pub fn place(document: &DeTable<'_>, path: &str) -> Span {
    node(document, path).map_or(0..0, Spanned::span)
}

/// The byte range of the string `name` in the list of strings at `path`. If the list lacks the
/// string, returns the range of the list.
pub fn item(document: &DeTable<'_>, path: &str, name: &str) -> Span {
    let Some(list) = node(document, path) else { return 0..0 };
    let mut items = list.get_ref().as_array().into_iter().flat_map(|it| it.iter());
    let item = items.find(|it| it.get_ref().as_str() == Some(name));
    item.unwrap_or(list).span()
}

/// The table at `path`, with its byte range.
pub fn table<'a>(document: &'a DeTable<'a>, path: &str) -> Option<(Span, &'a DeTable<'a>)> {
    let node = exact(document, path)?;
    Some((node.span(), node.get_ref().as_table()?))
}

/// The node at `path`, if the file has it.
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

/// The node at `path`. If the file lacks it, returns the innermost existing node on the path.
fn node<'a>(document: &'a DeTable<'a>, path: &str) -> Option<&'a Node<'a>> {
    let mut steps = steps(path);
    let mut node = document.get(steps.next()?)?;
    while let Some(inner) = steps.next().and_then(|step| inner(node, step)) {
        node = inner;
    }
    Some(node)
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

    /// The path of the field at the first occurrence of `marked` in [`FILE`].
    fn of(marked: &str) -> String {
        let start = FILE.find(marked).unwrap();
        Places::of(FILE).path(&(start..start + marked.len()))
    }

    /// Catches: the path of the outermost field that contains the place; a search that does not
    /// look into lists.
    #[test]
    fn the_innermost_field_around_a_position_is_named() {
        assert_eq!(of("\"1 s\""), "run.duration");
        assert_eq!(of("3"), "link[0].back.delay");
        assert_eq!(of("\"q\""), "link[1].to[1]");
        assert_eq!(of("\"red\""), "link[1].queue.kind");
        assert_eq!(of("from"), "link[0].from");
        assert_eq!(of("[[link]]"), "link[0]");
        assert_eq!(of("{ rate = \"1 Mbit/s\", delay = 3 }"), "link[0].back");
        assert_eq!(Places::of(FILE).path(&(0..0)), "");
        assert_eq!(Places::of("[").path(&(0..1)), "");
    }

    /// Catches: a search that stops before it reaches the enclosing field, or that returns a
    /// neighbouring field.
    #[test]
    fn every_span_has_the_path_of_the_shortest_enclosing_field() {
        let places = Places::of(FILE);
        for start in 0..FILE.len() {
            for end in start + 1..=FILE.len() {
                let holds = |it: &&FieldPlace| it.span.start <= start && end <= it.span.end;
                let shortest = places.nodes.iter().filter(holds).map(|it| it.span.len()).min();
                let path = places.path(&(start..end));
                let found = places.nodes.iter().filter(holds).filter(|it| it.path == path);
                assert_eq!(found.map(|it| it.span.len()).min(), shortest, "{start}..{end}");
            }
        }
    }

    #[test]
    fn a_missing_path_leads_to_the_innermost_existing_table() {
        let (document, _) = DeTable::parse_recoverable(FILE);
        let at = |path| &FILE[place(document.get_ref(), path)];
        assert_eq!(at("run.duration"), "\"1 s\"");
        assert_eq!(at("link[1].to[1]"), "\"q\"");
        assert_eq!(at("link[1].queue.kind"), "\"red\"");
        assert_eq!(at("link[1].rate"), "[[link]]");
        assert_eq!(at("traffic[1]"), "");
    }
}
