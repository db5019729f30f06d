//! The loop: runs turns until it is stopped, and sleeps in between.
//!
//! Methods of `Live`, whose fields are in `inbox.rs`.

use std::time::Duration;

use tidegate_core::{Machine, Time};

use crate::clock::{Alarm, Clock};
use crate::heartbeat::{Heartbeat, Passing};
use crate::inbox::{Inbox, Live};
use crate::port::Port;
use crate::turn::{Turn, send_due, take_in, turn};

/// Number of beats within the timeout of a heartbeat.
const BEATS: u32 = 4;

/// Settings of a loop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// Grid for wake-ups at high rates: packets are received and sent only at multiples of it. Zero
    /// switches the grid off.
    pub grid: Duration,
    /// Rate in packets per second from which the grid is used, for arrivals and departures
    /// separately.
    pub high_rate: u32,
    /// Longest time for sending the held packets after a stop.
    pub drain: Duration,
}

/// Source: measured. At 1 Gbit/s, a loop that wakes for each packet takes 80 % of a core, and 67 %
/// on a grid of 100 us. At 100 Mbit/s (8,300 packets per second) it takes 16 % and is as exact as
/// HTB. At 60,000 packets per second, a packet costs 3.9 us if it wakes the loop, and 1.9 us if
/// packets gather for up to 100 us.
impl Default for Options {
    fn default() -> Self {
        Self { grid: Duration::from_micros(100), high_rate: 20_000, drain: Duration::from_secs(2) }
    }
}

/// A machine with its ports, its heartbeat and its inbox.
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
    /// Time of the last beat.
    beat: Option<Time>,
    hangs: u64,
    /// The longest processor time of one command, or of one turn during a policy change.
    occupied: Duration,
    hung_at: Time,
    /// For each port, the frames that had bypassed the gateway when the loop started to beat.
    passed: Vec<u64>,
}

impl<M: Machine, H: Heartbeat> Driver<M, H> {
    /// A loop that drives `machine` between `ports`. The index of a port is its number.
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

    /// Runs until it is stopped, then sends the held packets. Returns its parts.
    pub fn run(mut self, clock: &mut dyn Clock) -> (M, Vec<Box<dyn Port>>, H) {
        loop {
            let now = clock.now();
            // Reading the processor time takes a system call, which is too expensive for every
            // turn.
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

    /// The next wake-up after `turn`, unless packets arrive earlier.
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

    /// Returns `true` if arrivals after `turn` are to wait for the next point of the grid. This is
    /// so at a high rate, as long as every turn receives packets.
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

    /// Updates the maximum with the processor time since `began`.
    fn note(&mut self, began: Option<Duration>, clock: &mut dyn Clock) {
        if let Some(began) = began {
            self.occupied = self.occupied.max(clock.used().saturating_sub(began));
        }
    }

    /// Beats if it is due. Returns `true` if the loop is to forward all arriving frames.
    ///
    /// While frames bypass the gateway, their copies are dropped. After a hang, everything that has
    /// arrived is dropped, because the kernel has already forwarded later frames.
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

    /// Drops the copies of frames that bypassed the gateway. After a hang, also drops the frames
    /// that arrived before the kernel noticed the hang, and counts them as stale.
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

    /// Switches to bypass, receives the frames that came before, and sends the held packets.
    ///
    /// It ends after `drain`, or after as many turns as fit into it. The limit of turns matters if
    /// the clock stands still and never reaches the deadline.
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
            // A port with trunks learns the time only when it receives. So it stays overdue from
            // its next hello on.
            let until = turn.wait.map_or(deadline, |wait| deadline.min(now + wait.max(CLOSING)));
            let alarm = Alarm { at: until, exact: false };
            if clock.wait(Some(alarm), &mut std::iter::empty(), self.inbox.bell()) {
                self.serve(clock);
            }
        }
    }
}

/// The shortest wait between two turns of a loop that ends. A shorter or exact wait may only spin,
/// and virtual time does not advance while a thread spins.
const CLOSING: Duration = Duration::from_micros(100);

impl<M: Machine, H: Heartbeat> Live<'_, M, H> {
    /// With `true`, switches to bypass because there is nothing to manage, after receiving the
    /// frames that have already come. With `false`, frames come to the loop again.
    pub fn set_passing(&mut self, passing: bool) {
        let why = Passing::NothingToManage;
        if passing && !self.heartbeat.passing() {
            pass(self.machine, self.ports, self.heartbeat, why, self.now);
        } else {
            self.heartbeat.set_passing(passing.then_some(why));
        }
    }
}

/// Switches to bypass, and receives the frames that came before.
///
/// Frames that arrive just before the switch exist only at the ports, so the ports are read once
/// more after it. They may then also hold copies of the first bypassed frames. A duplicate frame is
/// better than a lost one.
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

/// Bursts received from each port before the bypass begins: more than a port holds.
const LAST_BURSTS: u32 = 256;

/// Added to a point of the grid, it selects the next point.
const NEXT: Duration = Duration::from_nanos(1);

/// The longest interval between recent calls of the machine at a high rate. It decays slowly.
#[derive(Debug, Default)]
struct Grain {
    last: Time,
    longest: Duration,
}

impl Grain {
    /// Upper bound of the interval. Longer intervals are exceptions.
    const MOST: Duration = Duration::from_millis(1);

    /// Decay per call, as a divisor: a time constant of about 100 ms.
    const FORGET: u32 = 1_024;

    /// Records a call at `now`; returns the current value.
    fn look(&mut self, now: Time, high_rate: bool) -> Duration {
        let span = now.since(std::mem::replace(&mut self.last, now));
        let kept = self.longest - self.longest / Self::FORGET;
        self.longest = if high_rate { span.max(kept).min(Self::MOST) } else { Duration::ZERO };
        self.longest
    }
}

/// Switches the grid on and off by the packet rate.
#[derive(Debug, Default)]
struct Grid {
    since: Time,
    packets: u64,
    on: bool,
}

impl Grid {
    /// Interval over which the rate is measured.
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
