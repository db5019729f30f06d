//! The `ns2-2003` profile against ns-2: the same segments at the same times, under every loss.
//!
//! Some runs are those of a study with one to four losses in a window (doi 10.1145/235160.235162).
//! The other runs lose SYNs, first segments, retransmissions or a whole window, or overflow a queue
//! of 8 or 25 packets repeatedly. The access link has 8 Mbit/s and 0.1 ms, the bottleneck 0.8
//! Mbit/s and 100 ms. Segments have 1,000 bytes. `vectors/ns2/make.sh` made the vectors with
//! ns-2.35, and `validate/ns2/patterns.py` made those of random losses.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its vectors has failed")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use tidegate_base::packet::Ecn;
use tidegate_base::{Bytes, Rate, Time};
use tidegate_tcp::{
    Config, Connection, Details, EcnMode, LimitedTransmit, Pipe, Profile, Recovery, Segment,
};

/// One direction of the path: two links with FIFO queues.
struct Path {
    hops: [(Rate, Duration); 2],
    busy_until: [Time; 2],
    /// Departure times of the packets in the second link's queue, and its limit in packets.
    waiting: VecDeque<Time>,
    queue: usize,
    /// Number of packets that reached the second link, and the numbers of those to lose or mark
    /// there.
    count: usize,
    numbers: Vec<usize>,
}

impl Path {
    fn new(hops: [(Rate, Duration); 2], queue: usize, numbers: Vec<usize>) -> Self {
        let waiting = VecDeque::new();
        Self { hops, busy_until: [Time::ZERO; 2], waiting, queue, count: 0, numbers }
    }

    /// Arrival time of `bytes` sent now; `None` if they are lost before the second link.
    fn carry(&mut self, now: Time, bytes: u64, ecn: &mut Ecn, marks: bool) -> Option<Time> {
        let at = self.hop(0, now, bytes);
        self.count += 1;
        if self.numbers.contains(&(self.count - 1)) {
            match (marks, *ecn) {
                (true, Ecn::NotEct) => {}
                (true, _) => *ecn = Ecn::Ce,
                (false, _) => return None,
            }
        }
        while self.waiting.front().is_some_and(|departs| *departs <= at) {
            self.waiting.pop_front();
        }
        // ns-2 counts the arriving packet against the limit.
        if self.waiting.len() + 1 >= self.queue && self.busy_until[1] > at {
            return None;
        }
        self.waiting.push_back(at.max(self.busy_until[1]));
        Some(self.hop(1, at, bytes))
    }

    fn hop(&mut self, hop: usize, now: Time, bytes: u64) -> Time {
        let (rate, delay) = self.hops[hop];
        self.busy_until[hop] = now.max(self.busy_until[hop]) + rate.time_for(Bytes(bytes));
        self.busy_until[hop] + delay
    }
}

/// Lengths of a header and of a SACK block in ns-2.
const HEADER: u64 = 40;
const BLOCK: u64 = 8;
const SEGMENT: u64 = 1_000;

/// Sends until `end`. Returns the time and number of each segment; numbers start at one, as in
/// ns-2.
fn sent(run: &Run, end: Time, change: Change) -> Vec<(Time, u64)> {
    let mut config = Config::new(Profile::Ns2);
    config.mss = 1_000;
    config.receive_window = Bytes(run.window * SEGMENT);
    config.details.recovery = run.recovery;
    if run.delayed {
        config.details.ack_every = 2;
    }
    if run.marks {
        config.details.ecn = EcnMode::Classic;
    }
    change(&mut config.details);
    let near = (run.links.near, Duration::from_micros(100));
    let far = (Rate::from_kbps(800), run.links.delay);
    let mut paths = [
        Path::new([near, far], run.queue, run.numbers.clone()),
        Path::new([far, near], usize::MAX, Vec::new()),
    ];
    let mut ends =
        [Connection::connect(&config, Time::ZERO, 0), Connection::listen(&config, Time::ZERO, 0)];
    ends[0].write(run.count.map_or(u64::MAX, |segments| segments * SEGMENT));
    let mut on_wire = BinaryHeap::new();
    let mut segments: Vec<Segment> = Vec::new();
    let mut log = Vec::new();
    let mut now = Time::ZERO;
    while now <= end {
        for (from, connection) in ends.iter_mut().enumerate() {
            connection.read(u64::MAX);
            while let Some(mut out) = connection.poll_transmit(now) {
                let (header, sack) = (out.segment.header, out.segment.sack);
                let number = out.offset / SEGMENT + 1;
                if header.payload > 0 {
                    log.push((now, number));
                }
                let blocks = u64::try_from(sack.as_slice().len()).unwrap();
                let bytes = HEADER + u64::from(header.payload) + BLOCK * blocks;
                if let Some(at) = paths[from].carry(now, bytes, &mut out.segment.ecn, run.marks) {
                    on_wire.push(Reverse((at, segments.len(), 1 - from)));
                    segments.push(out.segment);
                }
            }
        }
        let arrival = on_wire.peek().map(|Reverse((at, ..))| *at);
        let timers = ends.iter().filter_map(Connection::poll_timeout);
        // All data is sent and acknowledged.
        let Some(next) = timers.chain(arrival).min() else { break };
        now = next.max(now);
        if arrival.is_some_and(|at| at <= now) {
            let Reverse((_, segment, to)) = on_wire.pop().unwrap();
            ends[to].handle_segment(now, &segments[segment]);
        }
    }
    log
}

/// Differences between the networks of the two vector files.
#[derive(Clone, Copy)]
struct Links {
    /// Rate of the first link.
    near: Rate,
    /// Delay of the second link.
    delay: Duration,
}

const GOLDEN: Links = Links { near: Rate::from_mbps(8), delay: Duration::from_millis(100) };
/// Values for which no two events coincide. Otherwise rounding would decide their order.
const RANDOM: Links = Links { near: Rate::from_kbps(7_300), delay: Duration::from_micros(97_317) };

/// One recorded run of ns-2.
struct Run {
    links: Links,
    recovery: Recovery,
    /// The receiver delays ACKs.
    delayed: bool,
    /// Number of segments to send; `None` for a sender that never stops.
    count: Option<u64>,
    window: u64,
    queue: usize,
    /// The packets in `numbers` are marked instead of lost.
    marks: bool,
    numbers: Vec<usize>,
    /// Time in microseconds and number of each sent segment.
    sent: Vec<(u64, u64)>,
}

impl Run {
    fn parse(links: Links, line: &str) -> Self {
        let (head, trace) = line.split_once('|').unwrap();
        let mut words = head.split_whitespace();
        let name = words.next().unwrap();
        let (name, count) = name
            .split_once('*')
            .map_or((name, None), |(name, count)| (name, Some(count.parse().unwrap())));
        let variant = name.strip_suffix("+delayed");
        let recovery = match variant.unwrap_or(name) {
            "Tahoe" => Recovery::Tahoe,
            "Reno" => Recovery::Reno,
            "Newreno" => Recovery::NewReno,
            "Sack1" => Recovery::Sack,
            other => panic!("{other}"),
        };
        let (mut at, mut number, mut sent) = (0, 0, Vec::new());
        for word in trace.split_whitespace().flat_map(repeated) {
            let (after, named) = word.split_once(':').unwrap_or((word, ""));
            at += after.parse::<u64>().unwrap();
            number = if named.is_empty() { number + 1 } else { named.parse().unwrap() };
            sent.push((at, number));
        }
        Self {
            links,
            recovery,
            delayed: variant.is_some(),
            count,
            window: words.next().unwrap().parse().unwrap(),
            queue: words.next().unwrap().parse().unwrap(),
            marks: words.next() == Some("mark"),
            numbers: words.map(|number| number.parse().unwrap()).collect(),
            sent,
        }
    }
}

/// `word` without its suffix `xN`, N times.
fn repeated(word: &str) -> impl Iterator<Item = &str> {
    let (word, times) = word.split_once('x').unwrap_or((word, "1"));
    std::iter::repeat_n(word, times.parse().unwrap())
}

const VECTORS: &str = include_str!("vectors/ns2/golden.txt");

/// ns-2 prints times with five or six digits, so they are not exact.
const TOLERANCE: Duration = Duration::from_micros(20);

const PATTERNS: &str = include_str!("vectors/ns2/patterns.txt");

/// A change to the profile.
type Change = fn(&mut Details);

/// No change to the profile.
const UNCHANGED: Change = |_| {};

/// Compares a sender, whose profile is changed by `change`, with the run in `line`. Returns the
/// first difference.
fn difference(links: Links, line: &str, change: Change) -> Option<String> {
    let run = Run::parse(links, line);
    let (last, _) = *run.sent.last().unwrap();
    let ours = sent(&run, Time::from_micros(last) + TOLERANCE, change);
    let differs = |(index, (at, number)): (usize, &(u64, u64))| {
        let (our, our_number) = ours.get(index).copied().unwrap_or_default();
        let theirs = Time::from_micros(*at);
        our_number != *number || our.since(theirs).max(theirs.since(our)) > TOLERANCE
    };
    let index = run.sent.iter().enumerate().position(differs)?;
    let around = index.saturating_sub(3)..index + 8;
    let show = |(index, (at, number))| {
        if around.contains(&index) { format!(" {at}:{number}") } else { String::new() }
    };
    let ours = ours.iter().map(|(at, number)| (at.nanos() / 1_000, *number));
    Some(format!(
        "{}: send {index} of {}\n  ns-2{}\n  ours{}",
        &line[..line.find('|').unwrap()],
        run.sent.len(),
        run.sent.iter().copied().enumerate().map(show).collect::<String>(),
        ours.enumerate().map(show).collect::<String>(),
    ))
}

#[test]
fn segments_are_sent_at_the_times_of_ns2() {
    // The runs of Vegas have a SYN as long as a full segment; the test of `vegas-ns2` uses them.
    let runs = |line: &&str| !line.starts_with('#') && !line.starts_with("Vegas");
    let lines: Vec<_> = VECTORS.lines().filter(runs).collect();
    let segments: usize = lines.iter().map(|line| Run::parse(GOLDEN, line).sent.len()).sum();
    let failures: Vec<_> =
        lines.iter().filter_map(|line| difference(GOLDEN, line, UNCHANGED)).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(segments > 10_000, "{segments}");
}

fn patterns() -> Vec<&'static str> {
    PATTERNS.lines().filter(|line| !line.starts_with('#')).collect()
}

/// Random losses: several in a window, retransmissions, whole windows, last segments.
#[test]
fn random_loss_patterns_are_repaired_as_in_ns2() {
    let lines = patterns();
    let mut agree = BTreeMap::new();
    let mut failures = Vec::new();
    for line in &lines {
        let variant = line.split(['*', ' ']).next().unwrap();
        let (same, all) = agree.entry(variant).or_insert((0, 0));
        let found = difference(RANDOM, line, UNCHANGED);
        *same += u32::from(found.is_none());
        *all += 1;
        failures.extend(found);
    }
    assert!(failures.is_empty(), "\n{}\nagree: {agree:?}", failures.join("\n"));
    assert!(lines.len() >= 200, "{}", lines.len());
}

/// Each detail that is special to ns-2, set to the value of the other profiles.
const REVERTED: &[(&str, Change)] = &[
    ("delays_copies", |details| details.delays_copies = false),
    ("dsack", |details| details.dsack = true),
    ("grow_on_exit", |details| details.grow_on_exit = false),
    ("inflation_stays", |details| details.inflation_stays = false),
    ("limited_transmit", |details| details.limited_transmit = LimitedTransmit::Open),
    ("pipe", |details| details.pipe = Pipe::Scoreboard),
    ("recovery", |details| {
        if details.recovery == Recovery::Tahoe {
            details.recovery = Recovery::Reno;
        }
    }),
    ("recovery_burst", |details| details.recovery_burst = 0),
    ("rtt_in_steps", |details| details.rtt_in_steps = false),
    ("sack_recent_only", |details| details.sack_recent_only = false),
    ("syn_loss_is_a_timeout", |details| details.syn_loss_is_a_timeout = false),
    ("whole_threshold", |details| details.whole_threshold = false),
    ("window_updates", |details| details.window_updates = true),
];

/// Catches: one of these details missing in the profile or in the sender.
#[test]
fn every_detail_of_ns2_shows_in_some_pattern() {
    let lines = patterns();
    let differing =
        |change| lines.iter().filter(|line| difference(RANDOM, line, change).is_some()).count();
    let counts: Vec<_> = REVERTED.iter().map(|(name, change)| (name, differing(*change))).collect();
    println!("patterns of {} that differ: {counts:?}", lines.len());
    assert!(counts.iter().all(|(_, differ)| *differ > 0), "{counts:?}");
}
