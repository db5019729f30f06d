//! TCP settings: tables of a scenario file (the run, a host, traffic) and of a trunk.

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_core::tcp::congestion::CongestionSpec;
use tidegate_core::tcp::{Config, Details};
use tidegate_core::trunk;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::canonical;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::field;
use crate::read::{Node, Read, mechanism_schema, one_of, wrong_type};
use crate::shape;

/// A table of TCP settings. Its meaning depends on the tables to which it adds.
#[derive(Clone, Copy, Debug)]
pub struct Tcp;

impl Read for Tcp {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let table = node.get_ref().as_table();
        if table.is_none() {
            found.push(wrong_type(node, "a table such as { profile = \"linux\" }"));
        }
        table.map(|_| Self)
    }

    fn schema() -> Value {
        let mut schema = shape::schema(&|offer| drop(Config::deserialize(offer)));
        schema["properties"]["congestion"] =
            mechanism_schema(CongestionSpec::NAMES, CongestionSpec::ABOUT, |name, offer| {
                drop(CongestionSpec::parameters(name, offer));
            });
        for (name, about) in ABOUT.iter().chain(Details::ABOUT) {
            schema["properties"][name]["description"] = json!(about);
        }
        schema
    }
}

/// The TCP settings of a trunk's management connections.
///
/// `initial_window` and `initial_threshold` have the defaults of a trunk.
#[derive(Clone, Debug)]
pub struct OfTrunk(pub Config);

impl Read for OfTrunk {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        Tcp::read(node, found)?;
        let table = node.get_ref().as_table()?;
        let mut config = read(node.span(), table.clone(), found)?;
        let usual = trunk::begin(config.details);
        if !table.contains_key("initial_window") {
            config.details.initial_window = usual.initial_window;
        }
        if !table.contains_key("initial_threshold") {
            config.details.initial_threshold = usual.initial_threshold;
        }
        Some(Self(config))
    }

    fn schema() -> Value {
        Tcp::schema()
    }

    fn canonical(node: &Node<'_>) -> toml::Value {
        canonical::mechanism::<Config>(node)
    }
}

/// The fields beside the details of a profile, with descriptions.
const ABOUT: &[(&str, &str)] = &[
    ("profile", "The modelled end point."),
    ("congestion", "The congestion control, by name or as a table."),
    ("mss", "Largest payload of a segment."),
    ("receive_window", "Buffer of a receiver, for data that its application has not read."),
    ("window_scale", "The shift of windows, where scaling is offered."),
];

/// The TCP settings of a document.
pub struct Settings<'a> {
    document: &'a DeTable<'a>,
    /// The settings of the run; `None` if there are none.
    run: Option<Config>,
    /// The settings of the run are invalid, and so are all settings that add to them.
    wrong: bool,
}

impl<'a> Settings<'a> {
    /// The settings of `document`; `written` is its table of the run.
    pub fn new(
        written: Option<&Spanned<Tcp>>,
        document: &'a DeTable<'a>,
        found: &mut Findings,
    ) -> Self {
        let mut this = Self { document, run: None, wrong: false };
        if let Some((place, table)) = written.and_then(|_| field::table(document, RUN)) {
            this.run = read(place, table.clone(), found);
            this.wrong = this.run.is_none();
        }
        this
    }

    /// The settings of the run; `None` if there are none.
    pub fn of_run(&self) -> Option<Config> {
        self.run.clone()
    }

    /// The settings at `path`, if there are any. With a profile, they start from it. Otherwise they
    /// change single fields of the run's settings.
    pub fn of(
        &self,
        written: Option<&Spanned<Tcp>>,
        path: &str,
        found: &mut Findings,
    ) -> Option<Config> {
        written?;
        let (place, own) = field::table(self.document, path).filter(|_| !self.wrong)?;
        let mut table = match field::table(self.document, RUN) {
            Some((_, run)) if !own.contains_key("profile") => run.clone(),
            _ => DeTable::new(),
        };
        for (name, value) in own {
            // Inserting over an existing key would keep its old place.
            table.remove(name.get_ref().as_ref());
            table.insert(name.clone(), value.clone());
        }
        read(place, table, found)
    }
}

/// The path of the run's settings.
const RUN: &str = "run.tcp";

/// Reads the settings in `table` at `place`; `None` after an error.
fn read(place: Span, table: DeTable<'_>, found: &mut Findings) -> Option<Config> {
    let node = Spanned::new(place, DeValue::Table(table));
    let config = Config::deserialize(ValueDeserializer::from(node.clone()));
    config.map_err(|error| found.push(wrong(&node, error.span(), error.message()))).ok()
}

/// Converts serde's `message` about the table `node` at `span` to a finding.
///
/// The finding names the field and the valid alternatives.
fn wrong(node: &Node<'_>, span: Option<Span>, message: &str) -> Diagnostic {
    let span = span.unwrap_or_else(|| node.span());
    let mut names = message.split('`').skip(1).step_by(2);
    let name = names.next().unwrap_or_default();
    let known: Vec<_> = names.collect();
    if message.starts_with("unknown field") {
        let span = key(node, name).unwrap_or(span);
        let message = format!("`{name}` is not a field here");
        return Diagnostic::error(Code::UnknownField, span, message).help(one_of(name, &known));
    }
    if message.starts_with("unknown variant") {
        let message = format!("`{name}` is not a valid name here");
        return Diagnostic::error(Code::UnknownName, span, message).help(one_of(name, &known));
    }
    // A message about the whole table begins with the name of the field.
    let field = node.get_ref().as_table().and_then(|table| table.get(name));
    let span = field.filter(|_| message.starts_with('`')).map_or(span, Spanned::span);
    let code = match name {
        "receive_window" | "window_scale" | "initial_window" | "initial_threshold" | "mss" => {
            Code::BadWindow
        }
        _ => Code::BadTcp,
    };
    let parts = message.split_once("; ").or_else(|| message.split_once(": "));
    match parts.filter(|_| message.starts_with('`')) {
        Some((message, help)) => Diagnostic::error(code, span, message).help(help),
        None => Diagnostic::error(code, span, message),
    }
}

/// The place of the key `name` in the table `node`, or in a nested table.
fn key(node: &Node<'_>, name: &str) -> Option<Span> {
    node.get_ref().as_table()?.iter().find_map(|(key, value)| {
        let here = key.get_ref() == name;
        if here { Some(key.span()) } else { self::key(value, name) }
    })
}
