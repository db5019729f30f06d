//! Compares the trackers of a marking with the true windows and round trips of the senders.
//!
//! A marking predicts when a queue will overflow, and marks packets before. Its tracker estimates
//! the window and the round-trip time of each flow from the packets that pass.
//!
//! Six connections share a marking queue of 10 Mbit/s. Senders and receivers are TCP end points of
//! the core. So the test can read their true windows, and it records when each segment is sent and
//! acknowledged.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::flow::FlowTable;
use tidegate_core::marking::tracker::{Sighting, Track, TrackerSpec};
use tidegate_core::packet::{
    Direction, Ecn, Endpoint, FlowId, FlowKey, NO_VLAN, Network, Packet, Protocol,
};
use tidegate_core::random::Random;
use tidegate_core::tcp::{Config, Connection, Outgoing, Segment};
use tidegate_core::{Bytes, Rate, Time};

const RATE: Rate = Rate::from_mbps(10);
const ACCESS: Rate = Rate::from_mbps(100);
/// The queue marks packets when it is longer than `MARKS_FROM` bytes, and drops packets when it is
/// longer than `LIMIT` bytes.
const MARKS_FROM: u32 = 30_000;
const LIMIT: u32 = 150_000;
/// When the queue has twice `MARKS_FROM` bytes, one of `ONE_IN` arriving packets is marked.
const ONE_IN: u64 = 40;
/// Start and end of the evaluation. Windows are still small before.
const FROM: Time = Time::from_secs(5);
const UNTIL: Time = Time::from_secs(40);
/// Round-trip times of the connections without queueing, as in the experiments of the paper.
const RTT_MS: [u64; 6] = [24, 55, 86, 118, 149, 180];

/// A data segment that was sent.
struct Sent {
    seq: u32,
    at: Time,
    /// Time of arrival at the queue.
    queued: Time,
    /// Congestion window after this segment was sent, in whole segments.
    window: f64,
    retransmission: bool,
}

/// A round as a tracker sees it at its start.
struct Round {
    /// Index in `sent` of the segment that begins the round.
    sent: usize,
    rtt: f64,
    /// The tracker's estimate of the window in segments.
    window: f64,
}

struct Conversation {
    ends: [Connection; 2],
    key: FlowKey,
    /// Direction of the data.
    direction: Direction,
    id: FlowId,
    /// Delay between the gateway and the sender, and between the gateway and the receiver.
    delays: [Duration; 2],
    busy_until: [Time; 2],
    /// Time of each end's next timeout.
    timers: [Time; 2],
    tracks: Vec<Option<Track>>,
    rounds: Vec<Vec<Round>>,
    sent: Vec<Sent>,
    /// Times at which ACKs reach the sender, and their acknowledgement numbers.
    acks: Vec<(Time, u32)>,
}

/// Events of the test's own event loop. The numbers are the connection and the end (0 sender, 1
/// receiver).
#[derive(Clone, Copy)]
enum Event {
    /// A segment of this end arrives at the gateway.
    Gateway(usize, usize, Segment),
    /// The first packet of the queue has been transmitted.
    Departure,
    /// A segment arrives at this end.
    Delivery(usize, usize, Segment),
    /// The timer of this end may have expired.
    Timer(usize, usize),
}

struct World {
    now: Time,
    flows: FlowTable,
    all: Vec<Conversation>,
    agenda: BTreeMap<(Time, u64), Event>,
    number: u64,
    queue: VecDeque<(usize, Packet, Segment)>,
    backlog: u32,
    random: Random,
}

fn packet_of(key: FlowKey, segment: &Segment) -> Packet {
    let headers = 34 + segment.header_len();
    let len = headers + segment.header.payload;
    Packet {
        len,
        cost: len,
        key,
        tcp: Some(segment.header),
        network: Network::Ipv4,
        network_offset: 14,
        transport_offset: 34,
        vlan: NO_VLAN,
        segments: 1,
        ecn: segment.ecn,
        ..Packet::default()
    }
}

impl World {
    fn new(config: &Config, specs: &[TrackerSpec], seed: u64) -> Self {
        let mut world = Self {
            now: Time::ZERO,
            flows: FlowTable::new(16, seed),
            all: Vec::new(),
            agenda: BTreeMap::new(),
            number: 0,
            queue: VecDeque::new(),
            backlog: 0,
            random: Random::new(seed, 1),
        };
        for (n, rtt) in RTT_MS.into_iter().enumerate() {
            let host = u8::try_from(n).expect("six of them");
            let end = |net| Endpoint::v4([10, net, 0, host], 5_000);
            // Alternately, senders are near the gateway (a tenth of the path) or far from it (a
            // third).
            let (direction, share) = [(Direction::Up, 10), (Direction::Down, 3)][n % 2];
            let near = Duration::from_millis(rtt) / 2 / share;
            world.all.push(Conversation {
                ends: [
                    Connection::connect(config, Time::ZERO, u32::MAX - 9_999),
                    Connection::listen(config, Time::ZERO, 77),
                ],
                key: FlowKey { src: end(1), dst: end(2), protocol: Protocol::TCP },
                direction,
                id: FlowId::NONE,
                delays: [near, Duration::from_millis(rtt) / 2 - near],
                busy_until: [Time::ZERO; 2],
                timers: [Time::ZERO; 2],
                tracks: vec![None; specs.len()],
                rounds: specs.iter().map(|_| Vec::new()).collect(),
                sent: Vec::new(),
                acks: Vec::new(),
            });
            world.all[n].ends[0].write(1 << 40);
            world.at(Time::from_millis(50 * u64::from(host)), Event::Timer(n, 0));
        }
        world
    }

    fn at(&mut self, time: Time, event: Event) {
        self.number += 1;
        self.agenda.insert((time, self.number), event);
    }

    fn run(&mut self, specs: &[TrackerSpec]) {
        while let Some(((time, _), event)) = self.agenda.pop_first() {
            if time > UNTIL {
                return;
            }
            self.now = time;
            match event {
                Event::Gateway(of, from, segment) => self.gateway(specs, of, from, segment),
                Event::Departure => self.departure(),
                Event::Delivery(of, to, segment) => {
                    let flow = &mut self.all[of];
                    flow.ends[to].handle_segment(time, &segment);
                    let read = flow.ends[to].readable();
                    flow.ends[to].read(read);
                    if to == 0 {
                        flow.acks.push((time, segment.header.ack));
                    }
                    self.drain(of, to);
                }
                Event::Timer(of, end) if self.all[of].timers[end] <= time => self.drain(of, end),
                Event::Timer(..) => {}
            }
        }
    }

    fn drain(&mut self, of: usize, end: usize) {
        while self.all[of].ends[end].poll_event().is_some() {}
        while let Some(out) = self.all[of].ends[end].poll_transmit(self.now) {
            let Outgoing { segment, retransmission, .. } = out;
            let flow = &mut self.all[of];
            let len = Bytes(u64::from(segment.header_len() + segment.header.payload + 34));
            flow.busy_until[end] = flow.busy_until[end].max(self.now) + ACCESS.time_for(len);
            let arrives = flow.busy_until[end] + flow.delays[end];
            if end == 0 && segment.header.payload > 0 {
                let progress = flow.ends[0].progress();
                flow.sent.push(Sent {
                    seq: segment.header.seq,
                    at: self.now,
                    queued: arrives,
                    window: real(progress.congestion_window / progress.segment),
                    retransmission,
                });
            }
            self.at(arrives, Event::Gateway(of, end, segment));
        }
        let next = self.all[of].ends[end].poll_timeout().unwrap_or(Time::MAX);
        if self.all[of].timers[end] != next {
            self.all[of].timers[end] = next;
            self.at(next, Event::Timer(of, end));
        }
    }

    /// A packet arrives at the gateway. Data waits in the queue; ACKs pass without delay.
    fn gateway(&mut self, specs: &[TrackerSpec], of: usize, from: usize, mut segment: Segment) {
        let conversation = &mut self.all[of];
        let (key, direction) = match from {
            0 => (conversation.key, conversation.direction),
            _ => (conversation.key.reverse(), conversation.direction.reverse()),
        };
        let mut packet = packet_of(key, &segment);
        if conversation.id == FlowId::NONE {
            let inserted = self.flows.insert(self.now, &packet, direction);
            conversation.id = inserted.expect("there is room").id;
        }
        let flow = &mut self.flows[conversation.id];
        flow.on_arrival(self.now, &mut packet, direction);
        if from == 1 {
            flow.on_departure(self.now, &packet, direction);
            let seen = Sighting { now: self.now, packet: &packet, direction, flow: Some(flow) };
            for track in conversation.tracks.iter_mut().flatten() {
                track.on_ack(&seen);
            }
            let arrives = self.now + conversation.delays[0];
            return self.at(arrives, Event::Delivery(of, 0, segment));
        }
        let seen = Sighting { now: self.now, packet: &packet, direction, flow: Some(flow) };
        for (at, spec) in specs.iter().enumerate() {
            conversation.sight(at, spec, &seen);
        }
        if self.backlog + packet.len > LIMIT {
            return conversation
                .tracks
                .iter_mut()
                .flatten()
                .for_each(|track| track.on_drop(self.now));
        }
        let above = u64::from(self.backlog.saturating_sub(MARKS_FROM));
        if segment.ecn != Ecn::NotEct && self.random.below(u64::from(MARKS_FROM) * ONE_IN) < above {
            segment.ecn = Ecn::Ce;
            conversation.tracks.iter_mut().flatten().for_each(|track| track.on_mark(self.now));
        }
        self.backlog += packet.len;
        self.queue.push_back((of, packet, segment));
        if self.queue.len() == 1 {
            self.at(self.now + RATE.time_for(packet.frame_len()), Event::Departure);
        }
    }

    fn departure(&mut self) {
        let (of, packet, segment) = self.queue.pop_front().expect("it was sent");
        self.backlog -= packet.len;
        let conversation = &self.all[of];
        let flow = &mut self.flows[conversation.id];
        flow.on_departure(self.now, &packet, conversation.direction);
        self.at(self.now + conversation.delays[1], Event::Delivery(of, 1, segment));
        if let Some((_, next, _)) = self.queue.front() {
            self.at(self.now + RATE.time_for(next.frame_len()), Event::Departure);
        }
    }
}

impl Conversation {
    fn sight(&mut self, at: usize, spec: &TrackerSpec, seen: &Sighting<'_>) {
        let Some(track) = &mut self.tracks[at] else {
            self.tracks[at] = Some(Track::new(spec, seen));
            return;
        };
        let before = track.estimate(seen.now).round_start;
        track.on_arrival(seen);
        let after = track.estimate(seen.now);
        if after.round_start != before && seen.now >= FROM {
            let sent = self.sent.partition_point(|sent| sent.queued < seen.now);
            let window = real(after.window.0) / real(u64::from(seen.packet.len));
            let rtt = after.rtt.as_secs_f64();
            self.rounds[at].push(Round { sent, rtt, window });
        }
    }

    /// The errors of tracker `at`, for each pair of successive rounds.
    fn errors(&self, at: usize) -> Vec<[f64; 5]> {
        let rounds = &self.rounds[at];
        let pairs = rounds.iter().zip(rounds.iter().skip(1));
        pairs.filter_map(|(one, next)| self.error(one, next)).collect()
    }

    /// Errors of the tracker about round `next`: first as absolute values, of the window and the
    /// round-trip time (relative) and of the round's start (in round-trip times). Then the errors
    /// of the window and the round-trip time with their signs.
    fn error(&self, one: &Round, next: &Round) -> Option<[f64; 5]> {
        let (first, begins) = (&self.sent[one.sent], &self.sent[next.sent]);
        // An ACK of a retransmitted segment may be for the first copy, so its round-trip time is
        // unknown.
        if first.retransmission || begins.retransmission {
            return None;
        }
        let covers = |ack: u32, seq: u32| ack.wrapping_sub(seq + 1) < 1 << 30;
        let later = self.acks.partition_point(|(at, _)| *at < first.at);
        let (acked, _) = self.acks[later..].iter().find(|(_, ack)| covers(*ack, first.seq))?;
        let true_rtt = acked.since(first.at).as_secs_f64();
        // The true next round begins with the first data sent after the ACK.
        let reaction = &self.sent[self.sent.partition_point(|sent| sent.at < *acked)..];
        let start = reaction.first()?.queued;
        let off = real(begins.queued.nanos()) - real(start.nanos());
        let window = next.window / begins.window - 1.0;
        let rtt = next.rtt / true_rtt - 1.0;
        Some([window.abs(), rtt.abs(), (off / 1e9 / true_rtt).abs(), window, rtt])
    }
}

#[expect(clippy::as_conversions, reason = "the numbers are far below 2^53")]
const fn real(number: u64) -> f64 {
    number as f64
}

fn count(number: usize) -> f64 {
    real(u64::try_from(number).unwrap_or(u64::MAX))
}

/// For each tracker: the mean errors over all rounds of all connections (as in `error`), the number
/// of rounds, and the number of connections that the tracker believes to respond to marks.
fn accuracy(config: &Config, specs: &[TrackerSpec]) -> Vec<([f64; 5], usize, usize)> {
    let mut world = World::new(config, specs, 3);
    world.run(specs);
    let mean = |at: usize| {
        let all: Vec<_> = world.all.iter().flat_map(|flow| flow.errors(at)).collect();
        let sum = |n: usize| all.iter().map(|errors| errors[n]).sum::<f64>();
        let responds = |flow: &&Conversation| {
            flow.tracks[at].is_some_and(|track| track.estimate(world.now).responds)
        };
        let means = [0, 1, 2, 3, 4].map(|n| sum(n) / count(all.len()));
        (means, all.len(), world.all.iter().filter(responds).count())
    };
    (0..specs.len()).map(mean).collect()
}

/// Prints the errors of both trackers for each kind of sender.
///
/// Catches: rounds that end when the ACK passes the gateway, without its further delay to the
/// sender; a window without the bytes of the last round; round-trip times measured on
/// retransmissions; rounds separated by pauses in the arrivals.
#[test]
fn the_tracker_two_way_estimates_windows_rtts_and_rounds_of_new_reno_and_cubic() {
    let ecn = |profile| json!({ "profile": profile, "ecn": "classic" });
    let with = |mut base: Value, more: Value| {
        let more = more.as_object().unwrap().clone();
        base.as_object_mut().unwrap().extend(more);
        base
    };
    let (ns2, linux) = (ecn("ns2-2003"), ecn("linux"));
    let new_reno = json!({ "congestion": "newreno" });
    let bbr = json!({ "congestion": "bbr", "pacing": true });
    let kinds = [
        ("NewReno, ns2-2003", true, ns2.clone()),
        ("NewReno, ns2-2003, delayed ACKs", true, with(ns2, json!({ "ack_every": 2 }))),
        ("NewReno, rfc, delayed ACKs", true, with(ecn("rfc"), new_reno)),
        ("CUBIC, linux, an ACK for each", true, with(linux.clone(), json!({ "ack_every": 1 }))),
        ("CUBIC, linux, delayed ACKs", true, linux.clone()),
        ("CUBIC, linux, paced", false, with(linux.clone(), json!({ "pacing": true }))),
        ("BBR, linux, paced", false, with(linux, bbr)),
    ];
    let specs = ["two-way", "paper", "paper+idle"]
        .map(|name| serde_json::from_value::<TrackerSpec>(json!(name)).unwrap());
    println!(
        "{:34}{:12}{:>8}{:>8}{:>8}{:>9}{:>9}{:>8}{:>8}",
        "sender", "tracker", "|window|", "|rtt|", "start", "window", "rtt", "rounds", "respond"
    );
    let mut all = Vec::new();
    for (name, judged, described) in kinds {
        let config = serde_json::from_value(described).unwrap();
        for (spec, (errors, rounds, respond)) in specs.iter().zip(accuracy(&config, &specs)) {
            let [window, rtt, start, signed_window, signed_rtt] = errors.map(|error| 100.0 * error);
            println!(
                "{name:34}{:12}{window:7.2}%{rtt:7.2}%{start:7.2}%{signed_window:+8.2}%{signed_rtt:+8.2}%{rounds:8}{respond:8}",
                spec.name()
            );
            if judged && spec.name() == "two-way" {
                all.push((name, errors, rounds, respond));
            }
        }
    }
    for (name, [window, rtt, start, ..], rounds, respond) in all {
        assert_eq!(respond, RTT_MS.len(), "{name}: some are held to ignore marks");
        assert!(rounds > 500, "{name}: {rounds} rounds");
        assert!(window < 0.05, "{name}: the window is off by {window}");
        assert!(rtt < 0.05, "{name}: the round-trip time is off by {rtt}");
        assert!(start < 0.1, "{name}: rounds begin off by {start} round-trip times");
    }
}
