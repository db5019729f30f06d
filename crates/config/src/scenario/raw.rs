//! The tables of the simulator as they are written: what may stand in them.

use serde_json::{Value, json};
use tidegate_core::packet::Direction;
use tidegate_core::{Bytes, Rate};
use toml::Spanned;
use toml::de::DeValue;

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::read::{
    Array, Choice, Field, Fields, List, Node, Number, Read, Required, Table, TableSchema, Token,
    tables, unknown_name, wrong_type,
};
use crate::values::{Flag, Period};

use super::tcp::Tcp;

tables! {
    /// What the simulator does.
    "[run]" Run {
        /// How much time passes in the network.
        "duration" => duration: Required<Period>,
        /// How much of it passes before figures are taken. Default: "0 s".
        "warmup" => warmup: Option<Spanned<Period>>,
        /// Step of time series. Default: a 300th of the duration.
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
        /// What the group is called in reports: letters, digits, dashes, underscores.
        "name" => name: Required<String>,
        /// What its flows send: "greedy" has always more; "file" sends one; "on-off" sends bursts with
        /// pauses; "web" asks for answers and thinks; "arrivals" begins files at random; "cbr" sends
        /// at a constant rate; "trace" sends at given times; "relay" hands on what other traffic brings.
        "kind" => kind: Required<Kind>,
        /// "tcp" or "udp". Default: "udp" for cbr, "tcp" for all others.
        "protocol" => protocol: Option<Spanned<Protocol>>,
        /// The hosts that send the data.
        "from" => from: Required<List<String>>,
        /// The hosts that receive it: as many, one for each; or one of either for all of the others.
        "to" => to: Required<List<String>>,
        /// Flows of each pair; with kind "web", its clients. Default: 1.
        "flows" => flows: Option<Spanned<Number>>,
        /// When each begins: a time, or { uniform = [FIRST, LAST] }. Default: "0 s".
        "start" => start: Option<Spanned<Draw<Period>>>,
        /// When the senders stop to offer data. Default: at the end.
        "stop" => stop: Option<Spanned<Period>>,
        /// Length of a file, a burst or an answer: a size, { uniform = [LEAST, MOST] },
        /// { exponential = MEAN } or { pareto = { mean = MEAN, shape = 2.5 } }.
        "size" => size: Option<Spanned<Draw<Bytes>>>,
        /// With kind "web": length of a request, given like `size`. Default: "300 B".
        "request" => request: Option<Spanned<Draw<Bytes>>>,
        /// With kind "web": time from an answer to the next request; a time, or drawn as `size` is.
        "think" => think: Option<Spanned<Draw<Period>>>,
        /// With kind "on-off" over UDP: how long it sends; a time, or drawn as `size` is.
        "on" => on: Option<Spanned<Draw<Period>>>,
        /// With kind "on-off": how long it is silent; a time, or drawn as `size` is.
        "off" => off: Option<Spanned<Draw<Period>>>,
        /// With kind "on-off" over TCP: whether each burst has a connection of its own. Default: false.
        "reconnect" => reconnect: Option<Spanned<Flag>>,
        /// With kind "arrivals": mean time between two files of a pair's flow.
        "every" => every: Option<Spanned<Period>>,
        /// Over UDP: the rate while it sends.
        "rate" => rate: Option<Spanned<Rate>>,
        /// Over UDP: length of a packet, with the headers that `link_header` counts. Default: "500 B".
        "packet" => packet: Option<Spanned<Bytes>>,
        /// With kind "trace": pairs of a time after the start and a size, or the path of a file with
        /// such a pair in each line.
        "trace" => trace: Option<Spanned<Trace>>,
        /// With kind "relay": the traffic, written before it, whose receivers are its senders.
        "of" => of: Option<Spanned<String>>,
        /// With kind "relay": most bytes of a flow that were read and wait to be acknowledged beyond.
        "buffer" => buffer: Option<Spanned<Bytes>>,
        /// Port of the receiver. Default: 5001.
        "port" => port: Option<Spanned<Number>>,
        /// DS codepoint of its packets, by name or number. Default: 0.
        "dscp" => dscp: Option<Spanned<Token>>,
        /// TCP of both ends, as of the run. Without a `profile` it changes fields of the run's; what
        /// hosts have of their own does not count. Default: that of the hosts.
        "tcp" => tcp: Option<Spanned<Tcp>>,
    }

    /// Something to record.
    "[[probe]]" Probe {
        /// What: "queue" and "capture" of the way from one end of a link to the other; "throughput" and
        /// "window" of traffic; "passage" of packets through a gateway.
        "kind" => kind: Required<ProbeKind>,
        /// With kind "queue" or "capture": where the packets enter the link, written as in `[[link]]`.
        "from" => from: Option<Spanned<String>>,
        /// With kind "queue" or "capture": where they leave it.
        "to" => to: Option<Spanned<String>>,
        /// With kind "throughput" or "window": name of the traffic.
        "traffic" => traffic: Option<Spanned<String>>,
        /// With kind "window": numbers of the flows, from 0. Default: all.
        "flows" => flows: Option<Spanned<Array<Number>>>,
        /// With kind "passage": name of the gateway.
        "gateway" => gateway: Option<Spanned<String>>,
        /// With kind "passage": the direction of the packets.
        "direction" => direction: Option<Spanned<Direction>>,
        /// With kind "passage": packets that are inside for longer count as late. Default: none is late.
        "bound" => bound: Option<Spanned<Period>>,
        /// With kind "passage": whether the rounds of each flow are recorded, as the tracker "paper" of
        /// markings sees them. Default: false.
        "rounds" => rounds: Option<Spanned<Flag>>,
        /// With kind "passage": whether the flows that the marking of the link tracks are recorded. Default: false.
        "tracked" => tracked: Option<Spanned<Flag>>,
    }
}

/// What flows send.
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
    ];
}

/// What carries it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

impl Choice for Protocol {
    const WHAT: &str = "a protocol of traffic";
    const CHOICES: &[(&str, Self)] = &[("tcp", Self::Tcp), ("udp", Self::Udp)];
}

/// What is recorded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ProbeKind {
    Queue,
    Throughput,
    Window,
    Capture,
    Passage,
}

impl Choice for ProbeKind {
    const WHAT: &str = "a kind of probe";
    const CHOICES: &[(&str, Self)] = &[
        ("queue", Self::Queue),
        ("throughput", Self::Throughput),
        ("window", Self::Window),
        ("capture", Self::Capture),
        ("passage", Self::Passage),
    ];
}

/// How a quantity is drawn.
#[derive(Clone, Debug)]
pub(crate) enum Draw<T> {
    /// Not at all.
    Constant(T),
    /// Each equally likely, between the two.
    Uniform(Spanned<T>, Spanned<T>),
    /// Exponentially, with this mean.
    Exponential(Spanned<T>),
    /// By the distribution of Pareto, with this mean and shape.
    Pareto(Spanned<T>, Spanned<Real>),
}

/// The ways to draw, by name.
const DRAWS: &[&str] = &["uniform", "exponential", "pareto"];

impl<T: Read> Read for Draw<T> {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let Some(table) = node.get_ref().as_table() else {
            return T::read(node, found).map(Self::Constant);
        };
        let mut entries = table.iter();
        let (Some((name, value)), None) = (entries.next(), entries.next()) else {
            let message = "this is not how a quantity is drawn";
            let help = "write { exponential = MEAN }, { uniform = [LEAST, MOST] } or { pareto = { mean = MEAN, shape = 2.5 } }";
            found.push(Diagnostic::error(Code::BadDraw, node.span(), message).help(help));
            return None;
        };
        let spanned = |node: &Node<'_>, found: &mut Findings| {
            Some(Spanned::new(node.span(), T::read(node, found)?))
        };
        match name.get_ref().as_ref() {
            "exponential" => spanned(value, found).map(Self::Exponential),
            "uniform" => match value.get_ref().as_array().map(|it| it.iter().as_slice()) {
                Some([least, most]) => {
                    let (least, most) = (spanned(least, found), spanned(most, found));
                    Some(Self::Uniform(least?, most?))
                }
                _ => {
                    let message = "a uniform distribution is given by its two ends";
                    let help = "write { uniform = [LEAST, MOST] }";
                    found.push(Diagnostic::error(Code::BadDraw, value.span(), message).help(help));
                    None
                }
            },
            "pareto" => {
                let Pareto { mean, shape } = Table::open(value, "`pareto`", found)?.only(found);
                Some(Self::Pareto(mean.take()?, shape.take()?))
            }
            other => {
                found.push(unknown_name(name.span(), other, "a distribution", DRAWS));
                None
            }
        }
    }

    fn schema() -> Value {
        let item = T::schema();
        let mut pareto = TableSchema::default();
        Pareto::<T>::describe(&mut pareto);
        json!({ "anyOf": [
            item,
            { "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
              "properties": {
                "uniform": { "type": "array", "items": item, "minItems": 2, "maxItems": 2 },
                "exponential": item,
                "pareto": pareto.finish("By the distribution of Pareto."),
            } },
        ] })
    }
}

/// A Pareto distribution.
struct Pareto<T> {
    mean: Required<T>,
    shape: Required<Real>,
}

impl<T: Read> Fields for Pareto<T> {
    fn keys() -> Vec<&'static str> {
        vec!["mean", "shape"]
    }

    fn take(table: &Table<'_>, found: &mut Findings) -> Self {
        Self { mean: Field::take(table, "mean", found), shape: Field::take(table, "shape", found) }
    }

    fn describe(into: &mut TableSchema) {
        <Required<T> as Field>::describe("mean", "Its mean.", into);
        let shape = "Its shape, above 1: the nearer to 1, the heavier its tail.";
        <Required<Real> as Field>::describe("shape", shape, into);
    }
}

/// A number without a unit that need not be whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Real(pub(crate) f64);

impl Read for Real {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        let text = match node.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str()),
            DeValue::Float(number) => Some(number.as_str()),
            _ => None,
        };
        let number = text.and_then(|it| it.replace('_', "").parse::<f64>().ok());
        let number = number.filter(|it| it.is_finite());
        if number.is_none() {
            found.push(wrong_type(node, "a number without quotes"));
        }
        number.map(Self)
    }

    fn schema() -> Value {
        json!({ "type": "number" })
    }
}

/// When something is sent, and how much.
#[derive(Clone, Debug)]
pub(crate) enum Trace {
    /// In a file of this path.
    File(String),
    /// Here.
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

    fn schema() -> Value {
        json!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "array", "minItems": 2, "maxItems": 2,
                "prefixItems": [Period::schema(), Bytes::schema()] } },
        ] })
    }
}
