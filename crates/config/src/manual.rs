//! Writes the manual page of all mechanisms, which are the algorithms that a policy file can name.
//!
//! The page is written from the declarations of the mechanisms.

use tidegate_core::ack::AckSpec;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::itcp;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::marking::tracker::TrackerSpec;
use tidegate_core::parameters::{Form, Mechanism, Parameter, Registered};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::{SchedulerSpec, Term, TermForm};
use tidegate_core::tcp::congestion::CongestionSpec;
use tidegate_core::trunk::MOST_WEIGHT;

use crate::added::Mechanisms;
use crate::mechanism::mechanisms;

/// Line width of the Markdown text.
const WIDTH: usize = 100;

/// A registry of mechanisms, for the manual.
pub struct Registry {
    /// The title.
    pub title: &'static str,
    /// The file fields that name the mechanisms.
    pub fields: &'static str,
    /// A sentence about file fields that accept fewer mechanisms or have another default. May be
    /// empty.
    differs: String,
    /// The module of the Python package.
    pub module: &'static str,
    /// The mechanisms.
    pub mechanisms: Vec<Mechanism>,
    /// The terms of classes under each mechanism. Empty unless the mechanisms are schedulers.
    terms: Vec<&'static [Term]>,
}

/// Describes the registry of these mechanisms.
fn registry(
    title: &'static str,
    fields: &'static str,
    module: &'static str,
    mechanisms: Vec<Mechanism>,
) -> Registry {
    Registry { title, fields, differs: String::new(), module, mechanisms, terms: Vec::new() }
}

/// All registries, with the mechanisms that other crates have added to them.
#[must_use]
pub fn registries(added: &Mechanisms) -> Vec<Registry> {
    let of_others = added.schedulers.iter().map(|it| it.plain.terms());
    vec![
        registry("Queue disciplines", "`queue`", "queue", mechanisms::<QdiscSpec>(added)),
        registry("Allocations", "`allocation`", "allocation", mechanisms::<AllocationSpec>(added)),
        registry("ACK control", "`ack_control`", "ack_control", mechanisms::<AckSpec>(added)),
        registry("Markings", "`marking`", "marking", mechanisms::<MarkingSpec>(added)),
        registry(
            "Trackers of markings",
            "`tracker` of a marking",
            "tracker",
            TrackerSpec::mechanisms(),
        ),
        Registry {
            terms: SchedulerSpec::terms_of_each().iter().copied().chain(of_others).collect(),
            ..registry("Schedulers", "`scheduler`", "scheduler", mechanisms::<SchedulerSpec>(added))
        },
        registry(
            "Congestion controls",
            "`tcp.congestion`",
            "congestion",
            mechanisms::<CongestionSpec>(added),
        ),
        Registry {
            differs: format!(
                "A trunk takes only `fixed` and `measured`, from a `weight` of 4 and with a `most` \
                 of {MOST_WEIGHT}, which is also the largest value of both."
            ),
            ..registry(
                "Rate adjusters",
                "`weight` of trunks and aggregate connections",
                "weight",
                itcp::mechanisms(),
            )
        },
    ]
}

/// The manual page of all mechanisms, also of those that other crates have added.
#[must_use]
pub fn page(added: &Mechanisms) -> String {
    let mut page = "# Mechanisms and their parameters\n\n".to_owned();
    let head = "A file names a mechanism alone, with the default of each parameter, or as a table with \
                `kind` and the parameters to change: `queue = { kind = \"red\", limit = \"200 kB\" }`. \
                This page is generated from the code that reads the files.";
    page += &paragraph(head);
    for Registry { title, fields, differs, mechanisms, terms, .. } in registries(added) {
        page += &format!("\n## {title}\n\n");
        page += &paragraph(&format!("Named by {fields}. {differs}"));
        let terms = terms.iter().copied().map(Some).chain(std::iter::repeat(None));
        for (mechanism, terms) in mechanisms.iter().zip(terms) {
            page += &format!("\n### `{}`\n\n", mechanism.name);
            page += &paragraph(mechanism.about);
            if !mechanism.parameters.is_empty() {
                page += "\n| parameter | default | values | meaning |\n|---|---|---|---|\n";
            }
            mechanism.parameters.iter().for_each(|parameter| page += &rows(parameter, ""));
            page += &terms.map_or_else(String::new, of_classes);
        }
    }
    page
}

/// The table of the terms that a class can have.
fn of_classes(terms: &[Term]) -> String {
    let mut table = "\n| term of a class | values | meaning |\n|---|---|---|\n".to_owned();
    for term in terms {
        let values = match term.form() {
            TermForm::Other => "",
            TermForm::Rate => "a rate",
            TermForm::Bytes => "a size",
            TermForm::Duration => "a time",
            TermForm::Chance => "a part",
            TermForm::Whole(..) => "a whole number",
            TermForm::Ratio => "`{ of, factor }`",
        };
        let ways = if term.declaration().each_way { ", or `{ up, down }`" } else { "" };
        let about = term.declaration().about.split_whitespace().collect::<Vec<_>>().join(" ");
        table += &format!("| `{}` | {values}{ways} | {about} |\n", term.name());
    }
    table
}

fn paragraph(text: &str) -> String {
    wrapped(text, WIDTH).join("\n") + "\n"
}

/// The table row of a parameter. If the values of the parameter are tables, also the rows of their
/// fields.
fn rows(parameter: &Parameter, within: &str) -> String {
    let Parameter { name, about, default, form, limits } = parameter;
    let default = default.as_ref().map_or_else(String::new, |default| format!("`{default}`"));
    let range = limits.in_words();
    let values = match (values(form), range.is_empty()) {
        (values, true) => values,
        (values, false) if values.is_empty() => range,
        (values, false) => format!("{values}, {range}"),
    };
    let about = about.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let mut rows = format!("| `{within}{name}` | {default} | {values} | {about} |\n");
    if let Form::Table(fields) = form {
        let within = format!("{within}{name}.");
        fields.iter().for_each(|field| rows += &self::rows(field, &within));
    }
    rows
}

/// The notation of values in words.
fn values(form: &Form) -> String {
    match form {
        Form::Text => "a name".to_owned(),
        Form::Quantity(units) => format!("a quantity in {}", units.join(", ")),
        Form::Whole(..) => "a whole number".to_owned(),
        Form::Number => "a number".to_owned(),
        Form::Flag => "`true`, `false`".to_owned(),
        Form::Choice(names) => {
            names.iter().map(|(name, _)| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", ")
        }
        Form::List(item) => format!("a list of: {}", values(item)),
        Form::Table(_) => "a table".to_owned(),
        Form::Named(mechanisms) => {
            mechanisms.iter().map(|it| format!("`\"{}\"`", it.name)).collect::<Vec<_>>().join(", ")
        }
        Form::Any(forms) => forms.iter().map(values).collect::<Vec<_>>().join(" or "),
    }
}

/// Breaks `text` into lines of at most `width` characters.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let Some(last) = lines.last_mut() else { break };
        if last.is_empty() {
            *last = word.to_owned();
        } else if last.len() + 1 + word.len() <= width {
            *last += &format!(" {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
