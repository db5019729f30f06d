//! Runs the driver's loop in tests without a kernel: ports with prescribed arrivals, and a clock
//! that jumps from event to event.

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

/// A departed packet.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Time of departure.
    pub at: Time,
    /// The descriptor at departure.
    pub packet: Packet,
}

/// The results of a run.
#[derive(Debug)]
pub struct Played<M> {
    /// The machine (the logic between the ports) after the run.
    pub machine: M,
    /// Departures by port.
    pub departures: Vec<Vec<Departure>>,
    /// Counters by port.
    pub counters: Vec<PortCounters>,
}

/// A test run of the loop: the arrivals, a period in which the loop hangs, and the end.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Arrivals at each port, in order of time.
    pub arrivals: Vec<Vec<(Time, Packet)>>,
    /// A period during which the loop does not wake up, provided that it sleeps when the period
    /// begins.
    pub hang: Option<Range<Time>>,
    /// Time of the stop command.
    pub end: Time,
    /// `true`: each frame goes only to the port, as with AF_XDP. `false`: the port gets a copy, as
    /// with AF_PACKET.
    pub takes_frames: bool,
}

/// Runs the loop with `machine` through `script`, on a clock that jumps from event to event.
///
/// # Errors
///
/// If the process has no free file descriptor.
pub fn play<M: Machine + 'static, H: Heartbeat + 'static>(
    machine: M,
    script: Script,
    heartbeat: H,
    options: Options,
) -> io::Result<Played<M>> {
    play_with(machine, script, Vec::new(), heartbeat, options)
}

/// Like [`play`]. Each of `commands`, in order of time, is sent through the inbox at its time.
///
/// # Errors
///
/// If the process has no free file descriptor.
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

/// A clock that jumps to the end of each wait.
struct JumpingClock<M, H> {
    now: Rc<Cell<Time>>,
    /// Future arrivals, latest first.
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

/// A port with prescribed arrivals and recorded departures.
struct ScriptedPort {
    now: Rc<Cell<Time>>,
    arrivals: VecDeque<(Time, Packet)>,
    departures: Departures,
    /// A descriptor to poll. The clock lets arrivals end a wait only if the loop polls this
    /// descriptor.
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
