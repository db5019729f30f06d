//! Traffic: senders, receivers, and the times and lengths of their data.

use std::time::Duration;

use tidegate_core::{Bytes, Rate, itcp, tcp};

/// A named group of flows with the same kind of source. The results show each flow and the whole
/// group.
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
    /// Time at which sources stop offering data; `None` for the end of the run. TCP still sends the
    /// data offered before.
    pub stop: Option<Duration>,
    /// TCP or UDP port of the receiver.
    pub port: u16,
    /// DS codepoint of its packets, 0 to 63, in both directions.
    pub dscp: u8,
    /// TCP settings of both end points; `None` for the settings of their hosts.
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
    /// A random time in this range, uniformly distributed and drawn for each flow.
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
    /// TCP that sends a burst, waits for the ACK of its last byte, pauses, and repeats.
    OnOff {
        /// Length of a burst.
        burst: Distribution<Bytes>,
        /// Length of a pause.
        pause: Distribution<Duration>,
        /// `true` for a new connection for each burst, `false` for one connection for all bursts.
        reconnect: bool,
    },
    /// Web clients at the receiving host, [`Pair::to`], and a server at the sending host,
    /// [`Pair::from`]. Each client opens a new connection and requests an answer from the server.
    /// The client reads the answer, waits for its think time, and repeats.
    Web {
        /// Length of a request.
        request: Distribution<Bytes>,
        /// Length of an answer.
        answer: Distribution<Bytes>,
        /// Time from the end of an answer to the next request.
        think: Distribution<Duration>,
    },
    /// Files over TCP, each on a new connection. Files start at the times of a Poisson process,
    /// whether or not earlier files are complete.
    Arrivals {
        /// Mean time between the starts of two files of one flow.
        every: Duration,
        /// Length of a file.
        size: Distribution<Bytes>,
    },
    /// A relay: splits the connections of another group at the host `from`, as a proxy does. The
    /// relay reads each connection of the group and writes the data to a second connection of its
    /// own. The second connection ends after the first. If either fails, the relay resets the
    /// other. The clients of [`Web`](Self::Web) are at the receivers of the last relay.
    ///
    /// Source: `postack`, ledger R001-21 (PreAck: a gateway acknowledges data early and buffers
    /// it); RFC 3135, section 2.4 (split connections).
    ///
    /// Differs: PreAck keeps addresses and sequence numbers, and acknowledges early only while a
    /// sender recovers from a loss. This relay always acknowledges early. PreAck has the same
    /// benefit and drawback: later losses are repaired from the buffer, but data is acknowledged
    /// before the receiver has it.
    Relay {
        /// The group to forward. The relay must have as many flows as this group.
        of: String,
        /// Buffer of each flow in bytes: data read from the first connection and not acknowledged
        /// on the second. When the buffer is full, further data stays in the receive window of the
        /// first connection.
        buffer: Bytes,
    },
    /// One long-lived connection over which a gateway at `from` carries the data of local
    /// connections. The local connections belong to other groups and end at `from`. The gateway
    /// sends one segment of each waiting local connection, in round robin.
    ///
    /// A transfer of these groups is complete when the receiver at `to` has its last byte, in
    /// order.
    ///
    /// Source: `itcp`, section 1 (many files over one aggregate connection).
    Aggregate {
        /// The groups of the local connections. Their receiver must be `from`.
        of: Vec<String>,
        /// What the gateway does when its queue is long.
        overflow: Overflow,
        /// The rate adjuster, which sets the weight of the connection by the load of the gateway.
        /// `None` for the constant weight of the connection's congestion control.
        weight: Option<Box<itcp::Config>>,
    },
    /// UDP packets of equal length at a constant rate.
    Constant {
        /// The rate. The times of packets are exact, without a rounding error that grows.
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
    /// TCP data written at given times after the start, whether or not the network has delivered
    /// the earlier data.
    Trace {
        /// The times, in order, and the number of bytes to write.
        writes: Vec<(Duration, Bytes)>,
    },
    /// UDP packets sent at given times after the start.
    Packets {
        /// The times, in order, and packet lengths as in [`Constant`](Self::Constant).
        packets: Vec<(Duration, u32)>,
    },
}

/// What an aggregate gateway does when its queue is long.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Overflow {
    /// Nothing: the queue has no limit.
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
    /// Pareto with this mean and this shape. The shape is above 1; up to 2, the variance is
    /// infinite.
    Pareto(T, f64),
    /// Lognormal with this mean and this standard deviation.
    Lognormal(T, T),
    /// Weibull with this mean and this shape. The shape is at least 0.1; below 1, the tail is
    /// heavier than that of an exponential distribution.
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
