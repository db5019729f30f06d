//! Tests the driver's loop (receiving, sending, heartbeat, hangs, end of the run) on a clock that
//! jumps from event to event.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::packet::{Fifo, FrameCopy};
use tidegate_core::{Machine, Packet, PacketId, PacketPool, PortId, Reason, Time};
use tidegate_dataplane::testing::{Departure, Played, Script, play};
use tidegate_dataplane::{Bare, Heartbeat, Live, Options, Passing, Port, PortCounters};

const END: Time = Time::from_millis(1_000);
const EXACT: Options =
    Options { poll_interval: Duration::ZERO, high_rate: u32::MAX, drain: Duration::from_secs(10) };

/// A machine under the driver: holds each packet for a fixed time, then sends it out of the other
/// port.
struct Delay {
    pool: PacketPool,
    by: Duration,
    /// Maximum number of packets held in each direction. Further packets are dropped.
    room: u32,
    held: [Fifo; 2],
    /// Times at which the loop asked for due packets.
    asked: Vec<Time>,
}

impl Delay {
    fn new(by: Duration) -> Self {
        let pool = PacketPool::with_capacity(4_096);
        Self { pool, by, room: u32::MAX, held: [Fifo::new(); 2], asked: Vec::new() }
    }
}

impl Machine for Delay {
    fn pool(&mut self) -> &mut PacketPool {
        &mut self.pool
    }

    fn handle_packet(&mut self, _now: Time, port: PortId, packet: PacketId) {
        let held = &mut self.held[usize::from(port.0 == 0)];
        if held.packets() < self.room {
            held.push(&mut self.pool, packet);
        } else {
            self.pool.release(packet);
        }
    }

    fn poll_transmit(&mut self, now: Time, port: PortId) -> Option<PacketId> {
        self.asked.push(now);
        let held = &mut self.held[usize::from(port.0)];
        let due = held.peek(&self.pool)?.arrived + self.by <= now;
        if due { held.pop(&self.pool) } else { None }
    }

    fn poll_timeout(&mut self, _now: Time) -> Option<Time> {
        let due = |held: &Fifo| Some(held.peek(&self.pool)?.arrived + self.by);
        self.held.iter().filter_map(due).min()
    }
}

fn packet(at: Time, len: u32) -> (Time, Packet) {
    (at, Packet { len, ..Packet::default() })
}

fn run<M: Machine + 'static>(machine: M, arrivals: [Vec<(Time, Packet)>; 2]) -> Played<M> {
    play(machine, script(arrivals), (), EXACT).unwrap()
}

fn script(arrivals: [Vec<(Time, Packet)>; 2]) -> Script {
    Script { arrivals: arrivals.into(), end: END, ..Script::default() }
}

fn times(departures: &[Departure]) -> Vec<(Time, u32)> {
    departures.iter().map(|departure| (departure.at, departure.packet.len)).collect()
}

#[test]
fn packets_depart_from_the_other_port_exactly_when_they_are_due() {
    let (at, by) = (Time::from_micros, Duration::from_micros(70));
    let up = vec![packet(at(10), 60), packet(at(30), 61)];
    let played = run(Delay::new(by), [up, vec![packet(at(20), 62)]]);
    assert_eq!(times(&played.departures[1]), [(at(80), 60), (at(100), 61)]);
    assert_eq!(times(&played.departures[0]), [(at(90), 62)]);
}

#[test]
fn the_loop_sleeps_while_no_packet_is_due() {
    let at = Time::from_micros;
    let played = run(Delay::new(Duration::from_millis(500)), [vec![packet(at(10), 60)], vec![]]);
    // The loop asks at the start, on arrival, when the packet is due, and at the end.
    let mut asked = played.machine.asked;
    asked.dedup();
    assert_eq!(asked, [at(0), at(10), at(500_010), END]);
}

#[test]
fn a_flood_at_one_port_does_not_delay_the_other_port() {
    let flood = (0..200).map(|n| packet(Time::ZERO, n)).collect();
    let mut order = Order { bare: Bare::new(512), ports: Vec::new() };
    order = run(order, [flood, vec![packet(Time::ZERO, 0)]]).machine;
    let before = order.ports.iter().position(|port| port.0 == 1).unwrap();
    assert!(before <= 64, "{before} frames first");
    assert_eq!(order.ports.len(), 201);
}

/// A machine that forwards at once, and records the port of each arrival.
struct Order {
    bare: Bare,
    ports: Vec<PortId>,
}

impl Machine for Order {
    fn pool(&mut self) -> &mut PacketPool {
        self.bare.pool()
    }

    fn handle_packet(&mut self, now: Time, port: PortId, packet: PacketId) {
        self.ports.push(port);
        self.bare.handle_packet(now, port, packet);
    }

    fn poll_transmit(&mut self, now: Time, port: PortId) -> Option<PacketId> {
        self.bare.poll_transmit(now, port)
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        self.bare.poll_timeout(now)
    }
}

#[test]
fn held_packets_are_sent_after_a_stop_unless_this_takes_too_long() {
    let scripts = |at| [vec![packet(at, 60)], vec![]];
    let late = Time::from_millis(900);
    let mut played = run(Delay::new(Duration::from_secs(1)), scripts(late));
    assert_eq!(times(&played.departures[1]), [(Time::from_millis(1_900), 60)]);
    assert_eq!(played.machine.pool().in_use(), 0);
    let mut played = run(Delay::new(Duration::from_secs(11)), scripts(late));
    assert_eq!((played.departures[1].len(), played.machine.pool().in_use()), (0, 1));
}

/// A heartbeat that records the time of each beat. `Time::MAX` stands for a call of `set_passing`.
/// [`Heartbeat::passing`] returns `true` for the first `passing` calls, then `false`.
#[derive(Clone, Default)]
struct Recorder {
    beats: Rc<RefCell<Vec<Time>>>,
    passing: Cell<u32>,
}

const TIMEOUT: Duration = Duration::from_millis(40);

impl Heartbeat for Recorder {
    fn timeout(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    fn beat(&mut self, now: Time) {
        self.beats.borrow_mut().push(now);
    }

    fn set_passing(&mut self, _passing: Option<Passing>) {
        self.beats.borrow_mut().push(Time::MAX);
    }

    fn passing(&self) -> bool {
        self.passing.replace(self.passing.get().saturating_sub(1)) > 0
    }
}

#[test]
fn an_idle_loop_beats_four_times_within_the_timeout_and_requests_bypass_at_the_end() {
    let heartbeat = Recorder::default();
    let beats = heartbeat.beats.clone();
    play(Bare::new(8), script([vec![], vec![]]), heartbeat, EXACT).unwrap();
    let mut beats = beats.take();
    assert_eq!(beats.pop(), Some(Time::MAX));
    assert_eq!(beats, (0..100).map(|n| Time::from_millis(10 * n)).collect::<Vec<_>>());
}

#[test]
fn frames_that_arrived_during_a_hang_are_dropped_and_held_packets_are_kept() {
    let at = Time::from_millis;
    let arrivals = [vec![packet(at(90), 60), packet(at(110), 61), packet(at(250), 62)], vec![]];
    let hang = |until| Some(at(100)..at(until));
    let dropped = [(at(201), 60), (at(260), 62)];
    let in_time = [(at(129), 60), (at(139), 61), (at(260), 62)];
    for (until, expected) in [(201, &dropped[..]), (129, &in_time)] {
        let heartbeat = Recorder::default();
        let beats = heartbeat.beats.clone();
        let script = Script { hang: hang(until), ..script(arrivals.clone()) };
        let delay = Delay::new(Duration::from_millis(10));
        let played = play(delay, script, heartbeat, EXACT).unwrap();
        assert_eq!(times(&played.departures[1]), expected, "hang until {until} ms");
        let stale = played.counters[0].drops.of(Reason::Stale);
        assert_eq!(stale, u64::from(until == 201));
        assert!(beats.borrow().contains(&at(until)));
    }
}

#[test]
fn during_a_bypass_no_frame_is_forwarded_a_second_time() {
    let heartbeat = Recorder { passing: Cell::new(5), ..Recorder::default() };
    let arrivals = (0..10).map(|n| packet(Time::from_millis(n), 60)).collect();
    let played = play(Bare::new(8), script([arrivals, vec![]]), heartbeat.clone(), EXACT).unwrap();
    // During a bypass, the kernel forwards the frames, and the loop discards its copies. The first
    // heartbeat after the bypass is at 5 ms. The frame that arrives at 5 ms is still such a copy.
    let forwarded = times(&played.departures[1]);
    assert_eq!(forwarded, (6..10).map(|n| (Time::from_millis(n), 60)).collect::<Vec<_>>());
    // No frame was lost.
    assert_eq!(played.counters[0].drops.total(), 0);
    assert_eq!(heartbeat.beats.borrow()[0], Time::from_millis(5));
}

/// A type that is both a heartbeat and a port. When the loop requests bypass, a last frame arrives
/// at the port.
#[derive(Clone, Default)]
struct Cable(Rc<RefCell<Vec<Packet>>>);

impl Heartbeat for Cable {
    fn timeout(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    fn beat(&mut self, _now: Time) {}

    fn set_passing(&mut self, _passing: Option<Passing>) {
        self.0.borrow_mut().push(packet(Time::ZERO, 61).1);
    }

    fn passing(&self) -> bool {
        false
    }
}

impl Port for Cable {
    fn receive(&mut self, pool: &mut PacketPool, _now: Time) -> Option<PacketId> {
        pool.insert(self.0.borrow_mut().pop()?)
    }

    fn can_send(&self) -> bool {
        true
    }

    fn copy(&mut self, _copy: &FrameCopy) {}

    fn send(&mut self, pool: &mut PacketPool, packet: PacketId) {
        pool.release(packet);
    }

    fn flush(&mut self, _pool: &mut PacketPool) {}

    fn drop_arrived(&mut self, _pool: &mut PacketPool, _copies: &dyn Fn() -> u64) -> u64 {
        0
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

/// Catches: a loop that reads the ports before it requests bypass, but not again after the request.
#[test]
fn a_frame_that_arrives_while_the_loop_requests_bypass_is_not_lost() {
    let mut cable = Cable::default();
    let mut machine = Delay::new(Duration::from_secs(1));
    let mut ports: Vec<Box<dyn Port>> = vec![Box::new(cable.clone())];
    let (now, heartbeat) = (Time::ZERO, &mut cable);
    let mut live = Live {
        machine: &mut machine,
        ports: &mut ports,
        heartbeat,
        now,
        hangs: 0,
        hung_at: Time::ZERO,
        occupied: Duration::ZERO,
    };
    live.set_passing(true);
    assert_eq!(machine.held[1].packets(), 1);
}

/// Catches: a loop that, during a bypass, drops arrivals of every port, even of a port whose frames
/// the kernel does not forward.
#[test]
fn frames_that_only_the_port_has_are_forwarded_even_during_a_bypass() {
    let heartbeat = Recorder { passing: Cell::new(5), ..Recorder::default() };
    let arrivals = (0..10).map(|n| packet(Time::from_millis(n), 60)).collect();
    let script = Script { takes_frames: true, ..script([arrivals, vec![]]) };
    let played = play(Bare::new(8), script, heartbeat, EXACT).unwrap();
    let forwarded = times(&played.departures[1]);
    assert_eq!(forwarded, (0..10).map(|n| (Time::from_millis(n), 60)).collect::<Vec<_>>());
    assert_eq!(played.counters[0].drops.total(), 0);
}

#[test]
fn at_high_rates_packets_depart_at_the_poll_interval_and_at_low_rates_when_due() {
    let poll_interval = Duration::from_micros(100);
    let options = Options { poll_interval, high_rate: 20_000, ..EXACT };
    // The delay is longer than the span of all arrivals, because an arrival would also wake the
    // loop.
    let delay = Duration::from_nanos(50_000_007);
    let at_and_off_the_interval = |every: u64, count: u64| {
        let arrivals = (0..count).map(|n| packet(Time::from_nanos(n * every), 1_500)).collect();
        let script = script([arrivals, vec![]]);
        let played = play(Delay::new(delay), script, (), options).unwrap();
        // The loop has measured the rate about 10 ms after the first departure.
        let settled = played.departures[1].iter().filter(|d| d.at > Time::from_millis(61));
        let (on, off): (Vec<&Departure>, Vec<_>) =
            settled.partition(|d| d.at.nanos() % 100_000 == 0);
        (on.len(), off.len())
    };
    assert_eq!(at_and_off_the_interval(1_000_000, 40), (0, 29)); // 1,000 packets per second
    assert_eq!(at_and_off_the_interval(12_000, 4_000), (3_091, 0)); // 83,333
}

/// Catches: a loop that is woken by each packet at a high rate; a loop that keeps the poll interval
/// after the rate has fallen.
#[test]
fn at_high_rates_arrivals_wait_for_the_poll_interval_and_at_low_rates_none_waits() {
    let poll_interval = Duration::from_micros(100);
    let options = Options { poll_interval, high_rate: 20_000, ..EXACT };
    let iterations_and_longest = |every: u64| {
        let at = |n: u64| Time::from_nanos(100_000_003 + n * every);
        let last = packet(Time::from_millis(900), 60);
        let arrivals: Vec<_> = (0..2_000).map(|n| packet(at(n), 60)).chain([last]).collect();
        let arrived: Vec<_> = arrivals.iter().map(|(at, _)| *at).collect();
        let script = script([arrivals, vec![]]);
        let played = play(Delay::new(Duration::ZERO), script, (), options).unwrap();
        let left: Vec<_> = played.departures[1].iter().map(|departure| departure.at).collect();
        assert_eq!((left.len(), left.last()), (arrived.len(), arrived.last()));
        let longest = left.iter().zip(arrived).map(|(left, arrived)| left.since(arrived)).max();
        let mut iterations = played.machine.asked;
        iterations.dedup();
        (iterations.len(), longest.unwrap())
    };
    let (iterations, longest) = iterations_and_longest(300_000);
    assert!(iterations >= 2_000 && longest.is_zero(), "{iterations} iterations, {longest:?}");
    // For about 10 ms, each of 83,333 packets per second causes an iteration. During the next 14
    // ms, there is an iteration every 100 us.
    let (iterations, longest) = iterations_and_longest(12_000);
    assert!(
        iterations < 900 + 200 && longest <= poll_interval && !longest.is_zero(),
        "{iterations}, {longest:?}"
    );
}

proptest! {
    /// Packets depart at the times that `contract` computes, even if several packets arrive at once
    /// and the machine has room for few.
    ///
    /// Catches: a whole burst handed to the machine before due packets are sent; a wake-up one
    /// nanosecond late; due packets that stay while nothing arrives.
    #[test]
    fn the_loop_sends_packets_at_the_times_of_its_contract(
        gaps in prop::collection::vec((0_u64..3, 0_u8..2), 1..80),
        by in 0_u64..5,
        room in 1_u32..5,
    ) {
        let mut now = 0;
        let mut arrivals = [Vec::new(), Vec::new()];
        for ((gap, port), len) in gaps.into_iter().zip(60..) {
            now += gap;
            arrivals[usize::from(port)].push(packet(Time::from_micros(now), len));
        }
        let machine = || Delay { room, ..Delay::new(Duration::from_micros(by)) };
        let expected = contract(machine(), &arrivals);
        let played = run(machine(), arrivals);
        prop_assert_eq!(times(&played.departures[0]), expected[0].clone());
        prop_assert_eq!(times(&played.departures[1]), expected[1].clone());
    }
}

/// The departures of `machine` by a direct implementation of its contract, as the reference.
fn contract(mut machine: Delay, arrivals: &[Vec<(Time, Packet)>; 2]) -> [Vec<(Time, u32)>; 2] {
    let mut departures = [Vec::new(), Vec::new()];
    let mut timeout = None;
    let times = arrivals.iter().flatten().map(|(at, _)| *at);
    let mut times: std::collections::BTreeSet<_> = times.collect();
    while let Some(now) = times.first().copied().into_iter().chain(timeout).min() {
        times.remove(&now);
        let mut drain = |machine: &mut Delay| {
            for (port, departures) in (0..).map(PortId).zip(&mut departures) {
                while let Some(packet) = machine.poll_transmit(now, port) {
                    departures.push((now, machine.pool[&packet].len));
                    machine.pool.release(packet);
                }
            }
        };
        drain(&mut machine);
        for (port, arrivals) in (0..).map(PortId).zip(arrivals) {
            for (arrived, packet) in arrivals.iter().filter(|(at, _)| *at == now) {
                let packet = Packet { arrived: *arrived, ..*packet };
                let packet = machine.pool.insert(packet).unwrap();
                machine.handle_packet(now, port, packet);
                drain(&mut machine);
            }
        }
        timeout = machine.poll_timeout(now);
    }
    departures
}
