//! Reports of the classes of the link.

use std::time::Duration;

use super::{MechanismName, Mechanisms};
use crate::marking::Marks;
use crate::packet::Direction;
use crate::qdisc::Backlog;
use crate::reports::{Quantify, ReportValue};
use crate::scheduler::Delays;
use crate::{Bytes, Count, Rate, report};

report! {
    /// The state of a class in one direction.
    pub ClassReport {
        /// Name of the class.
        name: String => { column "class" };
        /// Direction of its packets.
        direction: Direction => { column "direction" };
        /// Name of the parent class. `None` for a class directly below the link.
        parent: Option<String> => { column "parent" };
        /// Mechanisms in force for the class.
        mechanisms: Mechanisms;
        /// Guarantee of the class.
        guarantee as "guarantee_bps": Rate => {
            gauge "tidegate_class_guarantee_bytes_per_second",
            column "guarantee" = |it| {
                Some(it.guarantee).filter(|rate| *rate > Rate::from_bps(0)).quantity()
            },
        };
        /// Ceiling of the class, if it has one of its own.
        ceiling as "ceiling_bps": Option<Rate> => {
            gauge "tidegate_class_ceiling_bytes_per_second",
            column "ceiling",
        };
        /// Delay bound of the class, if it has one.
        delay_bound as "delay_bound_us": Option<Duration> => {
            gauge "tidegate_class_delay_bound_seconds",
            column "delay bound",
        };
        /// Share of the excess rate, relative to sibling classes.
        weight: u32 => { column "weight" };
        /// Classes of a higher priority get the excess rate first.
        priority: u8 => { column "priority" };
        /// Bytes that the class may send at once.
        burst as "burst_bytes": Bytes;
        /// Packets that the class and its parts have sent, and the bytes charged for them.
        sent: Count => {
            counter "tidegate_class_sent_bytes_total" of bytes
                "Bytes of the class that departed, as charged on the link.",
            counter "tidegate_class_sent_packets_total" of packets
                "Packets of the class that departed.",
            column "sent" of bytes,
        };
        /// Bytes of the class that departed beyond its guarantee.
        borrowed_bytes: u64, in Bytes => {
            counter "tidegate_class_borrowed_bytes_total",
            column "borrowed",
        };
        /// Backlog of the class and its child classes.
        backlog as "waiting": Backlog => {
            gauge "tidegate_class_waiting_bytes" of bytes "Bytes of the class that wait.",
            column "waiting" of bytes,
        };
        /// Packets of the class that were dropped.
        drops as "dropped_packets": u64 => {
            counter "tidegate_class_dropped_packets_total",
            column "drops",
        };
        /// Packets that the marking of the class's queue has marked and dropped. `None` without a
        /// marking. The marking of a buffer that all classes share is reported with the link.
        marking: Option<Marks> => { column "marks" = |it| it.marking.map(|it| it.marked).quantity() };
        /// Queueing delays of the packets that the class has sent. `None` if its scheduler does not
        /// record delays.
        delays: Option<Delays> => {
            counter "tidegate_class_queueing_seconds_total"
                "Sum of the queueing delays of the class's departed packets, if the scheduler records it."
                = |it| it.delays.map(|it| it.total).quantity(),
            gauge "tidegate_class_longest_queueing_seconds"
                "Longest queueing delay of a packet of the class, if the scheduler records it."
                = |it| it.delays.map(|it| it.longest).quantity(),
        };
        /// Terms that the scheduler promised to the class, such as a bound of delay, with their
        /// measured values.
        promises: Vec<PromiseReport>;
    }
}

report! {
    /// A term that a scheduler promised to a class, and the measured value.
    pub PromiseReport {
        /// Name of the promised term, as a policy file writes it.
        term: MechanismName => { column "promise" = |it| ReportValue::Text(it.in_words()) };
        /// The other class, if the term is a ratio of two classes.
        of: Option<String>;
        /// Unit of both values: "bit/s", "s", or empty for a fraction or a ratio.
        unit: MechanismName;
        /// A promise to the class by its term, in bit/s, seconds, or as a part or ratio; `of` is the
        /// class that a ratio refers to.
        promised: f64 => {
            gauge "tidegate_class_promised",
            column "promised" = |it| it.value(Some(it.promised)),
        };
        /// The measured value of a promise: mean rate while backlogged, longest delay, loss, or ratio.
        kept: Option<f64> => {
            gauge "tidegate_class_kept",
            column "kept" = |it| it.value(it.kept),
        };
        /// Violations of a promise: packets for bounds, windows of 0.5 s for rates and ratios.
        violations: u64 => { counter "tidegate_class_violations_total", column "broken" };
        /// Times that a promise was relaxed, because other promises have precedence.
        relaxed: u64 => { counter "tidegate_class_relaxed_total", column "relaxed" };
    }
}

impl PromiseReport {
    fn in_words(&self) -> String {
        let of = self.of.as_ref().map_or_else(String::new, |of| format!(" of {of}"));
        format!("{}{of}", self.term)
    }

    /// `value` in the unit of the term, for a table.
    fn value(&self, value: Option<f64>) -> ReportValue {
        let Some(value) = value else { return ReportValue::None };
        ReportValue::Text(match &*self.unit {
            "bit/s" => format!("{:.2} Mbit/s", value / 1e6),
            "s" => format!("{:.3} ms", value * 1e3),
            _ => format!("{value:.4}"),
        })
    }
}
