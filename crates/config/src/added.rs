//! Mechanisms (queue disciplines, schedulers, congestion controls and so on) that other crates
//! define. Files name them like the mechanisms in the core's registries.

use std::fmt;

use serde::de::DeserializeOwned;
use tidegate_core::ack::AckSpec;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::parameters::{Declared, Mechanism, Registered};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::SchedulerSpec;
use tidegate_core::tcp::congestion::CongestionSpec;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

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

/// Added mechanisms whose parameters become a value of type `S`.
pub struct Additions<S>(Vec<Addition<S>>);

/// Reads the parameters of a mechanism.
type Reader<S> = Box<dyn Fn(&Node<'_>) -> Result<S, toml::de::Error> + Send + Sync>;

/// One added mechanism.
pub(crate) struct Addition<S> {
    pub(crate) mechanism: Mechanism,
    pub(crate) fields: &'static [&'static str],
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
pub(crate) trait Extended: Registered + DeserializeOwned + 'static {
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
