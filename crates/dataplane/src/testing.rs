//! The loop without a kernel: ports that follow a script, and a clock that jumps.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use tidegate_core::{Machine, Packet, PacketId, PacketPool, Reason, Time};

use crate::clock::Clock;
use crate::driver::{Driver, Guard, Options};
use crate::inbox::{Remote, inbox};
use crate::port::{Port, PortCounters};

/// A packet that left.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// When.
    pub at: Time,
    /// As it then was.
    pub packet: Packet,
}

/// What came of a script.
#[derive(Debug)]
pub struct Played<M> {
    /// The machine.
    pub machine: M,
    /// What left, by port.
    pub departures: Vec<Vec<Departure>>,
    /// What each port counted.
    pub counters: Vec<PortCounters>,
}

/// Runs the loop with `machine` on a clock that jumps from event to event, from zero until `end`;
/// `scripts` says what arrives at each port and when, in order of time.
///
/// # Errors
///
/// When the process has no file descriptor left.
pub fn play<M: Machine>(
    machine: M,
    scripts: Vec<Vec<(Time, Packet)>>,
    guard: Option<Box<dyn Guard>>,
    options: Options,
    end: Time,
) -> io::Result<Played<M>> {
    let (remote, inbox) = inbox()?;
    let mut clock = JumpingClock::new(&scripts, end, remote);
    let departures: Vec<_> = scripts.iter().map(|_| Rc::default()).collect();
    let port = |(script, departures): (Vec<_>, &Departures)| -> Box<dyn Port> {
        Box::new(ScriptedPort::new(&clock, script, departures.clone()))
    };
    let ports = scripts.into_iter().zip(&departures).map(port).collect();
    let driver = Driver::new(machine, ports, guard, inbox, options);
    let (machine, ports) = driver.run(&mut clock);
    Ok(Played {
        machine,
        departures: departures.iter().map(|departures| departures.take()).collect(),
        counters: ports.iter().map(|port| port.counters()).collect(),
    })
}

type Departures = Rc<RefCell<Vec<Departure>>>;

/// A clock that is at once where it is waited for.
#[expect(missing_debug_implementations, reason = "commands have none")]
pub struct JumpingClock<M> {
    now: Rc<Cell<Time>>,
    /// Arrivals to come, latest first.
    arrivals: Vec<Time>,
    end: Time,
    remote: Remote<M>,
}

impl<M> JumpingClock<M> {
    /// A clock at zero that stops the loop at `end`.
    fn new(scripts: &[Vec<(Time, Packet)>], end: Time, remote: Remote<M>) -> Self {
        let mut arrivals: Vec<_> = scripts.iter().flatten().map(|(at, _)| *at).collect();
        arrivals.sort_unstable_by(|a, b| b.cmp(a));
        Self { now: Rc::default(), arrivals, end, remote }
    }
}

impl<M> Clock for JumpingClock<M> {
    fn now(&mut self) -> Time {
        self.now.get()
    }

    fn wait(
        &mut self,
        until: Option<Time>,
        _ports: &mut dyn Iterator<Item = BorrowedFd<'_>>,
        _inbox: BorrowedFd<'_>,
    ) -> bool {
        let now = self.now.get();
        while self.arrivals.last().is_some_and(|at| *at <= now) {
            self.arrivals.pop();
        }
        let next = self.arrivals.last().copied().into_iter().chain(until).min();
        let next = next.unwrap_or(Time::MAX).max(now);
        if now < self.end && next >= self.end {
            self.now.set(self.end);
            return self.remote.stop().is_ok();
        }
        self.now.set(next);
        false
    }
}

/// A port at which packets arrive by a script, and whose departures are recorded.
#[derive(Debug)]
pub struct ScriptedPort {
    now: Rc<Cell<Time>>,
    script: VecDeque<(Time, Packet)>,
    departures: Departures,
    counters: PortCounters,
}

impl ScriptedPort {
    fn new<M>(clock: &JumpingClock<M>, script: Vec<(Time, Packet)>, to: Departures) -> Self {
        let counters = PortCounters::default();
        Self { now: clock.now.clone(), script: script.into(), departures: to, counters }
    }

    fn next(&mut self, now: Time) -> Option<Packet> {
        let (_, packet) = self.script.pop_front_if(|(at, _)| *at <= now)?;
        Some(Packet { arrived: now, ..packet })
    }
}

impl Port for ScriptedPort {
    fn receive(&mut self, pool: &mut PacketPool, now: Time) -> Option<PacketId> {
        while let Some(packet) = self.next(now) {
            if let Some(id) = pool.insert(packet) {
                self.counters.received += 1;
                self.counters.received_bytes += u64::from(packet.len);
                return Some(id);
            }
            self.counters.drops.count(Reason::NoBuffer);
        }
        None
    }

    fn can_send(&self) -> bool {
        true
    }

    fn send(&mut self, pool: &mut PacketPool, packet: PacketId) {
        let departure = Departure { at: self.now.get(), packet: pool[&packet] };
        self.counters.sent += 1;
        self.counters.sent_bytes += u64::from(departure.packet.len);
        self.departures.borrow_mut().push(departure);
        pool.release(packet);
    }

    fn flush(&mut self, _pool: &mut PacketPool) {}

    fn drop_arrived(&mut self, _pool: &mut PacketPool) -> u64 {
        let now = self.now.get();
        let mut dropped = 0;
        while self.next(now).is_some() {
            self.counters.drops.count(Reason::Stale);
            dropped += 1;
        }
        dropped
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}
