//! Findings about a file: errors and warnings, with the places that they mark.

use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;

use crate::added::Mechanisms;
use crate::code::Code;
use crate::field::Places;
use crate::item::Part;

/// A byte range in the file.
pub type Span = Range<usize>;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file is unusable.
    Error,
    /// The file is usable, but probably does not do what its author wants.
    Warning,
}

/// One finding.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Its stable code.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
    /// The marked text, as a byte range.
    place: Span,
    /// A second place that matters, with a note about it.
    other: Option<(Span, String)>,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            message: message.into(),
            help: code.repair().to_owned(),
            place: span,
            other: None,
        }
    }

    /// An error at `span`. `words` has the form "problem; correction". The correction may be
    /// missing.
    pub fn worded(code: Code, span: Span, words: &str) -> Self {
        match words.split_once("; ") {
            Some((message, help)) => Self::error(code, span, message).help(help),
            None => Self::error(code, span, words),
        }
    }

    /// A warning at `span`.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, span, message) }
    }

    /// Adds a related place.
    pub fn other(mut self, span: Span, text: impl Into<String>) -> Self {
        self.other = Some((span, text.into()));
        self
    }

    /// Sets a correction that is more specific than that of the code.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = text.into();
        self
    }
}

/// All findings about a file, or about the parts of a policy set.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The texts of all parts, separated by line breaks.
    text: String,
    /// The parts, in the order of the text; at least one.
    parts: Vec<Origin>,
    list: Vec<Diagnostic>,
    /// Mechanisms of other crates that the files may name.
    added: Arc<Mechanisms>,
}

/// The origin of a part of the text.
#[derive(Clone, Debug)]
struct Origin {
    /// The name of the part in messages.
    path: String,
    /// Offset of the part's first byte in the text, which is the start of a line.
    start: usize,
}

/// One finding, with its place as line and column.
#[derive(Clone, Debug, Serialize)]
pub struct Located<'a> {
    code: &'static str,
    severity: Severity,
    file: &'a str,
    /// Counted from 1.
    line: usize,
    /// Counted from 1, in characters.
    column: usize,
    message: &'a str,
    help: &'a str,
    /// The marked text of the file.
    source: &'a str,
    /// The field at the place, such as `link[2].rate`; empty for the whole file.
    field: String,
}

impl Findings {
    /// No findings yet about `text`, read from `path`.
    pub fn new(path: &str, text: &str) -> Self {
        let only = Origin { path: path.to_owned(), start: 0 };
        Self { text: text.to_owned(), parts: vec![only], list: Vec::new(), added: Arc::default() }
    }

    /// Like `new`, for a file that may name mechanisms of other crates, which `added` lists.
    #[must_use]
    pub fn with(path: &str, text: &str, added: Arc<Mechanisms>) -> Self {
        Self { added, ..Self::new(path, text) }
    }

    /// Mechanisms of other crates that the files may name.
    pub(crate) fn added(&self) -> Arc<Mechanisms> {
        self.added.clone()
    }

    /// Adds the text of a further part. Returns the offset of its first byte.
    pub fn append(&mut self, part: &Part) -> usize {
        self.text.push('\n');
        let start = self.text.len();
        self.text.push_str(&part.text);
        self.parts.push(Origin { path: part.origin.clone(), start });
        start
    }

    /// Adds a finding.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Adds the findings about a file that is embedded in this file as the string at `place`.
    pub fn adopt(&mut self, inner: &Self, place: &Span) {
        let written = &self.text[self.whole(place)];
        // If the string has escapes, its text differs from the embedded file. Findings then mark
        // the whole string.
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
                let (line, column) = inner.lines().at(inner.whole(&found.place).start);
                adopted.message = format!("line {line}, column {column}: {}", found.message);
                adopted.place = place.clone();
                adopted.other = None;
            }
            self.push(adopted);
        }
    }

    /// Sorts the findings by their places in the file.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|found| (found.place.start, found.code.name()));
    }

    /// All findings.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Returns `true` if there is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|found| found.severity == Severity::Error)
    }

    /// Renders the findings for people, with underlined places. `colour` adds colours.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let lines = self.lines();
        let show = |found| self.show(&renderer, &lines, found);
        let all: Vec<_> = self.list.iter().map(show).collect();
        all.join("\n\n")
    }

    /// All findings, with their places as line and column.
    #[must_use]
    pub fn data(&self) -> Vec<Located<'_>> {
        let (lines, places) = (self.lines(), self.places());
        self.list.iter().map(|found| self.locate(&lines, &places, found)).collect()
    }

    /// For each finding, the path of the marked field, such as `link[2].rate` (indexes from
    /// 0). Empty if a finding marks the whole file.
    #[must_use]
    pub fn fields(&self) -> Vec<String> {
        let places = self.places();
        self.list.iter().map(|found| self.field(&places, &found.place)).collect()
    }

    /// The positions of all fields, part by part.
    fn places(&self) -> Vec<Places> {
        let texts = (0..self.parts.len()).map(|part| &self.text[self.range(part)]);
        texts.map(Places::of).collect()
    }

    /// The path of the field at `span`, within its part.
    fn field(&self, places: &[Places], span: &Span) -> String {
        let part = self.part(span.start);
        let start = self.parts[part].start;
        places[part].path(&(span.start - start..span.end.max(span.start) - start))
    }

    /// Index of the part that contains byte `at`.
    fn part(&self, at: usize) -> usize {
        self.parts.partition_point(|part| part.start <= at).saturating_sub(1)
    }

    /// The bytes of a part.
    fn range(&self, part: usize) -> Span {
        let next = self.parts.get(part + 1).map(|next| next.start - 1);
        self.parts[part].start..next.unwrap_or(self.text.len())
    }

    /// Combines all errors into one: code and correction of the first error, and a line for each
    /// error. `None` if there are no errors.
    #[must_use]
    pub fn summary(&self) -> Option<(Code, String, String)> {
        let errors = || self.list.iter().filter(|it| it.severity == Severity::Error);
        let lines = self.lines();
        let place = |span: &Span| {
            let (path, line, column) = self.at(&lines, self.whole(span).start);
            format!("{path}:{line}:{column}")
        };
        let line = |found: &Diagnostic| {
            let elsewhere =
                |(span, _): &&(Span, String)| self.part(span.start) != self.part(found.place.start);
            let other = found.other.as_ref().filter(elsewhere);
            let other = other.map(|(span, text)| format!(" ({text}: {})", place(span)));
            format!("{}: {}{}", place(&found.place), found.message, other.unwrap_or_default())
        };
        let first = errors().next()?;
        let lines: Vec<_> = errors().map(line).collect();
        Some((first.code, lines.join("\n"), first.help.clone()))
    }

    /// All warnings. Each is a line with position, code, problem and correction.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let lines = self.lines();
        let warnings = self.list.iter().filter(|it| it.severity == Severity::Warning);
        let line = |found: &Diagnostic| {
            let (path, line, column) = self.at(&lines, self.whole(&found.place).start);
            let Diagnostic { code, message, help, .. } = found;
            format!("{path}:{line}:{column}: {}: {message}; {help}", code.name())
        };
        warnings.map(line).collect()
    }

    /// Path, line and column of the character at byte `at`. Line and column count from 1 within the
    /// part.
    fn at(&self, lines: &Lines<'_>, at: usize) -> (&str, usize, usize) {
        let part = &self.parts[self.part(at)];
        let ((line, column), (first, _)) = (lines.at(at), lines.at(part.start));
        (&part.path, line - first + 1, column)
    }

    fn lines(&self) -> Lines<'_> {
        let starts = self.text.match_indices('\n').map(|(at, _)| at + 1);
        Lines { text: &self.text, starts: std::iter::once(0).chain(starts).collect() }
    }

    /// Renders one finding for people, with the lines that it marks.
    fn show(&self, renderer: &Renderer, lines: &Lines<'_>, found: &Diagnostic) -> String {
        let place = self.whole(&found.place);
        let other = found.other.as_ref().map(|(span, text)| (self.whole(span), text.as_str()));
        let (first, last) = match &other {
            Some((other, _)) => (place.start.min(other.start), place.end.max(other.end)),
            None => (place.start, place.end),
        };
        let together = last - first <= TOGETHER && self.part(first) == self.part(last);
        let shown = if together { first..last } else { place.clone() };
        let (apart, beside): (Vec<_>, Vec<_>) = other.into_iter().partition(|_| !together);
        let snippet = |shown: Range<usize>, kind: AnnotationKind, span: &Span| {
            let (path, number, _) = self.at(lines, shown.start);
            let part = lines.around(shown);
            let snippet = Snippet::source(&self.text[part.clone()]).line_start(number);
            let moved = move |span: &Span| span.start - part.start..span.end - part.start;
            let marked = kind.span(moved(span));
            (snippet.path(path), marked, moved)
        };
        let (main, marked, moved) = snippet(shown, AnnotationKind::Primary, &place);
        let beside = beside
            .iter()
            .map(|(span, text)| AnnotationKind::Context.span(moved(span)).label(*text));
        let level = match found.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = level
            .primary_title(found.message.as_str())
            .id(found.code.name())
            .element(main.annotation(marked).annotations(beside));
        for (span, text) in &apart {
            let (far, marked, _) = snippet(span.clone(), AnnotationKind::Context, span);
            group = group.element(far.annotation(marked.label(*text)));
        }
        renderer.render(&[group.element(Level::HELP.message(found.help.as_str()))])
    }

    fn locate<'a>(
        &'a self,
        lines: &Lines<'_>,
        places: &[Places],
        found: &'a Diagnostic,
    ) -> Located<'a> {
        let span = self.whole(&found.place);
        let (file, line, column) = self.at(lines, span.start);
        Located {
            code: found.code.name(),
            severity: found.severity,
            file,
            line,
            column,
            message: &found.message,
            help: &found.help,
            source: &self.text[span],
            field: self.field(places, &found.place),
        }
    }

    /// Extends `span` to whole characters within the text.
    fn whole(&self, span: &Span) -> Span {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.ceil_char_boundary(span.end.max(start));
        start..end
    }
}

/// Largest distance in bytes between two places that one snippet shows. Places further apart get a
/// snippet each, so that long files still render fast.
const TOGETHER: usize = 64 << 10;

/// The lines of a text, by the offsets of their first bytes.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl Lines<'_> {
    /// Line and column of the character at byte `at`, both from 1.
    fn at(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= at);
        let before = &self.text[self.starts[line - 1]..at];
        (line, before.chars().count() + 1)
    }

    /// The byte range of all lines that overlap `span`.
    fn around(&self, span: Span) -> Span {
        let first = self.starts.partition_point(|start| *start <= span.start);
        let after = self.starts.partition_point(|start| *start <= span.end);
        let end = self.starts.get(after).copied().unwrap_or(self.text.len());
        self.starts[first - 1]..end
    }
}
