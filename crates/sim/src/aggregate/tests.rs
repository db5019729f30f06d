//! Tests of the queue alone: round robin, limits, and the assignment of bytes to files.

use super::*;

const SEGMENT: u64 = 1_000;

fn aggregate(overflow: Overflow) -> Aggregate {
    let mut sinks = Sinks::default();
    let sink = sinks.add(0);
    to(sink, overflow)
}

fn to(sink: usize, overflow: Overflow) -> Aggregate {
    let tcp = Config { mss: 1_000, ..Config::default() };
    let kind = Kind::Aggregate { of: Vec::new(), overflow, weight: None };
    Aggregate::new(9, sink, &Traffic { kind, ..Traffic::default() }, &tcp)
}

/// Takes up to `n` segments. Returns the file and the length of each.
fn segments(aggregate: &mut Aggregate, n: usize) -> Vec<(u32, u64)> {
    let segment = |_| {
        let bytes = aggregate.next()?;
        aggregate.check_passing();
        Some((aggregate.passing.back()?.0, bytes))
    };
    (0..n).map_while(segment).collect()
}

impl Aggregate {
    fn check_passing(&self) {
        self.files.iter().for_each(|file| assert!(file.written <= file.read));
    }
}

/// Catches: first come, first served; a file with new bytes that is served out of order; a file's
/// last segment filled up with bytes of another file; a file served twice in a round.
#[test]
fn waiting_files_send_a_segment_each_in_round_robin() {
    let mut it = aggregate(Overflow::Grow);
    let [a, b, c] = [0, 1, 2].map(|flow| it.open(flow, flow));
    assert_eq!(it.admit(a, 2_500), 2_500);
    assert_eq!(it.admit(b, 1_000), 1_000);
    assert_eq!(segments(&mut it, 2), [(a, SEGMENT), (b, SEGMENT)]);
    it.admit(c, 3_000);
    it.admit(b, 500);
    let expected = [(a, SEGMENT), (c, SEGMENT), (b, 500), (a, 500), (c, SEGMENT), (c, SEGMENT)];
    assert_eq!(segments(&mut it, 9), expected);
    it.check();
}

/// Catches: bytes assigned to the file that wrote last; a transfer that ends at the wrong byte; two
/// transfers of one connection reported as one.
#[test]
fn the_sink_assigns_bytes_to_files_in_the_order_of_writing() {
    let mut it = aggregate(Overflow::Grow);
    let [a, b] = [0, 1].map(|flow| it.open(flow, flow));
    let part = |at, bytes| Part { at, began: Time::from_secs(at), bytes };
    it.promise(a, part(1_500, 1_500));
    it.promise(b, part(300, 300));
    it.promise(b, part(1_000, 700));
    it.admit(a, 1_500);
    it.admit(b, 1_000);
    segments(&mut it, 3);
    it.end(a);
    let mut seen = Transfers::default();
    let mut ended = |it: &mut Aggregate, bytes| {
        it.totals.sent += bytes;
        it.deliver(Time::from_secs(7), bytes, &mut seen);
        it.check();
        seen.flow.clone()
    };
    assert_eq!(ended(&mut it, 1_299), []);
    assert_eq!(ended(&mut it, 1), [1]);
    assert_eq!(ended(&mut it, 1_199), [1, 1]);
    assert_eq!(it.files(), 2);
    assert_eq!(ended(&mut it, 1), [1, 1, 0]);
    // The local connection of `b` is still open.
    assert_eq!((it.files(), it.connections()), (1, 1));
    assert_eq!(seen.bytes, [300, 700, 1_500]);
}

/// Catches: a limit that ignores bytes in the sender; a file that was stopped first but resumed
/// last; a parked file that blocks other files, or is never resumed.
#[test]
fn stopped_files_resume_in_order_as_room_appears() {
    let buffer = Some(Bytes(1_500));
    let mut it = aggregate(Overflow::Slow { queue: Bytes(4_000), buffer });
    let [a, b, c, d] = [0, 1, 2, 3].map(|flow| it.open(flow, flow));
    assert_eq!([it.admit(a, 5_000), it.admit(b, 5_000)], [1_500, 0]);
    // `a` has filled its own buffer. `b` came after a stopped file. So both wait in `stopped`.
    assert_eq!(it.resume(), Some((b, 1, SEGMENT)));
    it.resumed(b, SEGMENT, 4_000);
    assert_eq!(it.admit(c, 2_000), 0);
    assert_eq!(it.resume(), Some((b, 1, 500)));
    it.resumed(b, 500, 3_500);
    assert_eq!(it.resume(), Some((c, 2, SEGMENT)));
    it.resumed(c, SEGMENT, 1_000);
    // All 4,000 bytes of room are used, and nothing has been sent.
    assert_eq!((it.queue(), it.admit(d, 100), it.resume()), (4_000, 0, None));
    assert_eq!(it.next(), Some(SEGMENT));
    assert_eq!(it.resume(), None);
    it.totals.sent += SEGMENT;
    // The departed segment was one of `a`, but `c` was stopped earlier, so `c` is read first.
    let resumed = it.resume().unwrap();
    assert_eq!((resumed.0, resumed.2), (c, 500));
    it.check();
    assert!(it.is_blocked());
}

/// Catches: a busy time that continues while the queue is empty; a common busy time that counts
/// while only one gateway is busy.
#[test]
fn a_gateway_is_busy_while_its_queue_is_not_empty() {
    let mut sinks = Sinks::default();
    let mut all = [(); 2].map(|()| to(sinks.add(4), Overflow::Grow));
    let at = Time::from_secs;
    let seconds = Duration::from_secs;
    for (gateway, now) in [(0, 1), (1, 3)] {
        let it = &mut all[gateway];
        let file = it.open(0, 0);
        it.admit(file, 1_000);
        it.note(at(now), &mut sinks);
    }
    assert_eq!(all.each_ref().map(|it| it.busy(at(5))), [seconds(4), seconds(2)]);
    assert_eq!(sinks.together(0, at(5)), seconds(2));
    let it = &mut all[0];
    it.next();
    it.note(at(6), &mut sinks);
    it.count_sent(1_000, &sinks);
    it.note(at(7), &mut sinks);
    assert_eq!((it.totals.busy_sent, it.totals.together_sent), (1_000, 1_000));
    assert_eq!((it.busy(at(9)), sinks.together(0, at(9))), (seconds(6), seconds(4)));
    it.count_sent(2_000, &sinks);
    assert_eq!((it.totals.busy_sent, it.totals.together_sent), (1_000, 1_000));
}
