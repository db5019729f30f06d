//! Two end points and a link between them, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tidegate_base::packet::Ecn;
use tidegate_base::random::Random;
use tidegate_base::{Bytes, Chance, Rate, Time};
use tidegate_tcp::{Config, Connection, Event, Outgoing, Statistics};

/// Properties of one direction of the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    pub(crate) delay: Duration,
    /// Maximum of the random extra delay per segment. If it exceeds the segment's own time,
    /// segments are reordered.
    pub(crate) jitter: Duration,
    pub(crate) loss: Chance,
    pub(crate) duplication: Chance,
    pub(crate) marking: Chance,
    pub(crate) rate: Rate,
    /// Queue limit in bytes.
    pub(crate) queue: u64,
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(10),
            jitter: Duration::ZERO,
            loss: Chance::NEVER,
            duplication: Chance::NEVER,
            marking: Chance::NEVER,
            rate: Rate::from_mbps(10),
            queue: 20_000,
        }
    }
}

/// One end: its connection, its events and its received data.
pub(crate) struct End {
    pub(crate) connection: Connection,
    pub(crate) events: Vec<Event>,
    /// Ranges of the stream that arrived, unsorted.
    arrived: Vec<(u64, u64)>,
    busy_until: Time,
    wire: Wire,
}

/// Both ends and the segments in transit.
pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) ends: [End; 2],
    on_wire: BinaryHeap<Reverse<(Time, u64, usize, Carried)>>,
    sequence: u64,
    random: Random,
    pub(crate) steps: u64,
}

/// A segment in transit. The heap orders segments by time and number, so all compare as equal.
#[derive(Clone, Copy, Debug)]
struct Carried(Outgoing);

impl PartialEq for Carried {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Carried {}
impl PartialOrd for Carried {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Carried {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// Headers of a segment on the wire, in bytes.
const HEADERS: u64 = 52;

impl Net {
    /// End 0 connects to end 1. `wires[n]` carries the segments of end `n`.
    pub(crate) fn new(configs: [&Config; 2], isns: [u32; 2], wires: [Wire; 2], seed: u64) -> Self {
        let [client, server] =
            configs.map(|config| Config { reports_arrivals: true, ..config.clone() });
        let end = |connection, wire| End {
            connection,
            events: Vec::new(),
            arrived: Vec::new(),
            busy_until: Time::ZERO,
            wire,
        };
        Self {
            now: Time::ZERO,
            ends: [
                end(Connection::connect(&client, Time::ZERO, isns[0]), wires[0]),
                end(Connection::listen(&server, Time::ZERO, isns[1]), wires[1]),
            ],
            on_wire: BinaryHeap::new(),
            sequence: 0,
            random: Random::new(seed, 0),
            steps: 0,
        }
    }

    /// Runs until `end`, or until no event remains.
    pub(crate) fn run_until(&mut self, end: Time) {
        loop {
            for from in 0..2 {
                self.drain(from);
            }
            let arrival = self.on_wire.peek().map(|Reverse((at, ..))| *at);
            let timeouts = self.ends.iter().filter_map(|end| end.connection.poll_timeout());
            let Some(next) = timeouts.chain(arrival).min().filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            self.steps += 1;
            while let Some(Reverse((_, _, to, Carried(out)))) =
                self.on_wire.peek().filter(|Reverse((at, ..))| *at <= self.now).copied()
            {
                self.on_wire.pop();
                self.deliver(to, &out);
                self.drain(to);
            }
        }
    }

    fn drain(&mut self, from: usize) {
        let mut sent = 0;
        while let Some(out) = self.ends[from].connection.poll_transmit(self.now) {
            sent += 1;
            assert!(sent < 100_000, "sends without end at {:?}", self.now);
            self.carry(from, out);
        }
        self.note_events(from, None);
    }

    fn carry(&mut self, from: usize, mut out: Outgoing) {
        let wire = self.ends[from].wire;
        let len = u64::from(out.segment.header.payload) + HEADERS;
        let waits = self.ends[from].busy_until.since(self.now);
        if wire.rate.bytes_in(waits).0 + len > wire.queue || self.random.happens(wire.loss) {
            return;
        }
        if out.segment.ecn != Ecn::NotEct && self.random.happens(wire.marking) {
            out.segment.ecn = Ecn::Ce;
        }
        let departs = self.now + waits + wire.rate.time_for(Bytes(len));
        self.ends[from].busy_until = departs;
        let copies = 1 + usize::from(self.random.happens(wire.duplication));
        for _ in 0..copies {
            let jitter = self.random.below(wire.jitter.as_nanos().try_into().unwrap_or(0) + 1);
            let at = departs + wire.delay + Duration::from_nanos(jitter);
            self.on_wire.push(Reverse((at, self.sequence, 1 - from, Carried(out))));
            self.sequence += 1;
        }
    }

    fn deliver(&mut self, to: usize, out: &Outgoing) {
        self.ends[to].connection.handle_segment(self.now, &out.segment);
        self.note_events(to, Some(out));
        let end = &mut self.ends[to];
        let readable = end.connection.readable();
        end.connection.read(readable);
    }

    /// Takes the events of an end. `out` is the segment that it just received. The end closes when
    /// its peer closes.
    fn note_events(&mut self, at: usize, out: Option<&Outgoing>) {
        let end = &mut self.ends[at];
        while let Some(event) = end.connection.poll_event() {
            if let Event::Arrived { offset, len } = event {
                let out = out.expect("data arrives with a segment");
                let payload = out.offset..out.offset + u64::from(out.segment.header.payload);
                assert!(
                    payload.contains(&offset) && offset + len <= payload.end,
                    "{offset}+{len} arrived in a segment of {payload:?}"
                );
                end.arrived.push((offset, offset + len));
                continue;
            }
            if event == Event::PeerClosed {
                end.connection.close();
            }
            end.events.push(event);
        }
    }

    /// Length of the stream, from its beginning, that arrived without a hole.
    pub(crate) fn whole(&self, end: usize) -> u64 {
        let mut ranges = self.ends[end].arrived.clone();
        ranges.sort_unstable();
        ranges
            .iter()
            .fold(0, |whole, (from, to)| if *from <= whole { whole.max(*to) } else { whole })
    }

    pub(crate) fn statistics(&self, end: usize) -> Statistics {
        self.ends[end].connection.statistics()
    }
}
