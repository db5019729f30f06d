//! Tests commands from other threads to a loop that runs on the host's clock.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tidegate_core::{Machine, Packet, PacketId, PacketPool, PortId, Time};
use tidegate_dataplane::{Alarm, Bare, Clock, Driver, Monotonic, Options, Remote, Stopped, inbox};

/// The host's clock, with a counter of waits.
struct Counting(Monotonic, u32);

impl Clock for Counting {
    fn now(&mut self) -> Time {
        self.0.now()
    }

    fn wait(
        &mut self,
        alarm: Option<Alarm>,
        ports: &mut dyn Iterator<Item = BorrowedFd<'_>>,
        inbox: BorrowedFd<'_>,
    ) -> bool {
        self.1 += 1;
        self.0.wait(alarm, ports, inbox)
    }
}

/// Starts a loop without ports. Its thread returns the number of waits.
fn start() -> (Remote<Bare>, thread::JoinHandle<u32>) {
    let (remote, inbox) = inbox().unwrap();
    let thread = thread::spawn(move || {
        let mut clock = Counting(Monotonic::start(), 0);
        Driver::new(Bare::new(8), Vec::new(), (), inbox, Options::default()).run(&mut clock);
        clock.1
    });
    (remote, thread)
}

#[test]
fn a_loop_answers_questions_and_sleeps_in_between() {
    let (remote, thread) = start();
    let sent = remote.ask(|live| live.machine.pool().insert(Packet::default()).is_some()).unwrap();
    assert!(sent);
    let held = remote.ask(|live| {
        let packet = live.machine.pool().take_back(0).unwrap();
        live.machine.pool().release(packet);
        (live.machine.pool().in_use(), live.ports.len(), live.hangs)
    });
    assert_eq!(held, Ok((0, 0, 0)));
    remote.stop().unwrap();
    let waits = thread.join().unwrap();
    assert!(waits <= 4, "waited {waits} times for three messages");
}

#[test]
fn commands_from_each_thread_all_run_in_their_order() {
    let (remote, thread) = start();
    let (sender, seen) = mpsc::channel();
    let askers: Vec<_> = (0..4)
        .map(|asker| {
            let (remote, sender) = (remote.clone(), sender.clone());
            thread::spawn(move || {
                for n in 0..100 {
                    let sender = sender.clone();
                    remote.post(move |_| sender.send((asker, n)).unwrap()).unwrap();
                }
            })
        })
        .collect();
    askers.into_iter().for_each(|asker| asker.join().unwrap());
    remote.stop().unwrap();
    thread.join().unwrap();
    drop(sender);
    let seen: Vec<(u32, u32)> = seen.iter().collect();
    for asker in 0..4 {
        let its = seen.iter().filter(|(from, _)| *from == asker).map(|(_, n)| *n);
        assert!(its.eq(0..100));
    }
}

/// Catches: a loop that runs all waiting commands before it reads its ports again.
#[test]
fn there_is_an_iteration_between_two_commands() {
    const COMMANDS: u32 = 50;
    let (remote, thread) = start();
    let (begin, wait) = mpsc::channel::<()>();
    remote.post(move |_| wait.recv().unwrap()).unwrap();
    (1..COMMANDS).for_each(|_| remote.post(|_| {}).unwrap());
    remote.stop().unwrap();
    begin.send(()).unwrap();
    assert!(thread.join().unwrap() > COMMANDS);
}

/// A machine that does long work in slices. It also counts the processor time that it pretends to
/// use, in milliseconds.
struct Works {
    bare: Bare,
    used: Arc<AtomicU64>,
    slices: u32,
}

impl Machine for Works {
    fn pool(&mut self) -> &mut PacketPool {
        self.bare.pool()
    }

    fn handle_packet(&mut self, now: Time, port: PortId, packet: PacketId) {
        self.bare.handle_packet(now, port, packet);
    }

    fn poll_transmit(&mut self, now: Time, port: PortId) -> Option<PacketId> {
        self.bare.poll_transmit(now, port)
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        // An iteration without a slice of work takes 100 ms, so a test would fail if the loop
        // measured it.
        self.used.fetch_add(if self.is_working() { 9 } else { 100 }, Ordering::Relaxed);
        self.slices = self.slices.saturating_sub(1);
        self.is_working().then_some(now)
    }

    fn is_working(&self) -> bool {
        self.slices > 0
    }
}

/// The host's clock, but with the processor time that the machine has counted.
struct Used(Monotonic, Arc<AtomicU64>);

impl Clock for Used {
    fn now(&mut self) -> Time {
        self.0.now()
    }

    fn used(&mut self) -> Duration {
        Duration::from_millis(self.1.load(Ordering::Relaxed))
    }

    fn wait(
        &mut self,
        alarm: Option<Alarm>,
        ports: &mut dyn Iterator<Item = BorrowedFd<'_>>,
        inbox: BorrowedFd<'_>,
    ) -> bool {
        self.0.wait(alarm, ports, inbox)
    }
}

/// Catches: a command or a slice of work that is not measured; an iteration without a slice that is
/// measured; the last time reported instead of the longest.
#[test]
fn the_loop_reports_the_longest_processor_time_of_a_command_or_a_slice_of_work() {
    let (remote, inbox) = inbox().unwrap();
    let used = Arc::new(AtomicU64::new(0));
    let of_clock = Arc::clone(&used);
    let thread = thread::spawn(move || {
        let machine = Works { bare: Bare::new(8), used: Arc::clone(&of_clock), slices: 0 };
        let mut clock = Used(Monotonic::start(), of_clock);
        Driver::new(machine, Vec::new(), (), inbox, Options::default()).run(&mut clock);
    });
    let occupied = || remote.ask(|live| live.occupied.as_millis()).unwrap();
    let takes = |millis| {
        let used = Arc::clone(&used);
        remote.post(move |_| _ = used.fetch_add(millis, Ordering::Relaxed)).unwrap();
    };
    assert_eq!(occupied(), 0);
    takes(7);
    assert_eq!(occupied(), 7);
    takes(3);
    assert_eq!(occupied(), 7);
    remote.post(|live| live.machine.slices = 3).unwrap();
    while remote.ask(|live| live.machine.slices > 0).unwrap() {}
    assert_eq!(occupied(), 9);
    remote.stop().unwrap();
    thread.join().unwrap();
}

/// A machine that never sends its packet, although the packet is always due.
struct Holds(PacketPool);

impl Machine for Holds {
    fn pool(&mut self) -> &mut PacketPool {
        &mut self.0
    }

    fn handle_packet(&mut self, _now: Time, _port: PortId, packet: PacketId) {
        self.0.release(packet);
    }

    fn poll_transmit(&mut self, _now: Time, _port: PortId) -> Option<PacketId> {
        None
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        Some(now)
    }
}

/// A virtual clock. Its time advances only in a wait for an inexact alarm. If `stands` is `true`,
/// it does not advance at all.
struct Virtual {
    now: Time,
    stands: bool,
    waits: u32,
}

impl Clock for Virtual {
    fn now(&mut self) -> Time {
        self.now
    }

    fn wait(
        &mut self,
        alarm: Option<Alarm>,
        _ports: &mut dyn Iterator<Item = BorrowedFd<'_>>,
        _inbox: BorrowedFd<'_>,
    ) -> bool {
        self.waits += 1;
        assert!(self.waits < 1_000_000, "it never ends");
        let asleep = alarm.filter(|alarm| !alarm.exact && !self.stands);
        self.now = asleep.map_or(self.now, |alarm| alarm.at.max(self.now));
        // The loop was stopped before it began.
        self.waits == 1
    }
}

/// Catches: a loop that polls without sleeping while it ends; a loop that never ends, because
/// virtual time does not advance.
#[test]
fn a_loop_ends_within_its_time_and_a_number_of_iterations_whatever_it_holds() {
    for stands in [false, true] {
        let (remote, inbox) = inbox().unwrap();
        remote.stop().unwrap();
        let mut pool = PacketPool::with_capacity(8);
        let _held = pool.insert(Packet::default()).unwrap();
        let mut clock = Virtual { now: Time::ZERO, stands, waits: 0 };
        let options = Options::default();
        Driver::new(Holds(pool), Vec::new(), (), inbox, options).run(&mut clock);
        let limit = Time::ZERO + options.drain;
        assert!(clock.now == if stands { Time::ZERO } else { limit }, "{:?}", clock.now);
        assert!((19_000..=20_002).contains(&clock.waits), "{} waits", clock.waits);
    }
}

#[test]
fn a_loop_that_has_ended_refuses_commands() {
    let (remote, thread) = start();
    remote.stop().unwrap();
    thread.join().unwrap();
    assert_eq!(remote.ask(|_| ()), Err(Stopped));
    assert_eq!(remote.stop(), Err(Stopped));
}
