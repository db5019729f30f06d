//! Classes of the link: their state, their promises, and changes of them.

use serde::{Deserialize, Serialize};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Chance, Factor, Rate};

use super::{Count, EachWay, Marking, OrNone, Period};

/// The classes that share the link.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Classes {
    /// All classes, for each direction. Empty if the link has one queue.
    pub classes: Vec<Class>,
}

/// The state of a class in one direction.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// The class it is a part of; none for the link.
    pub parent: Option<String>,
    /// "up" or "down".
    pub direction: String,
    /// What it may send whatever others do, in bits per second.
    pub guarantee_bps: u64,
    /// The most it may send, in bits per second; none for as much as its parent.
    pub ceiling_bps: Option<u64>,
    /// Its share of the excess, relative to its siblings.
    pub weight: u32,
    /// The highest gets what guarantees leave first.
    pub priority: u8,
    /// What it may send at once, in bytes.
    pub burst_bytes: u64,
    /// The longest its packets may wait, in microseconds, as long as they keep to its guarantee and burst.
    pub delay_bound_us: Option<u64>,
    /// Packets and bytes that it and the classes below it have sent, as charged on the link.
    pub sent: Count,
    /// Sent bytes beyond its guarantee.
    pub borrowed_bytes: u64,
    /// Packets and bytes that wait at it, and below it.
    pub waiting: Count,
    /// Packets dropped at it, and below it.
    pub dropped_packets: u64,
    /// Counts of the marking of the class's queue; none without a marking. A marking of a shared buffer is the link's.
    #[serde(default)]
    pub marking: Option<Marking>,
    /// Queueing delays of the packets it has sent; none if its scheduler does not record them.
    #[serde(default)]
    pub delays: Option<ClassDelays>,
    /// Its promises and how they were kept; empty if its scheduler does not record that.
    #[serde(default)]
    pub promises: Vec<Promise>,
}

/// Queueing delays of packets that a class has sent.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct ClassDelays {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their delays, in microseconds.
    pub total_us: u64,
    /// The longest delay, in microseconds.
    pub longest_us: u64,
}

/// A promise to a class, and how it was kept.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Promise {
    /// The term that promises it: "guarantee", "delay_bound", "loss_bound", "delay_ratio" or "loss_ratio".
    pub term: String,
    /// The class that a ratio refers to.
    pub of: Option<String>,
    /// The unit of the two values: "bit/s", "s", or empty for a part or a ratio.
    pub unit: String,
    /// The promised value.
    pub promised: f64,
    /// The measured value: mean rate while backlogged, longest delay, loss, or ratio of means.
    pub kept: Option<f64>,
    /// How often it was broken: packets for bounds, windows of 0.5 s for rates and ratios.
    pub violations: u64,
    /// How often it was relaxed because other promises have precedence.
    pub relaxed: u64,
}

/// A class that is to be added.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewClass {
    /// Its name.
    pub name: String,
    /// The class it is a part of; none for the link.
    #[serde(default)]
    pub parent: Option<String>,
    /// Where its packets wait; none for the gateway's queue discipline.
    #[serde(default)]
    pub queue: Option<QdiscSpec>,
    /// Its terms.
    #[serde(default)]
    pub rights: ClassChange,
}

/// Changes of a class. Absent fields keep their values.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClassChange {
    /// Its guarantee.
    pub guarantee: Option<EachWay<Rate>>,
    /// Its ceiling.
    pub ceiling: Option<EachWay<OrNone<Rate>>>,
    /// Its weight.
    pub weight: Option<u32>,
    /// Its priority.
    pub priority: Option<u8>,
    /// Its burst.
    pub burst: Option<Bytes>,
    /// The longest its packets may wait.
    pub delay_bound: Option<EachWay<OrNone<Period>>>,
    /// The largest part of its bytes that may be dropped.
    pub loss_bound: Option<OrNone<Chance>>,
    /// Its queueing delay relative to another class.
    pub delay_ratio: Option<OrNone<Ratio>>,
    /// Its loss relative to another class.
    pub loss_ratio: Option<OrNone<Ratio>>,
}

/// `factor` times as much as the class `of` has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The other class.
    pub of: String,
    /// Above zero.
    pub factor: Factor,
}
