//! Mechanisms (queue disciplines, schedulers, congestion controls and so on) that other crates
//! define. Files name them like the mechanisms in the core's registries.

use std::fmt;

use serde::de::DeserializeOwned;
use tidegate_core::ack::AckSpec;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::parameters::{Declared, Mechanism, Registered};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::{SchedulerSpec, Term};
use tidegate_core::tcp::congestion::CongestionSpec;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::read::Node;

/// The added mechanisms, one list for each registry of the core.
#[derive(Debug, Default)]
pub struct Mechanisms {
    /// Queue disciplines.
    pub queues: Additions<QdiscSpec>,
    /// Allocations.
    pub allocations: Additions<AllocationSpec>,
    /// Kinds of ACK control.
    pub ack_controls: Additions<AckSpec>,
    /// Markings.
    pub markings: Additions<MarkingSpec>,
    /// Schedulers.
    pub schedulers: Additions<SchedulerSpec>,
    /// TCP congestion controls.
    pub congestions: Additions<CongestionSpec>,
}

impl Mechanisms {
    /// The terms that classes can have, each once: first those of the core's schedulers, then those of added
    /// schedulers. The name of a term tells it from all others.
    pub fn terms(&self) -> Vec<Term> {
        let mut terms: Vec<_> = SchedulerSpec::all_terms().collect();
        for term in self.schedulers.iter().flat_map(|it| it.plain.terms()) {
            if !terms.contains(term) {
                terms.push(*term);
            }
        }
        terms
    }
}

/// Added mechanisms whose parameters become a value of type `S`.
pub struct Additions<S>(Vec<Addition<S>>);

/// Reads the parameters of a mechanism.
type Reader<S> = Box<dyn Fn(&Node<'_>) -> Result<S, toml::de::Error> + Send + Sync>;

/// One added mechanism.
pub(crate) struct Addition<S> {
    pub(crate) mechanism: Mechanism,
    pub(crate) fields: &'static [&'static str],
    /// The mechanism with the default of each parameter.
    pub(crate) plain: S,
    read: Reader<S>,
}

impl<S> Additions<S> {
    /// Adds the mechanism `name`; the sentence `about` describes it. `select` converts its
    /// parameters to an `S`.
    pub fn add<C: Declared + DeserializeOwned>(
        &mut self,
        name: &'static str,
        about: &'static str,
        select: impl Fn(C) -> S + Send + Sync + 'static,
    ) {
        self.0.push(Addition {
            mechanism: Mechanism { name, about, parameters: C::parameters() },
            fields: C::NAMES,
            plain: select(C::default()),
            read: Box::new(move |node| config(node).map(&select)),
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Addition<S>> {
        self.0.iter()
    }
}

/// Reads parameters from `node`: the name alone (all defaults), or a table with `kind`.
fn config<C: Declared + DeserializeOwned>(node: &Node<'_>) -> Result<C, toml::de::Error> {
    let Some(table) = node.get_ref().as_table() else { return Ok(C::default()) };
    let mut table = table.clone();
    table.remove("kind");
    C::deserialize(ValueDeserializer::from(Spanned::new(node.span(), DeValue::Table(table))))
}

impl<S> Addition<S> {
    /// Reads the mechanism's parameters from `node`.
    pub(crate) fn read(&self, node: &Node<'_>) -> Result<S, toml::de::Error> {
        (self.read)(node)
    }

    /// Like [`read`](Self::read), for a value without a position. `None` if the value is invalid.
    pub(crate) fn read_value(&self, value: &toml::Value) -> Option<S> {
        let text = format!("value = {value}");
        let document = DeTable::parse(&text).ok()?;
        self.read(document.get_ref().get("value")?).ok()
    }
}

impl<S> Default for Additions<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S> fmt::Debug for Additions<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|it| it.mechanism.name)).finish()
    }
}

/// A registry of the core to which other crates may add mechanisms.
pub(crate) trait Extended: Registered + DeserializeOwned + PartialEq + 'static {
    /// The mechanisms that other crates have added to this registry.
    fn added(all: &Mechanisms) -> &Additions<Self>;
}

macro_rules! extended {
    ($($registry:ty: $field:ident;)+) => {$(
        impl Extended for $registry {
            fn added(all: &Mechanisms) -> &Additions<Self> {
                &all.$field
            }
        }
    )+};
}

extended! {
    QdiscSpec: queues;
    AllocationSpec: allocations;
    AckSpec: ack_controls;
    MarkingSpec: markings;
    SchedulerSpec: schedulers;
    CongestionSpec: congestions;
}
