//! Compiles the traffic and the probes of a scenario file.

mod aggregate;

use std::collections::HashSet;
use std::time::Duration;

use tidegate_core::Bytes;
use tidegate_core::units;
use tidegate_sim::scenario::{Distribution, Kind, Pair, Probe, Start, Traffic, Way};
use toml::Spanned;
use toml::de::DeTable;

use super::Fetch;
use super::draw::{Draw, Real};
use super::network::Ends;
use super::raw::{self, Protocol};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::field;
use crate::policy_file::filter;
use crate::read::{List, one_of};
use crate::tcp::Settings;
use crate::topology::Topology;
use crate::topology::compile::{is_name, rows};
use crate::topology::raw::File;
use crate::values::{Period, number};

/// Compiles all traffic tables. An error in one table does not hide errors in others.
pub(super) fn traffic(
    file: &File,
    topology: &Topology,
    document: &DeTable<'_>,
    settings: &Settings<'_>,
    fetch: Fetch<'_>,
    found: &mut Findings,
) -> Vec<Traffic> {
    let hosts: HashSet<_> = topology.hosts.iter().map(|it| it.name.as_str()).collect();
    let mut all = Vec::new();
    for (number, raw) in rows(file.traffic.as_ref()).iter().enumerate() {
        let tcp = raw.get_ref().tcp.as_ref();
        let path = format!("traffic[{number}]");
        let tcp = settings.of(tcp, &format!("{path}.tcp"), found);
        let row = Row::new(document, &path);
        let group = group(raw, &row, topology, &hosts, fetch, found);
        group.iter().for_each(|group| too_late(group, raw.get_ref(), file, found));
        all.extend(group.map(|group| Traffic { tcp, ..group }));
    }
    all
}

fn group(
    raw: &Spanned<raw::Traffic>,
    row: &Row<'_>,
    topology: &Topology,
    hosts: &HashSet<&str>,
    fetch: Fetch<'_>,
    found: &mut Findings,
) -> Option<Traffic> {
    let raw = raw.get_ref();
    let usual = Traffic::default();
    let name = raw.name.get().and_then(|it| name(it, found));
    for host in
        [&raw.from, &raw.to].into_iter().filter_map(|it| it.get()).flat_map(|it| &it.get_ref().0)
    {
        if !hosts.contains(host.get_ref().as_str()) {
            unknown_host(host, topology, found);
        }
    }
    let pairs = pairs(raw.from.get(), raw.to.get(), found);
    let kind = kind(raw, row, fetch, found);
    let flows = match &raw.flows {
        Some(flows) => number(flows, "flows", 1..=MOST_FLOWS, found),
        None => Some(usual.flows),
    };
    let port = match &raw.port {
        Some(port) => number(port, "port", 1..=u16::MAX, found),
        None => Some(usual.port),
    };
    let dscp = match &raw.dscp {
        Some(token) => filter::codepoint(token, found),
        None => Some(usual.dscp),
    };
    Some(Traffic {
        name: name?,
        kind: kind?,
        pairs: pairs?,
        flows: flows?,
        start: raw.start.as_ref().map_or(Some(usual.start), |it| start(it, found))?,
        stop: raw.stop.as_ref().map(|it| it.get_ref().0),
        port: port?,
        dscp: dscp?,
        tcp: None,
    })
}

/// Largest number of flows for each pair of hosts.
const MOST_FLOWS: u32 = 1_000_000;

fn name(name: &Spanned<String>, found: &mut Findings) -> Option<String> {
    let text = name.get_ref();
    if !is_name(text) {
        let message = format!("`{}` cannot name traffic", text.escape_debug());
        let help = "names have 1 to 32 letters, digits, dashes and underscores; `any` is taken";
        found.push(Diagnostic::error(Code::BadName, name.span(), message).help(help));
    }
    is_name(text).then(|| text.clone())
}

fn unknown_host(host: &Spanned<String>, topology: &Topology, found: &mut Findings) {
    let names: Vec<_> = topology.hosts.iter().map(|it| it.name.as_str()).collect();
    let message = format!("there is no host `{}`", host.get_ref().escape_debug());
    let help = one_of(host.get_ref(), &names);
    found.push(Diagnostic::error(Code::UnknownNode, host.span(), message).help(help));
}

/// Pairs each sender with a receiver. If there is a single sender or a single receiver, it is
/// paired with all hosts of the other side.
fn pairs(
    from: Option<&Spanned<List<String>>>,
    to: Option<&Spanned<List<String>>>,
    found: &mut Findings,
) -> Option<Vec<Pair>> {
    let (from, to) = (from?, to?);
    let (senders, receivers) = (&from.get_ref().0, &to.get_ref().0);
    let count = senders.len().max(receivers.len());
    if [senders, receivers].iter().any(|it| it.len() != 1 && it.len() != count) {
        let message = format!(
            "{} senders cannot be paired with {} receivers",
            senders.len(),
            receivers.len()
        );
        let wrong = Diagnostic::error(Code::BadPairs, to.span(), message);
        found.push(wrong.other(from.span(), "the senders"));
        return None;
    }
    let one =
        |list: &[Spanned<String>], at: usize| Some(list.get(at).or_else(|| list.first())?.clone());
    let mut pairs = Vec::with_capacity(count);
    for at in 0..count {
        let (from, to) = (one(senders, at)?, one(receivers, at)?);
        if from.get_ref() == to.get_ref() {
            let message = format!("`{}` would send to itself", to.get_ref().escape_debug());
            found.push(Diagnostic::error(Code::ToItself, to.span(), message));
        }
        pairs.push(Pair { from: from.into_inner(), to: to.into_inner() });
    }
    Some(pairs)
}

fn start(written: &Spanned<Draw<Period>>, found: &mut Findings) -> Option<Start> {
    match written.get_ref() {
        Draw::Constant(Period(at)) => Some(Start::At(*at)),
        Draw::Uniform(first, last) => {
            if last.get_ref().0 < first.get_ref().0 {
                let message = "the last flow would begin before the first";
                found.push(Diagnostic::error(Code::BadTime, last.span(), message));
            }
            Some(Start::Between(first.get_ref().0, last.get_ref().0))
        }
        _ => {
            let message = "flows begin at one time, or uniformly between two";
            let help = "write start = \"1 s\" or start = { uniform = [\"0 s\", \"5 s\"] }";
            found.push(Diagnostic::error(Code::BadDraw, written.span(), message).help(help));
            None
        }
    }
}

/// Warns of traffic that begins only after the end of the run.
fn too_late(group: &Traffic, raw: &raw::Traffic, file: &File, found: &mut Findings) {
    let duration = file.run.as_ref().and_then(|run| run.get_ref().duration.get());
    let (Start::At(begins) | Start::Between(begins, _)) = group.start;
    if let (Some(written), Some(duration)) = (&raw.start, duration)
        && begins >= duration.get_ref().0
    {
        let message = "this traffic begins after the end of the run";
        let late = Diagnostic::warning(Code::NeverMatches, written.span(), message);
        let help = "begin earlier, or simulate longer";
        found.push(late.other(duration.span(), "the run").help(help));
    }
}

/// Compiles the fields that belong to the kind of traffic.
fn kind(raw: &raw::Traffic, row: &Row<'_>, fetch: Fetch<'_>, found: &mut Findings) -> Option<Kind> {
    let kind = raw.kind.get()?;
    let protocol = protocol(raw, kind, found)?;
    let udp = protocol == Protocol::Udp;
    let used: &[&str] = match kind.get_ref() {
        raw::Kind::Greedy => &[],
        raw::Kind::File => &["size"],
        raw::Kind::OnOff if udp => &["on", "off", "rate", "packet"],
        raw::Kind::OnOff => &["size", "off", "reconnect"],
        raw::Kind::Web => &["request", "size", "think"],
        raw::Kind::Arrivals => &["every", "size"],
        raw::Kind::Constant => &["rate", "packet"],
        raw::Kind::Trace => &["trace"],
        raw::Kind::Relay => &["of", "buffer"],
        raw::Kind::Aggregate => aggregate::used(raw),
    };
    let tcp = if udp { &[][..] } else { &["tcp"] };
    belong(raw, kind, &[used, tcp].concat(), found);
    let mut its = Fields { row, found };
    Some(match kind.get_ref() {
        raw::Kind::Greedy => Kind::Greedy,
        raw::Kind::File => Kind::File { size: its.size(raw.size.as_ref())? },
        raw::Kind::OnOff if udp => {
            let (on, off) = (its.time("on", raw.on.as_ref()), its.time("off", raw.off.as_ref()));
            let (rate, packet) = (its.needed("rate", raw.rate.as_ref()), its.packet(raw));
            Kind::Bursts { rate: *rate?, packet: packet?, on: on?, off: off? }
        }
        raw::Kind::OnOff => {
            let (burst, pause) = (its.size(raw.size.as_ref()), its.time("off", raw.off.as_ref()));
            let reconnect = raw.reconnect.as_ref().is_some_and(|it| it.get_ref().0);
            Kind::OnOff { burst: burst?, pause: pause?, reconnect }
        }
        raw::Kind::Web => {
            let request = raw.request.as_ref().map_or(REQUEST, |it| drawn(it.get_ref(), |it| *it));
            let answer = its.size(raw.size.as_ref());
            let think = its.time("think", raw.think.as_ref());
            Kind::Web { request, answer: answer?, think: think? }
        }
        raw::Kind::Arrivals => {
            let every = its.needed("every", raw.every.as_ref());
            let size = its.size(raw.size.as_ref());
            Kind::Arrivals { every: every?.0, size: size? }
        }
        raw::Kind::Constant => {
            let (rate, packet) = (its.needed("rate", raw.rate.as_ref()), its.packet(raw));
            Kind::Constant { rate: *rate?, packet: packet? }
        }
        raw::Kind::Relay => {
            let (of, buffer) = (its.one_of(raw), its.needed("buffer", raw.buffer.as_ref()));
            Kind::Relay { of: of?, buffer: *buffer? }
        }
        raw::Kind::Aggregate => aggregate::kind(raw, &mut its)?,
        raw::Kind::Trace => {
            let written = raw.trace.as_ref();
            its.needed("trace", written)?;
            let pairs = trace(written?, fetch, its.found)?;
            if udp {
                packets(pairs, written?.span(), its.found)?
            } else {
                Kind::Trace { writes: pairs }
            }
        }
    })
}

/// Default length of a web request with its header fields.
const REQUEST: Distribution<Bytes> = Distribution::Constant(Bytes(300));

/// Default length of a UDP packet in bytes.
const PACKET: u32 = 500;

fn protocol(
    raw: &raw::Traffic,
    kind: &Spanned<raw::Kind>,
    found: &mut Findings,
) -> Option<Protocol> {
    let (usual, other) = match kind.get_ref() {
        raw::Kind::Constant => (Protocol::Udp, None),
        raw::Kind::OnOff | raw::Kind::Trace => (Protocol::Tcp, Some(Protocol::Udp)),
        _ => (Protocol::Tcp, None),
    };
    let Some(written) = &raw.protocol else { return Some(usual) };
    let protocol = *written.get_ref();
    if protocol == usual || Some(protocol) == other {
        return Some(protocol);
    }
    let (protocol, usual) = match usual {
        Protocol::Tcp => ("UDP", "tcp"),
        Protocol::Udp => ("TCP", "udp"),
    };
    let message = format!("traffic of this kind does not go over {protocol}");
    let wrong = Diagnostic::error(Code::NotOfThisKind, written.span(), message);
    let help = format!("leave it out, or write protocol = \"{usual}\"");
    found.push(wrong.other(kind.span(), "the kind").help(help));
    None
}

/// Reports fields that have no meaning with the kind.
fn belong(raw: &raw::Traffic, kind: &Spanned<raw::Kind>, used: &[&str], found: &mut Findings) {
    let fields = [
        ("size", raw.size.as_ref().map(Spanned::span)),
        ("request", raw.request.as_ref().map(Spanned::span)),
        ("think", raw.think.as_ref().map(Spanned::span)),
        ("on", raw.on.as_ref().map(Spanned::span)),
        ("off", raw.off.as_ref().map(Spanned::span)),
        ("reconnect", raw.reconnect.as_ref().map(Spanned::span)),
        ("every", raw.every.as_ref().map(Spanned::span)),
        ("rate", raw.rate.as_ref().map(Spanned::span)),
        ("packet", raw.packet.as_ref().map(Spanned::span)),
        ("trace", raw.trace.as_ref().map(Spanned::span)),
        ("of", raw.of.as_ref().map(Spanned::span)),
        ("buffer", raw.buffer.as_ref().map(Spanned::span)),
        ("overflow", raw.overflow.as_ref().map(Spanned::span)),
        ("weight", raw.weight.as_ref().map(Spanned::span)),
        ("queue", raw.queue.as_ref().map(Spanned::span)),
        ("tcp", raw.tcp.as_ref().map(Spanned::span)),
    ];
    only(&fields, used, kind.span(), found);
}

/// Reports those `fields` of the file that are not in `used`. `kind` is the position of the field
/// `kind`.
fn only(fields: &[(&str, Option<Span>)], used: &[&str], kind: Span, found: &mut Findings) {
    for (name, span) in fields {
        let Some(span) = span.clone().filter(|_| !used.contains(name)) else { continue };
        let message = format!("`{name}` has no meaning with this kind");
        let mut wrong = Diagnostic::error(Code::NotOfThisKind, span, message);
        if !used.is_empty() {
            wrong = wrong.help(format!("this kind uses: {}", used.join(", ")));
        }
        found.push(wrong.other(kind.clone(), "the kind"));
    }
}

/// A table of the file, and its position.
struct Row<'a> {
    place: Span,
    table: Option<&'a DeTable<'a>>,
}

impl<'a> Row<'a> {
    fn new(document: &'a DeTable<'a>, path: &str) -> Self {
        let (place, table) = field::table(document, path).unzip();
        Self { place: place.unwrap_or_default(), table }
    }
}

/// Reads the fields of a table that its kind requires.
struct Fields<'a> {
    row: &'a Row<'a>,
    found: &'a mut Findings,
}

impl Fields<'_> {
    /// Returns a required field. Reports the field if it is missing; the reader has already
    /// reported invalid values.
    fn needed<'a, T>(&mut self, name: &str, field: Option<&'a Spanned<T>>) -> Option<&'a T> {
        let written = self.row.table.is_some_and(|table| table.contains_key(name));
        if field.is_none() && !written {
            let message = format!("`{name}` is missing, which this kind needs");
            let help = format!("add {name}");
            let wrong = Diagnostic::error(Code::MissingField, self.row.place.clone(), message);
            self.found.push(wrong.help(help));
        }
        field.map(Spanned::get_ref)
    }

    fn size(&mut self, field: Option<&Spanned<Draw<Bytes>>>) -> Option<Distribution<Bytes>> {
        self.needed("size", field).map(|it| drawn(it, |it| *it))
    }

    fn time(
        &mut self,
        name: &str,
        field: Option<&Spanned<Draw<Period>>>,
    ) -> Option<Distribution<Duration>> {
        self.needed(name, field).map(|it| drawn(it, |it| it.0))
    }

    /// The name in `of`, if there is exactly one.
    fn one_of(&mut self, raw: &raw::Traffic) -> Option<String> {
        self.needed("of", raw.of.as_ref())?;
        let of = raw.of.as_ref()?;
        let [one] = of.get_ref().0.as_slice() else {
            let message = "a relay forwards one traffic";
            let wrong = Diagnostic::error(Code::BadRelay, of.span(), message);
            self.found.push(wrong.help("add a relay for each"));
            return None;
        };
        Some(one.get_ref().clone())
    }

    fn packet(&mut self, raw: &raw::Traffic) -> Option<u32> {
        raw.packet.as_ref().map_or(Some(PACKET), |it| small(it, self.found))
    }
}

/// Converts a distribution of the file to one of the simulator. `convert` converts its values.
fn drawn<T, U>(draw: &Draw<T>, convert: impl Fn(&T) -> U) -> Distribution<U> {
    match draw {
        Draw::Constant(value) => Distribution::Constant(convert(value)),
        Draw::Uniform(least, most) => {
            Distribution::Uniform(convert(least.get_ref()), convert(most.get_ref()))
        }
        Draw::Exponential(mean) => Distribution::Exponential(convert(mean.get_ref())),
        Draw::Pareto(mean, shape) => {
            let Real(shape) = *shape.get_ref();
            Distribution::Pareto(convert(mean.get_ref()), shape)
        }
        Draw::Lognormal(mean, deviation) => {
            Distribution::Lognormal(convert(mean.get_ref()), convert(deviation.get_ref()))
        }
        Draw::Weibull(mean, shape) => {
            let Real(shape) = *shape.get_ref();
            Distribution::Weibull(convert(mean.get_ref()), shape)
        }
    }
}

/// The length of a packet, which must fit into 32 bits.
pub(super) fn small(written: &Spanned<Bytes>, found: &mut Findings) -> Option<u32> {
    let size = u32::try_from(written.get_ref().0);
    if size.is_err() {
        let message = format!("a packet has at most {} B", u32::MAX);
        found.push(Diagnostic::error(Code::BadPacketSize, written.span(), message));
    }
    size.ok()
}

/// The times and sizes of a trace, from the table or from a file.
fn trace(
    written: &Spanned<raw::Trace>,
    fetch: Fetch<'_>,
    found: &mut Findings,
) -> Option<Vec<(Duration, Bytes)>> {
    let path = match written.get_ref() {
        raw::Trace::Pairs(pairs) => {
            return Some(pairs.iter().map(|(Period(at), size)| (*at, *size)).collect());
        }
        raw::Trace::File(path) => path,
    };
    let text = fetch(path).map_err(|why| {
        let message = format!("cannot read `{}`: {why}", path.escape_debug());
        found.push(Diagnostic::error(Code::NoSuchFile, written.span(), message));
    });
    let mut pairs = Vec::new();
    for (number, line) in (1..).zip(text.ok()?.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.split_once(',').and_then(|(at, size)| {
            Some((units::duration::parse(at.trim()).ok()?, size.trim().parse().ok()?))
        });
        let Some(pair) = pair else {
            let message =
                format!("{}:{number}: this is not a time and a size", path.escape_debug());
            found.push(Diagnostic::error(Code::BadTrace, written.span(), message));
            return None;
        };
        pairs.push(pair);
    }
    Some(pairs)
}

/// Converts a trace to UDP packets.
fn packets(pairs: Vec<(Duration, Bytes)>, place: Span, found: &mut Findings) -> Option<Kind> {
    let small = |(at, size): (Duration, Bytes)| Some((at, u32::try_from(size.0).ok()?));
    let packets: Option<Vec<_>> = pairs.into_iter().map(small).collect();
    if packets.is_none() {
        let message = format!("a packet of the trace is too long: the longest has {} B", u32::MAX);
        found.push(Diagnostic::error(Code::BadPacketSize, place, message));
    }
    packets.map(|packets| Kind::Packets { packets })
}

/// Compiles all probes.
pub(super) fn probes(
    file: &File,
    topology: &Topology,
    document: &DeTable<'_>,
    found: &mut Findings,
) -> Vec<Probe> {
    let ends = Ends::new(file, topology);
    let probe = |(number, raw): (usize, &Spanned<raw::Probe>)| {
        let row = Row::new(document, &format!("probe[{number}]"));
        probe(raw.get_ref(), &row, &ends, found)
    };
    rows(file.probes.as_ref()).iter().enumerate().filter_map(probe).collect()
}

fn probe(raw: &raw::Probe, row: &Row<'_>, ends: &Ends<'_>, found: &mut Findings) -> Option<Probe> {
    let kind = raw.kind.get()?;
    let used: &[&str] = match kind.get_ref() {
        raw::ProbeKind::Queue | raw::ProbeKind::Capture => &["from", "to"],
        raw::ProbeKind::Throughput | raw::ProbeKind::Aggregate => &["traffic"],
        raw::ProbeKind::Window => &["traffic", "flows"],
        raw::ProbeKind::Passage => &["gateway", "direction", "bound", "rounds", "tracked"],
    };
    let fields = [
        ("from", raw.from.as_ref().map(Spanned::span)),
        ("to", raw.to.as_ref().map(Spanned::span)),
        ("traffic", raw.traffic.as_ref().map(Spanned::span)),
        ("flows", raw.flows.as_ref().map(Spanned::span)),
        ("gateway", raw.gateway.as_ref().map(Spanned::span)),
        ("direction", raw.direction.as_ref().map(Spanned::span)),
        ("bound", raw.bound.as_ref().map(Spanned::span)),
        ("rounds", raw.rounds.as_ref().map(Spanned::span)),
        ("tracked", raw.tracked.as_ref().map(Spanned::span)),
    ];
    only(&fields, used, kind.span(), found);
    match kind.get_ref() {
        raw::ProbeKind::Queue => way(raw, row, ends, found).map(Probe::Queue),
        raw::ProbeKind::Capture => way(raw, row, ends, found).map(Probe::Capture),
        raw::ProbeKind::Throughput => {
            let mut its = Fields { row, found };
            let traffic = its.needed("traffic", raw.traffic.as_ref())?.clone();
            Some(Probe::Throughput { traffic })
        }
        raw::ProbeKind::Aggregate => {
            let traffic = Fields { row, found }.needed("traffic", raw.traffic.as_ref())?.clone();
            Some(Probe::Aggregate { traffic })
        }
        raw::ProbeKind::Window => {
            let traffic = Fields { row, found }.needed("traffic", raw.traffic.as_ref())?.clone();
            let written = raw.flows.as_ref().map_or(&[][..], |it| &it.get_ref().0);
            let flows = written.iter().map(|it| number(it, "flows", 0..=u32::MAX, found));
            Some(Probe::Window { traffic, flows: flows.collect::<Option<_>>()? })
        }
        raw::ProbeKind::Passage => {
            let mut its = Fields { row, found };
            let gateway = its.needed("gateway", raw.gateway.as_ref())?.clone();
            let direction = *its.needed("direction", raw.direction.as_ref())?;
            let bound = raw.bound.as_ref().map(|it| it.get_ref().0);
            let rounds = raw.rounds.as_ref().is_some_and(|it| it.get_ref().0);
            let tracked = raw.tracked.as_ref().is_some_and(|it| it.get_ref().0);
            Some(Probe::Passage { gateway, direction, bound, rounds, tracked })
        }
    }
}

fn way(raw: &raw::Probe, row: &Row<'_>, ends: &Ends<'_>, found: &mut Findings) -> Option<Way> {
    let mut its = Fields { row, found };
    its.needed("from", raw.from.as_ref())?;
    its.needed("to", raw.to.as_ref())?;
    let (from, to) = (ends.find(raw.from.as_ref()?, found), ends.find(raw.to.as_ref()?, found));
    Some(Way { from: from?, to: to? })
}
