//! Who sends what to whom, and when.

use std::time::Duration;

use tidegate_core::{Bytes, Rate, itcp, tcp};

/// Flows of one kind: a group with a name, whose figures are also given together.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// What the group is called; unique.
    pub name: String,
    /// What its flows send.
    pub kind: Kind,
    /// Between whom.
    pub pairs: Vec<Pair>,
    /// How many flows each pair has.
    pub flows: u32,
    /// When each flow begins.
    pub start: Start,
    /// When sources stop to offer data; `None` at the end of the run. What was offered is still sent.
    pub stop: Option<Duration>,
    /// TCP or UDP port of the receiver.
    pub port: u16,
    /// DS codepoint of its packets, 0 to 63, in both directions.
    pub dscp: u8,
    /// Settings of both its end points, of TCP; `None` for those of their hosts.
    pub tcp: Option<tcp::Config>,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            name: String::new(),
            kind: Kind::Greedy,
            pairs: Vec::new(),
            flows: 1,
            start: Start::At(Duration::ZERO),
            stop: None,
            port: 5001, // iperf's
            dscp: 0,
            tcp: None,
        }
    }
}

/// Between whom data flows, by the names of hosts.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Pair {
    /// Who sends the data.
    pub from: String,
    /// Who receives it.
    pub to: String,
}

/// When a flow begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start {
    /// At this time.
    At(Duration),
    /// Between these times, each equally likely, each flow for itself.
    Between(Duration, Duration),
}

/// What a flow sends. Times and lengths that are drawn are drawn for each flow independently.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// TCP that always has more to send.
    Greedy,
    /// One file over TCP.
    File {
        /// Its length.
        size: Distribution<Bytes>,
    },
    /// TCP that sends a burst, pauses once all of it is acknowledged, and sends the next.
    OnOff {
        /// Length of a burst.
        burst: Distribution<Bytes>,
        /// Length of a pause.
        pause: Distribution<Duration>,
        /// Each burst has a connection of its own; otherwise all of them share one.
        reconnect: bool,
    },
    /// Closed-loop clients at `to`: each asks `from` for an answer over a connection of its own, reads
    /// it, thinks, and asks again.
    Web {
        /// Length of a request.
        request: Distribution<Bytes>,
        /// Length of an answer.
        answer: Distribution<Bytes>,
        /// From the end of an answer to the next request.
        think: Distribution<Duration>,
    },
    /// Files over TCP, each on a connection of its own, that begin at the times of a Poisson process
    /// however long those before take.
    Arrivals {
        /// Mean time between the beginnings of two files of one flow.
        every: Duration,
        /// Length of a file.
        size: Distribution<Bytes>,
    },
    /// What a flow of another group brings to `from`, handed on over a connection of its own: the two are one
    /// connection, split at `from`. A group with a connection for each transfer is handed on over as many. The
    /// clients of [`Web`](Self::Web) are at the last receiver. What is read there is written to the second, which ends after the
    /// first; if one of them fails, the other is reset.
    ///
    /// Source: `postack`, ledger R001-21 (PreAck: data is acknowledged early by what buffers it); RFC 3135,
    /// section 2.4 (split connections). Differs: the ledger's PreAck keeps the addresses and sequence numbers
    /// of a connection, and acts only while its sender recovers from a loss; here a host acknowledges,
    /// all the time. It is the simplest form that has what PreAck is for and what it breaks: losses
    /// beyond are made good from the buffer, and data is acknowledged that no receiver has.
    Relay {
        /// The group whose flows bring it, as many as this one has.
        of: String,
        /// Most bytes of a flow that were read and that the second connection has not acknowledged; at
        /// that, what comes stays in the receive buffer of the first.
        buffer: Bytes,
    },
    /// One long-lived connection over which a gateway at `from` carries the data of local connections. These belong
    /// to other groups and end at `from`. Each waiting local connection sends a segment in turn.
    ///
    /// A transfer of these groups is complete when its last byte has arrived, in order, at `to`.
    ///
    /// Source: `itcp`, section 1.
    Aggregate {
        /// The groups of the local connections. All of their receivers are `from`.
        of: Vec<String>,
        /// The reaction of the gateway to a long queue.
        overflow: Overflow,
        /// The adjuster of its weight; `None` for the weight that its congestion control begins with.
        weight: Option<Box<itcp::Config>>,
    },
    /// UDP at a constant rate.
    Constant {
        /// Its rate, in whole packets.
        rate: Rate,
        /// Length of a packet, with all headers that [`Run::link_header`](super::Run) counts.
        packet: u32,
    },
    /// UDP that alternates between a constant rate and silence.
    Bursts {
        /// Its rate when it sends.
        rate: Rate,
        /// Length of a packet, as of [`Constant`](Self::Constant).
        packet: u32,
        /// How long it sends.
        on: Distribution<Duration>,
        /// How long it is silent.
        off: Distribution<Duration>,
    },
    /// Written to TCP at given times after its start; it never waits for the network to write.
    Trace {
        /// When, in order, and how much.
        writes: Vec<(Duration, Bytes)>,
    },
    /// UDP packets at given times after its start.
    Packets {
        /// When, in order, and how long, as of [`Constant`](Self::Constant).
        packets: Vec<(Duration, u32)>,
    },
}

/// How an aggregate gateway reacts when many bytes wait for the aggregate connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Overflow {
    /// It does not: the queue has no bound.
    #[default]
    Grow,
    /// It stops reading local connections, so that the windows of their clients close.
    Slow {
        /// Most bytes that wait, of all local connections.
        queue: Bytes,
        /// Most bytes of one local connection that wait; `None` for no bound of its own.
        buffer: Option<Bytes>,
    },
    /// It reads on, but keeps ACKs of data back while the mean queue is longer than this.
    Withhold {
        /// The threshold.
        queue: Bytes,
    },
}

impl Kind {
    /// Whether it is sent over TCP; if not, over UDP.
    #[must_use]
    pub const fn is_tcp(&self) -> bool {
        !matches!(self, Self::Constant { .. } | Self::Bursts { .. } | Self::Packets { .. })
    }
}

/// How a length or a time is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution<T> {
    /// Always this.
    Constant(T),
    /// From the first to the second, each equally likely.
    Uniform(T, T),
    /// Exponential with this mean.
    Exponential(T),
    /// Pareto with this mean and this shape, which is above 1; at or below 2 its variance is infinite.
    Pareto(T, f64),
    /// Lognormal with this mean and this standard deviation.
    Lognormal(T, T),
    /// Weibull with this mean and this shape, which is at least 0.1; below 1 its tail is heavier than
    /// exponential.
    Weibull(T, f64),
}

impl<T: Copy> Distribution<T> {
    /// The quantities it is given by that may not be zero.
    pub fn parameters(&self) -> impl Iterator<Item = T> {
        let (first, second) = match *self {
            Self::Constant(x)
            | Self::Exponential(x)
            | Self::Pareto(x, _)
            | Self::Lognormal(x, _)
            | Self::Weibull(x, _) => (x, None),
            Self::Uniform(least, most) => (least, Some(most)),
        };
        [first].into_iter().chain(second)
    }
}
