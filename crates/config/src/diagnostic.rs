//! What is wrong with a file, and where.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;

use crate::code::Code;
use crate::field;

/// A place in the file: bytes from and to.
pub(crate) type Span = Range<usize>;

/// How much it matters.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// It can, but does not do what its author seems to want.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Its stable code.
    pub code: Code,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
    /// Where.
    place: Span,
    /// Another place that has to do with it.
    other: Option<(Span, String)>,
}

impl Diagnostic {
    /// An error at `span`.
    pub(crate) fn error(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            message: message.into(),
            help: code.repair().to_owned(),
            place: span,
            other: None,
        }
    }

    /// An error at `span` whose words end with what to do: "what is wrong; what to do".
    pub(crate) fn worded(code: Code, span: Span, words: &str) -> Self {
        match words.split_once("; ") {
            Some((message, help)) => Self::error(code, span, message).help(help),
            None => Self::error(code, span, words),
        }
    }

    /// A warning at `span`.
    pub(crate) fn warning(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, span, message) }
    }

    /// With another place that has to do with it.
    pub(crate) fn other(mut self, span: Span, text: impl Into<String>) -> Self {
        self.other = Some((span, text.into()));
        self
    }

    /// With what to write instead, where that can be said better than in general.
    pub(crate) fn help(mut self, text: impl Into<String>) -> Self {
        self.help = text.into();
        self
    }
}

/// Everything found in one file.
#[derive(Clone, Debug)]
pub struct Findings {
    path: String,
    text: String,
    list: Vec<Diagnostic>,
}

/// One finding, as data.
#[derive(Clone, Debug, Serialize)]
pub struct Located<'a> {
    code: &'static str,
    severity: Severity,
    file: &'a str,
    /// From 1.
    line: usize,
    /// From 1, in characters.
    column: usize,
    message: &'a str,
    help: &'a str,
    /// The marked text.
    source: &'a str,
    /// The field it stands in, such as `link[2].rate`; empty for the file as a whole.
    field: String,
}

impl Findings {
    /// Nothing yet about `text`, read from `path`.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), list: Vec::new() }
    }

    /// Adds one.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Adds what was found in a file that is written in this one, as the string at `place`.
    pub(crate) fn adopt(&mut self, inner: &Self, place: &Span) {
        let written = &self.text[self.whole(place)];
        // A text with escapes is not there as it is; its findings then point at all of it.
        let offset = written.find(&inner.text).filter(|_| !inner.text.is_empty());
        for found in &inner.list {
            let mut adopted = found.clone();
            if let Some(offset) = offset {
                let shift = |span: &Span| {
                    place.start + offset + span.start..place.start + offset + span.end
                };
                adopted.place = shift(&found.place);
                adopted.other =
                    found.other.as_ref().map(|(span, text)| (shift(span), text.clone()));
            } else {
                let Located { line, column, .. } = inner.locate(found);
                adopted.message = format!("line {line}, column {column}: {}", found.message);
                adopted.place = place.clone();
                adopted.other = None;
            }
            self.push(adopted);
        }
    }

    /// All of them, in the order of the file.
    pub(crate) fn sort(&mut self) {
        self.list.sort_by_key(|found| (found.place.start, found.code.name()));
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Whether the file cannot be used.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|found| found.severity == Severity::Error)
    }

    /// For people, with the places underlined; in colour if `colour`.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let all: Vec<_> = self.list.iter().map(|found| self.show(&renderer, found)).collect();
        all.join("\n\n")
    }

    /// For programs.
    #[must_use]
    pub fn data(&self) -> Vec<Located<'_>> {
        self.list.iter().map(|found| self.locate(found)).collect()
    }

    /// The field `found` stands in, such as `link[2].rate`, counted from 0; empty for the file as a
    /// whole.
    #[must_use]
    pub fn field(&self, found: &Diagnostic) -> String {
        field::path(&self.text, &found.place)
    }

    /// The errors in one: the code of the first, a line for each, and what to do about the first.
    ///
    /// `None` if there are none.
    #[must_use]
    pub fn summary(&self) -> Option<(Code, String, String)> {
        let errors = || self.list.iter().filter(|it| it.severity == Severity::Error);
        let line = |found: &Diagnostic| {
            let Located { file, line, column, message, .. } = self.locate(found);
            format!("{file}:{line}:{column}: {message}")
        };
        let first = errors().next()?;
        let lines: Vec<_> = errors().map(line).collect();
        Some((first.code, lines.join("\n"), first.help.clone()))
    }

    fn show(&self, renderer: &Renderer, found: &Diagnostic) -> String {
        let other = found.other.iter().map(|(span, text)| {
            AnnotationKind::Context.span(self.whole(span)).label(text.as_str())
        });
        let snippet = Snippet::source(self.text.as_str())
            .path(self.path.as_str())
            .annotation(AnnotationKind::Primary.span(self.whole(&found.place)))
            .annotations(other);
        let level = match found.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let group = level
            .primary_title(found.message.as_str())
            .id(found.code.name())
            .element(snippet)
            .element(Level::HELP.message(found.help.as_str()));
        renderer.render(&[group])
    }

    fn locate<'a>(&'a self, found: &'a Diagnostic) -> Located<'a> {
        let span = self.whole(&found.place);
        let before = &self.text[..span.start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Located {
            code: found.code.name(),
            severity: found.severity,
            file: &self.path,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: &found.message,
            help: &found.help,
            source: &self.text[span],
            field: self.field(found),
        }
    }

    /// `span` widened to whole characters within the text.
    fn whole(&self, span: &Span) -> Span {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.ceil_char_boundary(span.end.max(start));
        start..end
    }
}
