//! Classes of the link: their state, the promises to them, and changes of classes.

use serde::{Deserialize, Serialize};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Chance, Factor, Rate};

use super::{Count, EachWay, Marking, OrNone, Period};

/// The classes that share the link.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Classes {
    /// All classes, once for each direction. Empty if the link has a single queue.
    pub classes: Vec<Class>,
}

/// The state of a class in one direction.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// The parent class. None for a class directly below the link.
    pub parent: Option<String>,
    /// "up" or "down".
    pub direction: String,
    /// Rate that it may send regardless of other traffic, in bits per second.
    pub guarantee_bps: u64,
    /// Largest rate of the class, in bits per second. None: only the bound of its parent applies.
    pub ceiling_bps: Option<u64>,
    /// Share of the excess rate, relative to sibling classes.
    pub weight: u32,
    /// Classes of a higher priority get the excess rate first.
    pub priority: u8,
    /// Bytes that the class may send at once.
    pub burst_bytes: u64,
    /// The longest time in microseconds that a packet of the class waits, while the class keeps to
    /// its guarantee and burst.
    pub delay_bound_us: Option<u64>,
    /// Packets that the class and its parts have sent, and the bytes charged for them.
    pub sent: Count,
    /// Bytes sent beyond the guarantee.
    pub borrowed_bytes: u64,
    /// Backlog of the class and its parts.
    pub waiting: Count,
    /// Packets dropped at the class and its parts.
    pub dropped_packets: u64,
    /// Counters of the marking of the class's queue. None without a marking. The marking of a
    /// buffer that all classes share is reported with the link.
    #[serde(default)]
    pub marking: Option<Marking>,
    /// Queueing delays of packets that have departed. None if the scheduler does not record them.
    #[serde(default)]
    pub delays: Option<ClassDelays>,
    /// The promises to the class, with measured values. Empty if the scheduler does not record
    /// them.
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
    /// The kind of promise: "guarantee", "delay_bound", "loss_bound", "delay_ratio" or
    /// "loss_ratio".
    pub term: String,
    /// For a ratio: the class to which it refers.
    pub of: Option<String>,
    /// The unit of both values: "bit/s", "s", or empty for a fraction or a ratio.
    pub unit: String,
    /// The promised value.
    pub promised: f64,
    /// The measured value: mean rate while backlogged, longest delay, loss, or ratio of mean
    /// values.
    pub kept: Option<f64>,
    /// Number of violations: packets for bounds, windows of 0.5 s for rates and ratios.
    pub violations: u64,
    /// Number of times that the scheduler relaxed the promise, because other promises have
    /// precedence.
    pub relaxed: u64,
}

/// A class to be added.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewClass {
    /// Its name.
    pub name: String,
    /// The parent class. None for a class directly below the link.
    #[serde(default)]
    pub parent: Option<String>,
    /// The queue of the class. None for the gateway's queue discipline.
    #[serde(default)]
    pub queue: Option<QdiscSpec>,
    /// The terms of the class.
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

/// A ratio: the value of this class is `factor` times the value of the class `of`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The other class.
    pub of: String,
    /// The factor, above zero.
    pub factor: Factor,
}
