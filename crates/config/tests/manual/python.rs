//! Writes the modules of the Python package: a function for each mechanism, with its parameters as
//! keywords.

use tidegate_core::parameters::{Form, Mechanism, Parameter};

use tidegate_config::manual::{Registry, wrapped};

/// Line width of the Python text.
const WIDTH: usize = 100;

/// A space at which no line may be broken.
const GLUE: &str = "\u{a0}";

/// Python keywords that are also names of parameters.
const KEYWORDS: &[&str] = &["from"];

/// The `__init__` file of the package.
pub(crate) fn package(registries: &[Registry]) -> String {
    let mut names: Vec<_> = registries.iter().map(|it| it.module).collect();
    names.sort_unstable();
    let listed = |indent: &str, quote: &str| -> String {
        names.iter().map(|name| format!("{indent}{quote}{name}{quote},\n")).collect()
    };
    format!(
        "\"\"\"Mechanisms with their parameters, for scenarios and policies.\n\n\
         Generated from the declarations of the mechanisms. ``queue.red(limit=\"200 kB\")`` is the table\n\
         ``{{\"kind\": \"red\", \"limit\": \"200 kB\"}}``. A parameter that is not given has its default.\n\
         \"\"\"\n\n\
         from tidegate.mechanisms import (\n{})\n\n__all__ = [\n{}]\n",
        listed("    ", ""),
        listed("    ", "\"")
    )
}

/// The module of a registry.
pub(crate) fn module(registry: &Registry) -> String {
    let functions: Vec<_> = registry.mechanisms.iter().map(function).collect();
    let functions = functions.join("\n\n");
    let mut imports = String::new();
    let kinds: Vec<_> =
        ["Any", "Literal"].into_iter().filter(|name| functions.contains(name)).collect();
    if functions.contains("Mapping[") || functions.contains("Sequence[") {
        let names: Vec<_> = ["Mapping", "Sequence"]
            .into_iter()
            .filter(|name| functions.contains(&format!("{name}[")))
            .collect();
        imports += &format!("from collections.abc import {}\n", names.join(", "));
    }
    imports += &format!("from typing import {}\n", kinds.join(", "));
    let title = registry.title;
    let fields = registry.fields.replace('`', "``");
    format!(
        "\"\"\"{title}: values of {fields}. Generated.\"\"\"\n\n{imports}\n\
         from tidegate.table import table\n\n\n{functions}"
    )
}

fn function(mechanism: &Mechanism) -> String {
    let name = mechanism.name.replace(['-', '+'], "_");
    let parameters = &mechanism.parameters;
    let about = quoted(mechanism.about);
    let (summary, rest) = about.split_once(". ").unwrap_or((&about, ""));
    let mut text = format!("def {name}(");
    if !parameters.is_empty() {
        text += "\n    *,\n";
        for parameter in parameters {
            text += &format!(
                "    {}: {} | None = None,\n",
                argument(parameter.name),
                kind(&parameter.form)
            );
        }
    }
    text += ") -> dict[str, Any]:\n";
    text += &format!("    \"\"\"{}.", summary.trim_end_matches('.'));
    if !rest.is_empty() {
        text += &format!("\n\n    {}\n", wrapped(rest, WIDTH - 4).join("\n    "));
    }
    if parameters.is_empty() {
        text += if rest.is_empty() { "\"\"\"\n" } else { "    \"\"\"\n" };
    } else {
        text += if rest.is_empty() { "\n\n    Args:\n" } else { "\n    Args:\n" };
        parameters.iter().for_each(|parameter| text += &described(parameter));
        text += "    \"\"\"\n";
    }
    let fields: String = parameters
        .iter()
        .map(|it| format!("        {}={},\n", argument(it.name), argument(it.name)))
        .collect();
    match fields.is_empty() {
        true => text + &format!("    return table(\"{}\")\n", mechanism.name),
        false => {
            text + &format!("    return table(\n        \"{}\",\n{fields}    )\n", mechanism.name)
        }
    }
}

fn described(parameter: &Parameter) -> String {
    let mut about = quoted(parameter.about);
    let range = parameter.limits.in_words();
    if !range.is_empty() {
        about += &format!(" Values: {range}.");
    }
    if let Some(default) = &parameter.default {
        // A default value stays on one line.
        about += &format!(" Default: ``{}``.", default.to_string().replace(' ', GLUE));
    }
    let text = format!("{}: {about}", argument(parameter.name));
    let lines = wrapped(&text, WIDTH - 12);
    format!("        {}\n", lines.join("\n            ").replace(GLUE, " "))
}

/// `text` with code quotes in the style of Python documentation.
fn quoted(text: &str) -> String {
    text.replace('`', "``").replace('\\', "\\\\")
}

/// The name of a parameter as a Python argument.
fn argument(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

/// The Python type of the values.
fn kind(form: &Form) -> String {
    match form {
        Form::Text | Form::Quantity(_) => "str".to_owned(),
        Form::Whole(..) => "int".to_owned(),
        Form::Number => "float".to_owned(),
        Form::Flag => "bool".to_owned(),
        Form::Choice(names) => {
            let names: Vec<_> = names.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            format!("Literal[{}]", names.join(", "))
        }
        Form::List(item) => format!("Sequence[{}]", kind(item)),
        Form::Table(_) => "Mapping[str, Any]".to_owned(),
        Form::Named(_) => "str | Mapping[str, Any]".to_owned(),
        Form::Any(forms) => {
            let mut kinds: Vec<_> = forms.iter().map(kind).collect();
            kinds.dedup();
            kinds.join(" | ")
        }
    }
}
