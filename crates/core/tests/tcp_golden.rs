//! The `ns2-2003` profile beside ns-2: the same segments at the same times, whatever is lost.
//!
//! Among the runs are those of the study of one to four losses in a window (doi
//! 10.1145/235160.235162); the others lose SYNs, the first segments, copies, a whole window, or fill
//! a queue of 8 or 25 packets again and again. A sender behind 8 Mbit/s and 0.1 ms, a bottleneck of
//! 0.8 Mbit/s and 100 ms, 1,000-byte segments. `vectors/ns2/make.sh` made the vectors with ns-2.35.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its vectors has failed")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use tidegate_core::packet::Ecn;
use tidegate_core::tcp::{Config, Connection, EcnMode, Profile, Recovery, Segment};
use tidegate_core::{Bytes, Rate, Time};

/// One way through two links, first in, first out.
struct Path {
    hops: [(Rate, Duration); 2],
    busy_until: [Time; 2],
    /// When those in the second link's queue leave it; how many may wait.
    waiting: VecDeque<Time>,
    queue: usize,
    /// Packets that came to the second link; those lost or marked there, by number.
    count: usize,
    numbers: Vec<usize>,
}

impl Path {
    fn new(hops: [(Rate, Duration); 2], queue: usize, numbers: Vec<usize>) -> Self {
        let waiting = VecDeque::new();
        Self { hops, busy_until: [Time::ZERO; 2], waiting, queue, count: 0, numbers }
    }

    /// When `bytes` sent now arrive; `None` if they are lost on their way into the second link.
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
        while self.waiting.front().is_some_and(|leaves| *leaves <= at) {
            self.waiting.pop_front();
        }
        // ns-2's limit counts the one that comes.
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

/// What ns-2 counts for a header, and for a SACK block.
const HEADER: u64 = 40;
const BLOCK: u64 = 8;
const SEGMENT: u64 = 1_000;

/// Sends for so long; returns when each segment was sent, numbered from one as in ns-2.
fn sent(run: &Run, end: Time) -> Vec<(Time, u64)> {
    let mut config = Config::new(Profile::Ns2);
    config.mss = 1_000;
    config.receive_window = Bytes(run.window * SEGMENT);
    config.details.recovery = run.recovery;
    if run.marks {
        config.details.ecn = EcnMode::Classic;
    }
    let near = (Rate::from_mbps(8), Duration::from_micros(100));
    let far = (Rate::from_kbps(800), Duration::from_millis(100));
    let mut paths = [
        Path::new([near, far], run.queue, run.numbers.clone()),
        Path::new([far, near], usize::MAX, Vec::new()),
    ];
    let mut ends =
        [Connection::connect(&config, Time::ZERO, 0), Connection::listen(&config, Time::ZERO, 0)];
    ends[0].write(u64::MAX);
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
        now = timers.chain(arrival).min().unwrap().max(now);
        if arrival.is_some_and(|at| at <= now) {
            let Reverse((_, segment, to)) = on_wire.pop().unwrap();
            ends[to].handle_segment(now, &segments[segment]);
        }
    }
    log
}

/// A run of ns-2.
struct Run {
    recovery: Recovery,
    window: u64,
    queue: usize,
    /// Whether `numbers` are marked, and not lost.
    marks: bool,
    numbers: Vec<usize>,
    /// When each segment was sent, in microseconds, and its number.
    sent: Vec<(u64, u64)>,
}

impl Run {
    fn parse(line: &str) -> Self {
        let (head, trace) = line.split_once('|').unwrap();
        let mut words = head.split_whitespace();
        let recovery = match words.next().unwrap() {
            "Reno" => Recovery::Reno,
            "Newreno" => Recovery::NewReno,
            "Sack1" => Recovery::Sack,
            other => panic!("{other}"),
        };
        let (mut at, mut number, mut sent) = (0, 0, Vec::new());
        for word in trace.split_whitespace() {
            let (after, named) = word.split_once(':').unwrap_or((word, ""));
            at += after.parse::<u64>().unwrap();
            number = if named.is_empty() { number + 1 } else { named.parse().unwrap() };
            sent.push((at, number));
        }
        Self {
            recovery,
            window: words.next().unwrap().parse().unwrap(),
            queue: words.next().unwrap().parse().unwrap(),
            marks: words.next() == Some("mark"),
            numbers: words.map(|number| number.parse().unwrap()).collect(),
            sent,
        }
    }
}

const VECTORS: &str = include_str!("vectors/ns2/golden.txt");

/// What is left of the comparison: ns-2 prints times to five or six digits.
const TOLERANCE: Duration = Duration::from_micros(20);

#[test]
fn the_same_segments_are_sent_at_the_same_times() {
    let (mut failures, mut segments) = (Vec::new(), 0);
    // Those of Vegas, whose SYN is a full segment there, are for the test of `vegas-ns2`.
    let runs = |line: &&str| !line.starts_with('#') && !line.starts_with("Vegas");
    for line in VECTORS.lines().filter(runs) {
        let run = Run::parse(line);
        let (last, _) = *run.sent.last().unwrap();
        let ours = sent(&run, Time::from_micros(last));
        segments += run.sent.len();
        let differs = |(index, (at, number)): (usize, &(u64, u64))| {
            let (our, our_number) = ours.get(index).copied().unwrap_or_default();
            let theirs = Time::from_micros(*at);
            our_number != *number || our.since(theirs).max(theirs.since(our)) > TOLERANCE
        };
        if let Some(index) = run.sent.iter().enumerate().position(differs) {
            let around = index.saturating_sub(3)..index + 8;
            let show = |(index, (at, number))| {
                if around.contains(&index) { format!(" {at}:{number}") } else { String::new() }
            };
            let ours = ours.iter().map(|(at, number)| (at.nanos() / 1_000, *number));
            failures.push(format!(
                "{}: send {index} of {}\n  ns-2{}\n  ours{}",
                &line[..line.find('|').unwrap()],
                run.sent.len(),
                run.sent.iter().copied().enumerate().map(show).collect::<String>(),
                ours.enumerate().map(show).collect::<String>(),
            ));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(segments > 10_000, "{segments}");
}
