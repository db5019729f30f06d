//! The agenda: the events to come. Each part of the network has at most one entry, the time of its
//! next call.

use tidegate_core::Time;
use tidegate_core::wheel::{Near, TimerWheel};

/// Schedules calls of the parts of the network.
///
/// The agenda calls parts in the order of their times. At equal times, the part that was scheduled
/// first comes first.
pub(crate) trait Agenda: Default {
    /// Schedules part `number` at the time `at`. Replaces the part's earlier entry, if any.
    fn set(&mut self, number: u32, at: Time);

    /// Removes part `number` from the schedule.
    fn cancel(&mut self, number: u32);

    /// Removes and returns the next part with a time of at most `end`. Passes parts that are due
    /// soon to `near`, so that the caller can prefetch them.
    fn next(&mut self, end: Time, near: impl FnMut(Near, u32)) -> Option<(Time, u32)>;

    /// The part that `next` will return next time, if it is known.
    fn upcoming(&self) -> Option<u32>;
}

impl Agenda for TimerWheel {
    fn set(&mut self, number: u32, at: Time) {
        self.set(number, at);
    }

    fn cancel(&mut self, number: u32) {
        self.cancel(number);
    }

    #[inline]
    fn next(&mut self, end: Time, near: impl FnMut(Near, u32)) -> Option<(Time, u32)> {
        self.pop_next_announcing(end, near)
    }

    #[inline]
    fn upcoming(&self) -> Option<u32> {
        self.upcoming()
    }
}

/// A second implementation, a binary heap, for the test that compares it with the timer wheel.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Heap {
    /// Time, serial number and part of each entry. Old entries remain in the heap.
    entries: std::collections::BinaryHeap<std::cmp::Reverse<(Time, u64, u32)>>,
    /// For each part, the serial number of its valid entry; zero for none.
    valid: Vec<u64>,
    set: u64,
    now: Time,
}

#[cfg(test)]
impl Agenda for Heap {
    fn set(&mut self, number: u32, at: Time) {
        let place = crate::routes::index(number);
        if self.valid.len() <= place {
            self.valid.resize(place + 1, 0);
        }
        self.set += 1;
        self.valid[place] = self.set;
        self.entries.push(std::cmp::Reverse((at.max(self.now), self.set, number)));
    }

    fn cancel(&mut self, number: u32) {
        if let Some(valid) = self.valid.get_mut(crate::routes::index(number)) {
            *valid = 0;
        }
    }

    fn next(&mut self, end: Time, _: impl FnMut(Near, u32)) -> Option<(Time, u32)> {
        while let Some(std::cmp::Reverse((at, set, number))) = self.entries.peek().copied() {
            let valid = &mut self.valid[crate::routes::index(number)];
            if *valid == set && at > end {
                return None;
            }
            self.entries.pop();
            if *valid == set {
                *valid = 0;
                self.now = at;
                return Some((at, number));
            }
        }
        None
    }

    fn upcoming(&self) -> Option<u32> {
        None
    }
}
