//! The timer wheel: setting and cancelling timers, and setting and firing timers.

use tidegate_core::Time;
use tidegate_core::random::Random;
use tidegate_core::wheel::TimerWheel;

use super::{Case, Order, index};

/// A timer wheel in which all timers are set.
struct Wheel {
    wheel: TimerWheel,
    order: Order,
    /// Times in nanoseconds for which timers are set, in rotation.
    delays: [u64; DELAYS],
    now: Time,
}

impl Wheel {
    fn new(size: u32, mut random: Random) -> Self {
        // Timeouts from the transmission time of a packet at 1 Gbit/s to the longest timeout. Each
        // power of two is equally frequent.
        let mut delays = [0; DELAYS];
        delays.fill_with(|| (12_000 + random.below(1 << 20)) << random.below(17));
        let order = Order::new(size, &mut random);
        let mut wheel = Self { wheel: TimerWheel::new(), order, delays, now: Time::ZERO };
        for number in 0..size {
            wheel.set(number);
        }
        wheel
    }

    fn set(&mut self, number: u32) {
        let delay = self.delays[index(number.into()) % DELAYS];
        self.wheel.set(number, Time::from_nanos(self.now.nanos() + delay));
    }
}

const DELAYS: usize = 4_096;

/// An operation cancels a timer and sets it again.
pub(super) struct SetCancel(Wheel);

impl SetCancel {
    pub(super) fn new(size: u32, random: Random) -> Self {
        Self(Wheel::new(size, random))
    }
}

impl Case for SetCancel {
    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..operations {
            let number = self.0.order.next();
            sum += u64::from(self.0.wheel.cancel(number));
            self.0.set(number);
        }
        sum
    }
}

/// An operation fires the next timer and sets it again.
pub(super) struct SetFire(Wheel);

impl SetFire {
    pub(super) fn new(size: u32, random: Random) -> Self {
        Self(Wheel::new(size, random))
    }
}

impl Case for SetFire {
    fn run(&mut self, operations: u64) -> u64 {
        let (mut sum, mut fired) = (0, 0);
        while fired < operations {
            if let Some(number) = self.0.wheel.pop(self.0.now) {
                self.0.set(number);
                (sum, fired) = (sum + u64::from(number), fired + 1);
            } else if let Some(next) = self.0.wheel.next_deadline() {
                self.0.now = next;
            }
        }
        sum
    }
}
