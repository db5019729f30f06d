//! TCP settings: tables of a scenario file (of the run, a host or traffic) and of a trunk.

use serde::Deserialize;
use serde_json::Value;
use tidegate_core::tcp::Config;
use tidegate_core::tcp::congestion::CongestionSpec;
use tidegate_core::trunk;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::added::Mechanisms;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::field;
use crate::mechanism::registered;
use crate::read::{Node, Read, wrong_type};
use crate::{canonical, declared, schema};

/// A table of TCP settings. A table without `profile` changes fields of another table, so
/// [`Settings`] reads the values later.
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

    fn schema(_: &Mechanisms) -> Value {
        schema::table(&Config::parameters())
    }
}

/// The TCP settings of a trunk's management connections. The defaults of `initial_window` and
/// `initial_threshold` are those of trunks.
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

    fn schema(added: &Mechanisms) -> Value {
        Tcp::schema(added)
    }

    fn canonical(node: &Node<'_>, _: &Mechanisms) -> toml::Value {
        canonical::mechanism::<Config>(node)
    }
}

/// Reads the TCP settings of a scenario file.
pub struct Settings<'a> {
    document: &'a DeTable<'a>,
    /// The settings of the run; `None` if the file has none.
    run: Option<Config>,
    /// The settings of the run are invalid. Then other settings that change only single fields of
    /// the run's settings cannot be read.
    wrong: bool,
}

impl<'a> Settings<'a> {
    /// Reads the settings of the run from `written`, a table in `document`.
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

    /// The settings of the run; `None` if the file has none.
    pub fn of_run(&self) -> Option<Config> {
        self.run.clone()
    }

    /// The settings at `path`, if there are any. With a `profile`, they start from this profile.
    /// Otherwise they change single fields of the run's settings.
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
            // If the key exists, `insert` alone would keep the position of the old key. Findings
            // would then mark the wrong line.
            table.remove(name.get_ref().as_ref());
            table.insert(name.clone(), value.clone());
        }
        read(place, table, found)
    }
}

/// The path of the run's settings in a scenario file.
const RUN: &str = "run.tcp";

/// Reads the settings in `table`, which is at `place` in the file. Returns `None` after an error.
fn read(place: Span, table: DeTable<'_>, found: &mut Findings) -> Option<Config> {
    let mut table = table;
    let added = added(&mut table, found);
    if !declared::names(&table, &Config::parameters(), found) {
        return None;
    }
    let node = Spanned::new(place, DeValue::Table(table));
    let config = Config::deserialize(ValueDeserializer::from(node.clone()));
    let wrong = |error: toml::de::Error| found.push(wrong(&node, error.span(), error.message()));
    let mut config = config.map_err(wrong).ok()?;
    if let Some(congestion) = added {
        config.congestion = congestion?;
    }
    Some(config)
}

/// Removes a congestion control of another crate from `table`, and reads it. Returns `None` if the
/// table has no such control, and `Some(None)` after an error.
#[expect(clippy::option_option, reason = "it may be absent, and it may be wrong")]
fn added(table: &mut DeTable<'_>, found: &mut Findings) -> Option<Option<CongestionSpec>> {
    let all = found.added();
    let node = table.get("congestion")?;
    let kind = node.get_ref().as_table().map_or(Some(node), |table| table.get("kind"))?;
    let name = kind.get_ref().as_str()?;
    all.congestions.iter().find(|it| it.mechanism.name == name)?;
    let congestion = registered(node, found);
    table.remove("congestion");
    Some(congestion)
}

/// Converts an error `message` of the core about a value in the table `node` to a finding. A
/// message about several fields begins with the name of one of them.
fn wrong(node: &Node<'_>, span: Option<Span>, message: &str) -> Diagnostic {
    let named = message.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    let name = named.map_or("", |(name, _)| name);
    let field = node.get_ref().as_table().and_then(|table| table.get(name));
    let span = field.map(Spanned::span).or(span).unwrap_or_else(|| node.span());
    let code = match name {
        "receive_window" | "window_scale" | "initial_window" | "initial_threshold" | "mss" => {
            Code::BadWindow
        }
        _ => Code::BadTcp,
    };
    let parts = message.split_once("; ").or_else(|| message.split_once(": "));
    match parts.filter(|_| named.is_some()) {
        Some((message, help)) => Diagnostic::error(code, span, message).help(help),
        None => Diagnostic::error(code, span, message),
    }
}
