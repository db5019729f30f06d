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
    /// Its parent. None for the link.
    pub parent: Option<String>,
    /// "up" or "down".
    pub direction: String,
    /// Rate that it may send regardless of other traffic, in bits per second.
    pub guarantee_bps: u64,
    /// Upper bound of its rate, in bits per second. None: the bound of its parent.
    pub ceiling_bps: Option<u64>,
    /// Its share of the excess, relative to its siblings.
    pub weight: u32,
    /// The class of the highest priority gets the excess first.
    pub priority: u8,
    /// Bytes that it may send at once.
    pub burst_bytes: u64,
    /// Longest wait of its packets in microseconds, while it keeps to its guarantee and burst.
    pub delay_bound_us: Option<u64>,
    /// Packets and charged bytes that it and its parts have sent.
    pub sent: Count,
    /// Sent bytes beyond its guarantee.
    pub borrowed_bytes: u64,
    /// Backlog of the class and its parts.
    pub waiting: Count,
    /// Packets dropped at the class and its parts.
    pub dropped_packets: u64,
    /// Counters of the marking of the class's queue. None without a marking. A marking of a shared
    /// buffer belongs to the link.
    #[serde(default)]
    pub marking: Option<Marking>,
    /// Queueing delays of departed packets. None if its scheduler does not record them.
    #[serde(default)]
    pub delays: Option<ClassDelays>,
    /// Its promises with their measured values. Empty if its scheduler does not record them.
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

/// A promise to a class, with its measured value.
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
    /// Number of violations: packets for bounds, windows of 0.5 s for rates and ratios.
    pub violations: u64,
    /// Number of times that it was relaxed because other promises have precedence.
    pub relaxed: u64,
}

/// A class to be added.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewClass {
    /// Its name.
    pub name: String,
    /// Its parent. None for the link.
    #[serde(default)]
    pub parent: Option<String>,
    /// Its queue. None: the gateway's queue discipline.
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
    /// Its delay bound.
    pub delay_bound: Option<EachWay<OrNone<Period>>>,
    /// Its loss bound.
    pub loss_bound: Option<OrNone<Chance>>,
    /// Its queueing delay relative to another class.
    pub delay_ratio: Option<OrNone<Ratio>>,
    /// Its loss relative to another class.
    pub loss_ratio: Option<OrNone<Ratio>>,
}

/// A ratio: `factor` times the value of the class `of`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The other class.
    pub of: String,
    /// Above zero.
    pub factor: Factor,
}
