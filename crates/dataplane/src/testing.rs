//! The loop without a kernel: ports that follow a script, and a clock that jumps.

mod cable;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use tidegate_core::packet::FrameCopy;
use tidegate_core::{Machine, Packet, PacketId, PacketPool, Reason, Time};

pub use self::cable::{Cable, Frames};
use crate::clock::{Alarm, Clock};
use crate::driver::{Driver, Options};
use crate::heartbeat::Heartbeat;
pub use crate::inbox::Command;
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

/// What happens to a loop.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// What arrives at each port and when, in order of time.
    pub arrivals: Vec<Vec<(Time, Packet)>>,
    /// A time within which the loop does not come back, if it sleeps then.
    pub hang: Option<Range<Time>>,
    /// When it is told to stop.
    pub end: Time,
    /// Frames come nowhere but to the ports, as on AF_XDP; else they are copies.
    pub takes_frames: bool,
}

/// Runs the loop with `machine` through `script`, on a clock that jumps from event to event.
///
/// # Errors
///
/// When the process has no file descriptor left.
pub fn play<M: Machine + 'static, H: Heartbeat + 'static>(
    machine: M,
    script: Script,
    heartbeat: H,
    options: Options,
) -> io::Result<Played<M>> {
    play_with(machine, script, Vec::new(), heartbeat, options)
}

/// As [`play`], and each of `commands`, in order of time, comes through the inbox at its time.
///
/// # Errors
///
/// When the process has no file descriptor left.
pub fn play_with<M: Machine + 'static, H: Heartbeat + 'static>(
    machine: M,
    script: Script,
    commands: Vec<(Time, Command<M, H>)>,
    heartbeat: H,
    options: Options,
) -> io::Result<Played<M>> {
    let (remote, inbox) = inbox()?;
    let mut clock = JumpingClock::new(&script, commands, remote);
    let departures: Vec<Departures> = script.arrivals.iter().map(|_| Rc::default()).collect();
    let mut ports: Vec<Box<dyn Port>> = Vec::new();
    for (arrivals, departures) in script.arrivals.into_iter().zip(&departures) {
        ports.push(Box::new(ScriptedPort {
            now: clock.now.clone(),
            arrivals: arrivals.into(),
            departures: departures.clone(),
            cable: io::pipe()?.0,
            takes_frames: script.takes_frames,
            counters: PortCounters::default(),
        }));
    }
    let driver = Driver::new(machine, ports, heartbeat, inbox, options);
    let (machine, ports, _) = driver.run(&mut clock);
    Ok(Played {
        machine,
        departures: departures.iter().map(|departures| departures.take()).collect(),
        counters: ports.iter().map(|port| port.counters()).collect(),
    })
}

type Departures = Rc<RefCell<Vec<Departure>>>;

/// A clock that is at once where it is waited for.
struct JumpingClock<M, H> {
    now: Rc<Cell<Time>>,
    /// Arrivals to come, latest first.
    arrivals: Vec<Time>,
    commands: VecDeque<(Time, Command<M, H>)>,
    hang: Option<Range<Time>>,
    end: Time,
    remote: Remote<M, H>,
}

impl<M, H> JumpingClock<M, H> {
    /// A clock at zero that stops the loop at the end of `script`.
    fn new(script: &Script, commands: Vec<(Time, Command<M, H>)>, remote: Remote<M, H>) -> Self {
        let mut arrivals: Vec<_> = script.arrivals.iter().flatten().map(|(at, _)| *at).collect();
        arrivals.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            now: Rc::default(),
            arrivals,
            commands: commands.into(),
            hang: script.hang.clone(),
            end: script.end,
            remote,
        }
    }
}

impl<M: 'static, H: 'static> Clock for JumpingClock<M, H> {
    fn now(&mut self) -> Time {
        self.now.get()
    }

    fn wait(
        &mut self,
        alarm: Option<Alarm>,
        ports: &mut dyn Iterator<Item = BorrowedFd<'_>>,
        _inbox: BorrowedFd<'_>,
    ) -> bool {
        let now = self.now.get();
        while self.arrivals.last().is_some_and(|at| *at <= now) {
            self.arrivals.pop();
        }
        let alarm = alarm.map(|alarm| alarm.at);
        let arrival = self.arrivals.last().copied().filter(|_| ports.next().is_some());
        let next = arrival.into_iter().chain(alarm).min();
        let mut next = next.unwrap_or(Time::MAX).max(now);
        if let Some(hang) = self.hang.take_if(|hang| hang.contains(&next)) {
            next = hang.end;
        }
        if now < self.end && next >= self.end {
            self.now.set(self.end);
            return self.remote.stop().is_ok();
        }
        if let Some((at, command)) = self.commands.pop_front_if(|(at, _)| *at <= next) {
            self.now.set(at.max(now));
            return self.remote.post(command).is_ok();
        }
        self.now.set(next);
        false
    }
}

/// A port at which packets arrive by a script, and whose departures are recorded.
struct ScriptedPort {
    now: Rc<Cell<Time>>,
    arrivals: VecDeque<(Time, Packet)>,
    departures: Departures,
    /// What a clock sees of it: it waits for arrivals only where it is given this.
    cable: io::PipeReader,
    takes_frames: bool,
    counters: PortCounters,
}

impl ScriptedPort {
    fn next(&mut self, now: Time) -> Option<Packet> {
        let (_, packet) = self.arrivals.pop_front_if(|(at, _)| *at <= now)?;
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

    fn copy(&mut self, _copy: &FrameCopy) {}

    fn send(&mut self, pool: &mut PacketPool, packet: PacketId) {
        let departure = Departure { at: self.now.get(), packet: pool[&packet] };
        self.counters.sent += 1;
        self.counters.sent_bytes += u64::from(departure.packet.len);
        self.departures.borrow_mut().push(departure);
        pool.release(packet);
    }

    fn flush(&mut self, _pool: &mut PacketPool) {}

    fn takes_frames(&self) -> bool {
        self.takes_frames
    }

    fn drop_arrived(&mut self, _pool: &mut PacketPool, copies: &dyn Fn() -> u64) -> u64 {
        let now = self.now.get();
        let mut dropped = 0;
        while self.next(now).is_some() {
            dropped += 1;
        }
        (copies()..dropped).for_each(|_| self.counters.drops.count(Reason::Stale));
        dropped
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.cable.as_fd())
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}
