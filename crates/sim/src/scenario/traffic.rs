//! Traffic: senders, receivers, and the times and lengths of their data.

use std::time::Duration;

use tidegate_core::{Bytes, Rate, itcp, tcp};

/// Flows of one kind: a named group, whose results are also given in total.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The unique name of the group.
    pub name: String,
    /// The kind of source.
    pub kind: Kind,
    /// The pairs of hosts.
    pub pairs: Vec<Pair>,
    /// Number of flows of each pair.
    pub flows: u32,
    /// Start time of each flow.
    pub start: Start,
    /// Time at which sources stop offering data; `None` for the end of the run. Data already
    /// offered is still sent.
    pub stop: Option<Duration>,
    /// TCP or UDP port of the receiver.
    pub port: u16,
    /// DS codepoint of its packets, 0 to 63, in both directions.
    pub dscp: u8,
    /// TCP settings of both end points; `None` for those of their hosts.
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
            port: 5001, // the port of iperf
            dscp: 0,
            tcp: None,
        }
    }
}

/// A sender and a receiver of data, by the names of their hosts.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Pair {
    /// The sender of the data.
    pub from: String,
    /// The receiver of the data.
    pub to: String,
}

/// The start time of a flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start {
    /// A fixed time.
    At(Duration),
    /// A random time between these, uniformly distributed and drawn for each flow.
    Between(Duration, Duration),
}

/// The kinds of sources. Times and lengths are drawn for each flow independently.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// TCP with endless data.
    Greedy,
    /// One file over TCP.
    File {
        /// Its length.
        size: Distribution<Bytes>,
    },
    /// TCP that sends a burst, pauses once it is acknowledged, and sends the next.
    OnOff {
        /// Length of a burst.
        burst: Distribution<Bytes>,
        /// Length of a pause.
        pause: Distribution<Duration>,
        /// `true`: a connection for each burst. `false`: one connection for all.
        reconnect: bool,
    },
    /// Closed-loop clients at `to`. Each requests an answer from `from` over a new connection,
    /// reads it, waits for its think time, and repeats.
    Web {
        /// Length of a request.
        request: Distribution<Bytes>,
        /// Length of an answer.
        answer: Distribution<Bytes>,
        /// Time from the end of an answer to the next request.
        think: Distribution<Duration>,
    },
    /// Files over TCP, each on a new connection. They begin at the times of a Poisson process,
    /// independently of earlier files.
    Arrivals {
        /// Mean time between the beginnings of two files of one flow.
        every: Duration,
        /// Length of a file.
        size: Distribution<Bytes>,
    },
    /// Forwards the data of another group from `from` on, over separate connections: together they
    /// are one connection, split at `from`. Each connection of the other group is forwarded over
    /// one connection here. The clients of [`Web`](Self::Web) are at the last receiver. The
    /// relay writes the data that it reads to the second connection, which ends after the first. If
    /// one fails, the other is reset.
    ///
    /// Source: `postack`, ledger R001-21 (PreAck: a gateway acknowledges data early and buffers
    /// it); RFC 3135, section 2.4 (split connections). Differs: the ledger's PreAck keeps the
    /// addresses and sequence numbers of a connection, and acts only while its sender recovers from
    /// a loss. Here a host acknowledges, all the time. This simplest form has the benefit and the
    /// drawback of PreAck. Later losses are repaired from the buffer, but data is acknowledged
    /// before the receiver has it.
    Relay {
        /// The group to forward. Both groups have equally many flows.
        of: String,
        /// Buffer for each flow: bytes read that the second connection has not acknowledged. Once
        /// the buffer is full, data stays in the receive buffer of the first connection.
        buffer: Bytes,
    },
    /// One long-lived connection over which a gateway at `from` carries the data of local
    /// connections. These belong to other groups and end at `from`. Each waiting local connection
    /// sends a segment in turn.
    ///
    /// A transfer of these groups is complete when its last byte has arrived, in order, at `to`.
    ///
    /// Source: `itcp`, section 1.
    Aggregate {
        /// The groups of the local connections. All of their receivers are `from`.
        of: Vec<String>,
        /// The reaction of the gateway to a long queue.
        overflow: Overflow,
        /// The adjuster of its weight; `None` for the weight that its congestion control begins
        /// with.
        weight: Option<Box<itcp::Config>>,
    },
    /// UDP at a constant rate.
    Constant {
        /// The rate, sent in whole packets.
        rate: Rate,
        /// Length of a packet, including all headers that [`Run::link_header`](super::Run) counts.
        packet: u32,
    },
    /// UDP that alternates between a constant rate and silence.
    Bursts {
        /// The rate during a burst.
        rate: Rate,
        /// Length of a packet, as in [`Constant`](Self::Constant).
        packet: u32,
        /// Duration of a burst.
        on: Distribution<Duration>,
        /// Duration of a silence.
        off: Distribution<Duration>,
    },
    /// Data written to TCP at given times after the start. The source never waits for the network.
    Trace {
        /// Times in order, with the number of bytes.
        writes: Vec<(Duration, Bytes)>,
    },
    /// UDP packets at given times after its start.
    Packets {
        /// Times in order, with packet lengths as in [`Constant`](Self::Constant).
        packets: Vec<(Duration, u32)>,
    },
}

/// The reaction of an aggregate gateway to a long queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Overflow {
    /// None: the queue has no bound.
    #[default]
    Grow,
    /// The gateway stops reading local connections, so the windows of their clients close.
    Slow {
        /// Limit of all waiting bytes.
        queue: Bytes,
        /// Limit of the waiting bytes of one local connection; `None` for no such limit.
        buffer: Option<Bytes>,
    },
    /// The gateway continues to read, but withholds ACKs of data while the mean queue is above the
    /// threshold.
    Withhold {
        /// The threshold.
        queue: Bytes,
    },
}

impl Kind {
    /// Returns `true` for TCP, `false` for UDP.
    #[must_use]
    pub const fn is_tcp(&self) -> bool {
        !matches!(self, Self::Constant { .. } | Self::Bursts { .. } | Self::Packets { .. })
    }
}

/// The distribution of a length or a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution<T> {
    /// Always this value.
    Constant(T),
    /// Uniform between the two values.
    Uniform(T, T),
    /// Exponential with this mean.
    Exponential(T),
    /// Pareto with this mean and this shape, which is above 1; at or below 2 its variance is
    /// infinite.
    Pareto(T, f64),
    /// Lognormal with this mean and this standard deviation.
    Lognormal(T, T),
    /// Weibull with this mean and this shape, which is at least 0.1; below 1 its tail is heavier
    /// than exponential.
    Weibull(T, f64),
}

impl<T: Copy> Distribution<T> {
    /// The parameters that must not be zero.
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
