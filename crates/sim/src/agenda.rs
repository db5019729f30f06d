//! What happens next: at most one time for each part of the network.

use tidegate_core::Time;
use tidegate_core::wheel::{Near, TimerWheel};

/// Which part of the network is to be called when.
///
/// Parts are called in the order of their times, and those of one time in the order in which these
/// were set.
pub(crate) trait Agenda: Default {
    /// Part `number` is called at `at`, and not when it was to be called before.
    fn set(&mut self, number: u32, at: Time);

    /// Part `number` is not called.
    fn cancel(&mut self, number: u32);

    /// The next part to be called by `end`, and when. Parts whose time comes near are told to `near`, as
    /// far as that is known.
    fn next(&mut self, end: Time, near: impl FnMut(Near, u32)) -> Option<(Time, u32)>;

    /// The part that will be called after that, as far as that is known.
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
        self.pop_next_telling(end, near)
    }

    #[inline]
    fn upcoming(&self) -> Option<u32> {
        self.upcoming()
    }
}

/// The same by another method, to compare with.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Heap {
    /// Time, order of setting, part.
    entries: std::collections::BinaryHeap<std::cmp::Reverse<(Time, u64, u32)>>,
    /// By part, the order of setting of the entry that counts; zero for none.
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
