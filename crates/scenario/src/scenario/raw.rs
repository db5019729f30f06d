//! The tables of the simulator, with the fields as the author wrote them. The published
//! schema has the same descriptions of the fields.

use serde_json::{Value, json};
use tidegate_config::added::Mechanisms;
use tidegate_core::packet::Direction;
use tidegate_core::{Bytes, Rate};
use toml::Spanned;

use crate::diagnostic::Findings;
use crate::policy_file::filter::{Codepoints, Token};
use crate::read::{
    Array, Choice, Field, List, Node, Number, Read, Required, Table, tables, wrong_type,
};
use crate::values::{Flag, Period, Weight};

use super::draw::Draw;
use crate::tcp::Tcp;

tables! {
    /// A run of the simulator.
    "[run]" Run {
        /// Virtual duration of the run.
        "duration" => duration: Required<Period>,
        /// Duration of the warm-up, which the results leave out. Default: "0 s".
        "warmup" => warmup: Option<Spanned<Period>>,
        /// Interval between two samples of time series. Default: a 300th of the duration.
        "sample" => sample: Option<Spanned<Period>>,
        /// Bytes of link-layer header that the length of a packet counts: "14 B" for Ethernet frames
        /// as a gateway sees them, "0 B" for lengths from the IP header on. Default: "14 B".
        "link_header" => link_header: Option<Spanned<Bytes>>,
        /// TCP of the hosts: `profile` ("rfc", "linux" or "ns2-2003"), `congestion` (a congestion
        /// control), and single details of the profile. Default: { profile = "rfc" }.
        "tcp" => tcp: Option<Spanned<Tcp>>,
    }

    /// A group of flows.
    "[[traffic]]" Traffic {
        /// Name of the group in reports: letters, digits, dashes, underscores.
        "name" => name: Required<String>,
        /// Source of its data. "greedy" sends without end. "file" sends one file, and "arrivals"
        /// starts files at random times. "on-off" sends bursts, separated by pauses. "web" has
        /// clients that request answers, and wait before the next request. "cbr" sends at a constant rate, and "trace" at
        /// given times. "relay" forwards other traffic, flow by flow. "aggregate" carries other
        /// traffic over one connection.
        "kind" => kind: Required<Kind>,
        /// "tcp" or "udp". Default: "udp" for cbr, "tcp" for all others.
        "protocol" => protocol: Option<Spanned<Protocol>>,
        /// The hosts that send the data.
        "from" => from: Required<List<String>>,
        /// The hosts that receive the data: one for each sender, a single one for all senders, or
        /// several for a single sender.
        "to" => to: Required<List<String>>,
        /// Number of flows for each pair; with kind "web", the number of clients. Default: 1.
        "flows" => flows: Option<Spanned<Number>>,
        /// Time at which each flow begins: a time, or { uniform = [FIRST, LAST] }. Default: "0 s".
        "start" => start: Option<Spanned<Draw<Period>>>,
        /// Time after which senders offer no more data. Default: the end of the run.
        "stop" => stop: Option<Spanned<Period>>,
        /// Length of a file, a burst or an answer: a size, { uniform = [LEAST, MOST] },
        /// { exponential = MEAN }, { pareto = { mean = MEAN, shape = 2.5 } },
        /// { lognormal = { mean = MEAN, deviation = DEVIATION } } or
        /// { weibull = { mean = MEAN, shape = 0.5 } }.
        "size" => size: Option<Spanned<Draw<Bytes>>>,
        /// With kind "web": length of a request; a size, or a distribution as in `size`. Default:
        /// "300 B".
        "request" => request: Option<Spanned<Draw<Bytes>>>,
        /// With kind "web": time from the end of an answer to the next request; a time, or a
        /// distribution as in `size`.
        "think" => think: Option<Spanned<Draw<Period>>>,
        /// With kind "on-off" over UDP: length of a burst; a time, or a distribution as in `size`.
        "on" => on: Option<Spanned<Draw<Period>>>,
        /// With kind "on-off": length of a pause; a time, or a distribution as in `size`.
        "off" => off: Option<Spanned<Draw<Period>>>,
        /// With kind "on-off" over TCP: true for a new connection for each burst. Default: false.
        "reconnect" => reconnect: Option<Spanned<Flag>>,
        /// With kind "arrivals": mean time between the starts of two files of a flow.
        "every" => every: Option<Spanned<Period>>,
        /// With UDP: the rate while a flow sends.
        "rate" => rate: Option<Spanned<Rate>>,
        /// With UDP: length of a packet, with the headers that `link_header` counts. Default: "500
        /// B".
        "packet" => packet: Option<Spanned<Bytes>>,
        /// With kind "trace": pairs of a time after the start and a size, or the path of a file with
        /// such a pair in each line.
        "trace" => trace: Option<Spanned<Trace>>,
        /// With kind "relay" or "aggregate": the traffic to forward, which must be defined before
        /// this table. Its receivers are the senders here. An aggregate connection may carry several groups.
        "of" => of: Option<Spanned<List<String>>>,
        /// With kind "relay": largest number of bytes of a flow that the relay stores. With kind
        /// "aggregate" and overflow "slow": largest number of bytes of one local connection that wait.
        /// Default: no limit.
        "buffer" => buffer: Option<Spanned<Bytes>>,
        /// With kind "aggregate": what the gateway does when its queue is long. "grow": nothing;
        /// "slow": it stops reading local connections; "withhold": it withholds their ACKs while
        /// the mean queue is too long. Default: "grow".
        "overflow" => overflow: Option<Spanned<Overflow>>,
        /// With overflow "slow": largest number of bytes of all local connections that wait. With
        /// "withhold": threshold of the mean queue.
        "queue" => queue: Option<Spanned<Bytes>>,
        /// With kind "aggregate": the rule that adjusts its weight, "fixed", "literal" (the paper's), "measured" or
        /// "proportional", or a table with `kind` and parameters. Default: the weight of its congestion control.
        "weight" => weight: Option<Spanned<Weight>>,
        /// Port of the receiver. Default: 5001.
        "port" => port: Option<Spanned<Number>>,
        /// DS codepoint of its packets, by name or number. Default: 0.
        "dscp" => dscp: Option<Spanned<Token<Codepoints>>>,
        /// TCP settings of both ends, as in `[run]`, in place of the settings of the hosts. Without a
        /// `profile`, fields that the table does not name are those of the run. Default: the settings
        /// of the hosts.
        "tcp" => tcp: Option<Spanned<Tcp>>,
    }

    /// A change of one direction of a link during the run. Packets already on the link keep
    /// their arrival times, so if the delay becomes shorter, later packets overtake them. Routes do not change.
    "[[change]]" Change {
        /// Time since the beginning of the run.
        "at" => at: Required<Period>,
        /// The end at which packets enter the link, written as in `[[link]]`.
        "from" => from: Required<String>,
        /// The other end of the link.
        "to" => to: Required<String>,
        /// Delay of the link from this time on. Default: as before.
        "delay" => delay: Option<Spanned<Period>>,
        /// Rate of the link from this time on. Default: as before.
        "rate" => rate: Option<Spanned<Rate>>,
    }

    /// A measurement that the simulator records.
    "[[probe]]" Probe {
        /// Kind of measurement. "queue" and "capture" watch one direction of a link; "throughput"
        /// and "window" watch traffic; "passage" watches packets through a gateway; "aggregate"
        /// watches the gateway of an aggregate connection.
        "kind" => kind: Required<ProbeKind>,
        /// With kind "queue" or "capture": the end at which packets enter the link, written as in `[[link]]`.
        "from" => from: Option<Spanned<String>>,
        /// With kind "queue" or "capture": the other end of the link.
        "to" => to: Option<Spanned<String>>,
        /// With kind "throughput", "window" or "aggregate": name of the traffic.
        "traffic" => traffic: Option<Spanned<String>>,
        /// With kind "window": numbers of the flows, from 0. Default: all.
        "flows" => flows: Option<Spanned<Array<Number>>>,
        /// With kind "passage": name of the gateway.
        "gateway" => gateway: Option<Spanned<String>>,
        /// With kind "passage": the direction of the packets.
        "direction" => direction: Option<Spanned<Direction>>,
        /// With kind "passage": packets with a longer delay count as late. Default: no packet is
        /// late.
        "bound" => bound: Option<Spanned<Period>>,
        /// With kind "passage": true to record the rounds of each flow, as the tracker "paper" of
        /// markings estimates them. Default: false.
        "rounds" => rounds: Option<Spanned<Flag>>,
        /// With kind "passage": true to record the flows that the marking of the link tracks.
        /// Default: false.
        "tracked" => tracked: Option<Spanned<Flag>>,
    }
}

/// How flows send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Greedy,
    File,
    OnOff,
    Web,
    Arrivals,
    Constant,
    Trace,
    Relay,
    Aggregate,
}

impl Choice for Kind {
    const WHAT: &str = "a kind of traffic";
    const CHOICES: &[(&str, Self)] = &[
        ("greedy", Self::Greedy),
        ("file", Self::File),
        ("on-off", Self::OnOff),
        ("web", Self::Web),
        ("arrivals", Self::Arrivals),
        ("cbr", Self::Constant),
        ("trace", Self::Trace),
        ("relay", Self::Relay),
        ("aggregate", Self::Aggregate),
    ];
}

/// What an aggregate gateway does when its queue is long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Overflow {
    Grow,
    Slow,
    Withhold,
}

impl Choice for Overflow {
    const WHAT: &str = "a reaction to overflow";
    const CHOICES: &[(&str, Self)] =
        &[("grow", Self::Grow), ("slow", Self::Slow), ("withhold", Self::Withhold)];
}

/// Transport protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

impl Choice for Protocol {
    const WHAT: &str = "a protocol of traffic";
    const CHOICES: &[(&str, Self)] = &[("tcp", Self::Tcp), ("udp", Self::Udp)];
}

/// Kind of measurement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ProbeKind {
    Queue,
    Throughput,
    Window,
    Capture,
    Passage,
    Aggregate,
}

impl Choice for ProbeKind {
    const WHAT: &str = "a kind of probe";
    const CHOICES: &[(&str, Self)] = &[
        ("queue", Self::Queue),
        ("throughput", Self::Throughput),
        ("window", Self::Window),
        ("capture", Self::Capture),
        ("passage", Self::Passage),
        ("aggregate", Self::Aggregate),
    ];
}

/// The times of packets or writes, and their sizes.
#[derive(Clone, Debug)]
pub(crate) enum Trace {
    /// In the file at this path.
    File(String),
    /// Written in the scenario itself.
    Pairs(Vec<(Period, Bytes)>),
}

impl Read for Trace {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let Some(array) = node.get_ref().as_array() else {
            if node.get_ref().as_str().is_none() {
                found.push(wrong_type(node, "the path of a file, or a list of [time, size]"));
            }
            return node.get_ref().as_str().map(|it| Self::File(it.to_owned()));
        };
        let mut pairs = Vec::with_capacity(array.len());
        for item in array.iter() {
            let Some([time, size]) = item.get_ref().as_array().map(|it| it.iter().as_slice())
            else {
                found.push(wrong_type(item, "a pair such as [\"20 ms\", \"160 B\"]"));
                return None;
            };
            pairs.push((Period::read(time, found)?, Bytes::read(size, found)?));
        }
        Some(Self::Pairs(pairs))
    }

    fn schema(added: &Mechanisms) -> Value {
        json!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "array", "minItems": 2, "maxItems": 2,
                "prefixItems": [Period::schema(added), Bytes::schema(added)] } },
        ] })
    }
}
