//! The loop: turn after turn until told to stop, asleep in between.

use std::time::Duration;

use tidegate_core::{Machine, Time};

use crate::clock::{Alarm, Clock};
use crate::heartbeat::{Heartbeat, Passing};
use crate::inbox::{Inbox, Live};
use crate::port::Port;
use crate::turn::{Turn, send_due, take_in, turn};

/// Beats within the timeout of a heartbeat.
const BEATS: u32 = 4;

/// How a loop behaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// At high rates, packets are taken in and leave only at multiples of this; zero for each at its
    /// own time.
    pub grid: Duration,
    /// Packets per second that are a high rate, of those that arrive and of those that leave.
    pub high_rate: u32,
    /// Longest time to go on sending what is held after being told to stop.
    pub drain: Duration,
}

/// Source: measured, a loop that wakes for each packet takes 80 % of a core at 1 Gbit/s, on a grid
/// of 100 us 67 %; at 100 Mbit/s (8,300 packets per second) it takes 16 % and is as exact as HTB.
/// Forwarding 60,000 packets per second takes 3.9 us of a core each if every packet wakes the loop,
/// and 1.9 us if they gather for up to 100 us.
impl Default for Options {
    fn default() -> Self {
        Self { grid: Duration::from_micros(100), high_rate: 20_000, drain: Duration::from_secs(2) }
    }
}

/// A machine, its ports, and what comes in besides packets.
#[expect(missing_debug_implementations, reason = "ports and machines need not have one")]
pub struct Driver<M, H = ()> {
    machine: M,
    ports: Vec<Box<dyn Port>>,
    heartbeat: H,
    inbox: Inbox<M, H>,
    options: Options,
    arriving: Grid,
    leaving: Grid,
    grain: Grain,
    /// When the last beat was.
    beat: Option<Time>,
    hangs: u64,
    /// The longest processor time of one command, or of one turn during a policy change.
    occupied: Duration,
    hung_at: Time,
    /// Frames that had bypassed the gateway when the loop began to beat, of each port.
    passed: Vec<u64>,
}

impl<M: Machine, H: Heartbeat> Driver<M, H> {
    /// A loop that drives `machine` between `ports`, whose numbers are their places.
    #[must_use]
    pub fn new(
        mut machine: M,
        ports: Vec<Box<dyn Port>>,
        heartbeat: H,
        inbox: Inbox<M, H>,
        options: Options,
    ) -> Self {
        machine.pool().make_copies();
        Self {
            machine,
            ports,
            heartbeat,
            inbox,
            options,
            arriving: Grid::default(),
            leaving: Grid::default(),
            grain: Grain::default(),
            beat: None,
            hangs: 0,
            occupied: Duration::ZERO,
            hung_at: Time::ZERO,
            passed: Vec::new(),
        }
    }

    /// Runs until told to stop, and sends what is held; gives back all it was made of.
    pub fn run(mut self, clock: &mut dyn Clock) -> (M, Vec<Box<dyn Port>>, H) {
        loop {
            let now = clock.now();
            // Reading the processor time is a system call, too dear for every turn.
            let began = self.machine.is_working().then(|| clock.used());
            let turn = if self.keep_alive(now) {
                turn(&mut self.machine, &mut self.ports, now)
            } else {
                take_in(&mut self.machine, &mut self.ports, now, |port| port.takes_frames());
                send_due(&mut self.machine, &mut self.ports, now)
            };
            self.note(began, clock);
            let alarm = self.alarm(now, &turn);
            let listening = !self.lets_gather(&turn);
            let mut fds = self.ports.iter().filter(|_| listening).filter_map(|port| port.fd());
            if clock.wait(alarm, &mut fds, self.inbox.bell()) && !self.serve(clock) {
                break;
            }
        }
        self.close(clock);
        (self.machine, self.ports, self.heartbeat)
    }

    /// When to come back after `turn` if nothing happens.
    fn alarm(&mut self, now: Time, turn: &Turn) -> Option<Alarm> {
        self.arriving.count(now, turn.received, &self.options);
        self.leaving.count(now, turn.sent, &self.options);
        self.machine.set_grain(self.grain.look(now, self.arriving.on || self.leaving.on));
        let exact = !self.leaving.on;
        let on_grid = |at: Time| Alarm { at: at.round_up_to(self.options.grid), exact: false };
        let due = turn.wait.map(|wait| match wait {
            Duration::ZERO => Alarm { at: now, exact: false },
            wait if exact => Alarm { at: now + wait, exact },
            wait => on_grid(now + wait),
        });
        let gathered = self.lets_gather(turn).then(|| on_grid(now + NEXT));
        let beat = self.next_beat().map(|at| Alarm { at, exact: false });
        due.into_iter().chain(gathered).chain(beat).min()
    }

    /// Whether to leave what arrives after `turn` until the grid's next point: at a high rate, as
    /// long as there was something every time.
    const fn lets_gather(&self, turn: &Turn) -> bool {
        self.arriving.on && turn.received > 0 && !self.options.grid.is_zero()
    }

    /// Runs one command. Returns `false` if the loop is to stop.
    fn serve(&mut self, clock: &mut dyn Clock) -> bool {
        let began = clock.used();
        let goes_on = self.inbox.serve(&mut Live {
            machine: &mut self.machine,
            ports: &mut self.ports,
            heartbeat: &mut self.heartbeat,
            now: clock.now(),
            hangs: self.hangs,
            hung_at: self.hung_at,
            occupied: self.occupied,
        });
        self.note(Some(began), clock);
        goes_on
    }

    /// Notes the processor time since `began`, if it is the longest.
    fn note(&mut self, began: Option<Duration>, clock: &mut dyn Clock) {
        if let Some(began) = began {
            self.occupied = self.occupied.max(clock.used().saturating_sub(began));
        }
    }

    /// Beats when it is time; says whether all that arrives is ours to forward. Copies of what went
    /// straight across are dropped, and after a hang everything that arrived: what came after it has
    /// been sent.
    fn keep_alive(&mut self, now: Time) -> bool {
        let Some(timeout) = self.heartbeat.timeout() else { return true };
        let passing = self.heartbeat.passing();
        let silence = self.beat.map(|beat| now.since(beat));
        let hung = silence.is_some_and(|silence| silence >= timeout);
        if passing || hung || self.beat.is_none() {
            if hung {
                (self.hangs, self.hung_at) = (self.hangs + 1, now);
            }
            self.drop_arrived(hung);
            self.beat = None;
        }
        if !passing && silence.is_none_or(|silence| silence >= timeout / BEATS) {
            self.heartbeat.beat(now);
            if self.beat.replace(now).is_none() {
                self.passed = self.heartbeat.passed();
            }
        }
        !passing
    }

    /// Drops the copies of frames that went straight across. If the loop hung, also drops the frames
    /// that arrived before the kernel noticed, and counts them as stale.
    fn drop_arrived(&mut self, hung: bool) {
        let (heartbeat, before) = (&self.heartbeat, &self.passed);
        for (at, port) in self.ports.iter_mut().enumerate() {
            let copies = || {
                let frames = |all: &[u64]| all.get(at).copied().unwrap_or_default();
                frames(&heartbeat.passed()).saturating_sub(frames(before))
            };
            match (hung, port.takes_frames()) {
                (true, true) => port.drop_arrived(self.machine.pool(), &|| 0),
                (true, false) => port.drop_arrived(self.machine.pool(), &copies),
                (false, false) => port.drop_arrived(self.machine.pool(), &|| u64::MAX),
                (false, true) => 0,
            };
        }
    }

    fn next_beat(&self) -> Option<Time> {
        Some(self.beat? + self.heartbeat.timeout()? / BEATS)
    }

    /// Sends frames straight across, takes in those that came before, and sends what is held.
    ///
    /// It ends after `drain` and after as many turns as fit into it, whichever is first: a clock that stands still
    /// would never reach the deadline.
    fn close(&mut self, clock: &mut dyn Clock) {
        let deadline = clock.now() + self.options.drain;
        let now = clock.now();
        if self.heartbeat.passing() {
            take_in(&mut self.machine, &mut self.ports, now, |port| port.takes_frames());
        } else {
            let (machine, ports) = (&mut self.machine, &mut self.ports);
            pass(machine, ports, &mut self.heartbeat, Passing::Ended, now);
        }
        let turns = self.options.drain.as_nanos() / CLOSING.as_nanos();
        for _ in 0..=turns {
            let now = clock.now();
            let turn = send_due(&mut self.machine, &mut self.ports, now);
            let receiving: u32 = self.ports.iter().map(|port| port.receiving()).sum();
            if self.machine.pool().in_use() <= receiving || now >= deadline {
                return;
            }
            // A port at which trunks end is overdue from its next hello on, because it learns the time from receiving.
            let until = turn.wait.map_or(deadline, |wait| deadline.min(now + wait.max(CLOSING)));
            let alarm = Alarm { at: until, exact: false };
            if clock.wait(Some(alarm), &mut std::iter::empty(), self.inbox.bell()) {
                self.serve(clock);
            }
        }
    }
}

/// The shortest wait between two turns of a loop that ends. A wait that is shorter, or that ends exactly at its time,
/// may take processor time only, and a clock of virtual time stands still meanwhile.
const CLOSING: Duration = Duration::from_micros(100);

impl<M: Machine, H: Heartbeat> Live<'_, M, H> {
    /// Sends frames straight across from now on, after those that have come, because there is nothing
    /// to manage; or sends them through the loop again.
    pub fn set_passing(&mut self, passing: bool) {
        let why = Passing::NothingToManage;
        if passing && !self.heartbeat.passing() {
            pass(self.machine, self.ports, self.heartbeat, why, self.now);
        } else {
            self.heartbeat.set_passing(passing.then_some(why));
        }
    }
}

/// Sends frames straight across from now on, after those that have come.
///
/// What came between the last look and the change is at the ports and nowhere else. Beside it may be
/// copies of the first that went straight across: a frame twice is better than none.
fn pass(
    machine: &mut dyn Machine,
    ports: &mut [Box<dyn Port>],
    heartbeat: &mut impl Heartbeat,
    why: Passing,
    now: Time,
) {
    take_in_all(machine, ports, now);
    heartbeat.set_passing(Some(why));
    take_in_all(machine, ports, now);
}

fn take_in_all(machine: &mut dyn Machine, ports: &mut [Box<dyn Port>], now: Time) {
    for _ in 0..LAST_BURSTS {
        if !take_in(machine, ports, now, |_| true).more {
            break;
        }
    }
}

/// Bursts taken in from each port before frames go straight across: more than a port holds.
const LAST_BURSTS: u32 = 256;

/// Short of the next point of any grid, from a point of it.
const NEXT: Duration = Duration::from_nanos(1);

/// How far apart looks at the machine lately were, at a high rate: the longest, slowly forgotten.
#[derive(Debug, Default)]
struct Grain {
    last: Time,
    longest: Duration,
}

impl Grain {
    /// The longest that is prepared for: what is longer is an exception.
    const MOST: Duration = Duration::from_millis(1);

    /// What part of what is remembered is forgotten with each look, as a divisor: some 100 ms.
    const FORGET: u32 = 1_024;

    /// The loop looks, and what it is then.
    fn look(&mut self, now: Time, high_rate: bool) -> Duration {
        let span = now.since(std::mem::replace(&mut self.last, now));
        let kept = self.longest - self.longest / Self::FORGET;
        self.longest = if high_rate { span.max(kept).min(Self::MOST) } else { Duration::ZERO };
        self.longest
    }
}

/// Whether there are so many packets that the loop wakes on a grid for them.
#[derive(Debug, Default)]
struct Grid {
    since: Time,
    packets: u64,
    on: bool,
}

impl Grid {
    /// What the rate is measured over.
    const WINDOW: Duration = Duration::from_millis(10);

    fn count(&mut self, now: Time, packets: u32, options: &Options) {
        self.packets += u64::from(packets);
        let span = now.since(self.since);
        if span >= Self::WINDOW {
            self.on = u128::from(self.packets) * 1_000_000_000
                >= u128::from(options.high_rate) * span.as_nanos();
            (self.since, self.packets) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_between_two_looks_is_remembered_for_a_while() {
        let mut grain = Grain::default();
        let mut now = Time::ZERO;
        let mut look = |micros, high_rate| {
            now += Duration::from_micros(micros);
            grain.look(now, high_rate)
        };
        assert_eq!(look(5_000, false), Duration::ZERO);
        assert_eq!(look(100, true), Duration::from_micros(100));
        assert_eq!(look(600, true), Duration::from_micros(600));
        assert!(look(100, true) > Duration::from_micros(590));
        for _ in 0..5_000 {
            look(100, true);
        }
        assert!(look(100, true) < Duration::from_micros(110));
        assert_eq!(look(80_000, true), Duration::from_millis(1));
    }
}
