//! The loop: turn after turn until told to stop, asleep in between.

use std::time::Duration;

use tidegate_core::{Machine, Time};

use crate::clock::Clock;
use crate::inbox::{Inbox, Live};
use crate::port::Port;
use crate::turn::{send_due, take_in, turn};

/// Tells the kernel that the loop lives; when it does not hear so for a while, frames bypass it.
pub trait Guard {
    /// How long the kernel waits for [`beat`](Self::beat) before frames bypass the loop.
    fn timeout(&self) -> Duration;

    /// The loop lives.
    fn beat(&mut self, now: Time);

    /// The loop is about to end: from now on frames bypass it.
    fn let_go(&mut self);
}

/// Beats within the timeout of a guard.
const BEATS: u32 = 4;

/// How a loop behaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// At high rates, packets leave only at multiples of this; zero for each at its own time.
    pub grid: Duration,
    /// Packets per second that are a high rate.
    pub high_rate: u32,
    /// Longest time to go on sending what is held after being told to stop.
    pub drain: Duration,
}

/// Source: measured, a loop that wakes for each packet takes 80 % of a core at 1 Gbit/s, on a grid
/// of 100 us 67 %; at 100 Mbit/s (8,300 packets per second) it takes 16 % and is as exact as HTB.
impl Default for Options {
    fn default() -> Self {
        Self { grid: Duration::from_micros(100), high_rate: 20_000, drain: Duration::from_secs(2) }
    }
}

/// A machine, its ports, and what comes in besides packets.
#[expect(missing_debug_implementations, reason = "ports and machines need not have one")]
pub struct Driver<M> {
    machine: M,
    ports: Vec<Box<dyn Port>>,
    guard: Option<Box<dyn Guard>>,
    inbox: Inbox<M>,
    options: Options,
    grid: Grid,
    /// When the guard last heard from us.
    beat: Option<Time>,
    hangs: u64,
}

impl<M: Machine> Driver<M> {
    /// A loop that drives `machine` between `ports`, whose numbers are their places.
    #[must_use]
    pub fn new(
        machine: M,
        ports: Vec<Box<dyn Port>>,
        guard: Option<Box<dyn Guard>>,
        inbox: Inbox<M>,
        options: Options,
    ) -> Self {
        let grid = Grid::default();
        Self { machine, ports, guard, inbox, options, grid, beat: None, hangs: 0 }
    }

    /// Runs until told to stop, and sends what is held; gives back the machine and the ports.
    pub fn run(mut self, clock: &mut dyn Clock) -> (M, Vec<Box<dyn Port>>) {
        loop {
            let now = clock.now();
            self.keep_alive(now);
            let turn = turn(&mut self.machine, &mut self.ports, now);
            self.grid.count(now, turn.sent, &self.options);
            let due = turn.wait.map(|wait| match wait {
                Duration::ZERO => now,
                wait => self.grid.wake(now + wait, &self.options),
            });
            let until = due.into_iter().chain(self.next_beat()).min();
            let mut fds = self.ports.iter().filter_map(|port| port.fd());
            if clock.wait(until, &mut fds, self.inbox.bell()) && !self.serve(clock.now()) {
                break;
            }
        }
        self.close(clock);
        (self.machine, self.ports)
    }

    fn serve(&mut self, now: Time) -> bool {
        self.inbox.serve(&mut Live {
            machine: &mut self.machine,
            ports: &mut self.ports,
            now,
            hangs: self.hangs,
        })
    }

    /// Beats when it is time; after a hang, first drops what has become too old: the kernel has
    /// long sent the rest of those flows past us.
    fn keep_alive(&mut self, now: Time) {
        let Some(guard) = &mut self.guard else { return };
        let silence = self.beat.map(|beat| now.since(beat));
        if silence.is_some_and(|silence| silence < guard.timeout() / BEATS) {
            return;
        }
        if silence.is_none_or(|silence| silence > guard.timeout()) {
            self.hangs += u64::from(silence.is_some());
            for port in &mut self.ports {
                port.drop_arrived(self.machine.pool());
            }
        }
        guard.beat(now);
        self.beat = Some(now);
    }

    fn next_beat(&self) -> Option<Time> {
        let guard = self.guard.as_ref()?;
        self.beat.map(|beat| beat + guard.timeout() / BEATS)
    }

    /// Lets frames bypass us, takes in those that came before, and sends what is held.
    fn close(&mut self, clock: &mut dyn Clock) {
        if let Some(guard) = &mut self.guard {
            guard.let_go();
        }
        let deadline = clock.now() + self.options.drain;
        let mut arriving = LAST_BURSTS;
        loop {
            let now = clock.now();
            while arriving > 0 && take_in(&mut self.machine, &mut self.ports, now).0 {
                arriving -= 1;
            }
            arriving = 0;
            let turn = send_due(&mut self.machine, &mut self.ports, now);
            if self.machine.pool().in_use() == 0 || now >= deadline {
                return;
            }
            let until = turn.wait.map_or(deadline, |wait| deadline.min(now + wait));
            if clock.wait(Some(until), &mut std::iter::empty(), self.inbox.bell()) {
                self.serve(clock.now());
            }
        }
    }
}

/// Bursts taken in from each port when told to stop: more than a port holds.
const LAST_BURSTS: u32 = 256;

/// Whether the loop sends so much that it wakes on a grid.
#[derive(Debug, Default)]
struct Grid {
    since: Time,
    sent: u64,
    on: bool,
}

impl Grid {
    /// What the rate is measured over.
    const WINDOW: Duration = Duration::from_millis(10);

    fn count(&mut self, now: Time, sent: u32, options: &Options) {
        self.sent += u64::from(sent);
        let span = now.since(self.since);
        if span >= Self::WINDOW {
            self.on = u128::from(self.sent) * 1_000_000_000
                >= u128::from(options.high_rate) * span.as_nanos();
            (self.since, self.sent) = (now, 0);
        }
    }

    fn wake(&self, due: Time, options: &Options) -> Time {
        if self.on { due.round_up_to(options.grid) } else { due }
    }
}
