//! Writes the manual page of all mechanisms, which are the algorithms that a policy file can name.

use tidegate_core::parameters::{Form, Parameter};
use tidegate_core::scheduler::{Term, TermForm};

use crate::{Registry, wrapped};

/// Line width of the Markdown text.
const WIDTH: usize = 100;

/// The manual page of all mechanisms.
pub(crate) fn page(registries: &[Registry]) -> String {
    let mut page = "# Mechanisms and their parameters\n\n".to_owned();
    let head = "A file names a mechanism alone, with the default of each parameter, or as a table with \
                `kind` and the parameters to change: `queue = { kind = \"red\", limit = \"200 kB\" }`. \
                This page is generated from the code that reads the files.";
    page += &paragraph(head);
    for Registry { title, fields, differs, mechanisms, terms, .. } in registries {
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
