//! A hierarchical timing wheel: many timers, each set, cancelled and expired in constant time.
//!
//! A deadline is a number of 64 bits, or eleven digits of six bits. Level `n` of the wheel has 64
//! slots, one for each value of digit `n`. A timer is in the level of the highest digit in which
//! its deadline differs from the present time. When the time reaches a slot, the timers of this
//! slot move to lower levels.
//!
//! Source: "Hashed and hierarchical timing wheels" (SOSP 1987), scheme 7.

use crate::Time;
use crate::packet::{make_room, slot as index};

/// A set of timers. Each has a deadline in nanoseconds, and a number that the caller chooses.
///
/// Numbers are indices from zero, because memory grows with the largest number. Each number
/// identifies at most one timer. Several kinds of timers share a wheel by dividing the numbers
/// among them. Timers expire in the order of their deadlines; timers with equal deadlines expire in
/// the order in which they were set. A deadline in the past counts as the latest time passed to
/// `pop_next`. Memory never shrinks.
///
/// ```
/// # use tidegate_base::{Time, wheel::TimerWheel};
/// let mut wheel = TimerWheel::new();
/// wheel.set(7, Time::from_micros(30));
/// wheel.set(3, Time::from_micros(20));
/// wheel.cancel(7);
/// assert_eq!(wheel.pop(Time::from_micros(19)), None);
/// assert_eq!(wheel.pop(Time::from_micros(20)), Some(3));
/// ```
#[derive(Clone, Debug, Default)]
pub struct TimerWheel {
    timers: Vec<Timer>,
    /// The slots of all levels used so far, [`SLOTS`] for each level.
    slots: Vec<WheelSlot>,
    /// For each level, a bit for each slot that has timers.
    occupied: [u64; LEVELS],
    /// A bit for each level that has timers.
    levels: u32,
    /// The present time of the wheel: all timers before it have expired.
    reached: u64,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    deadline: u64,
    /// The next timer in the slot; [`UNSET`] for a timer that is not set.
    next: u32,
    previous: u32,
}

/// A list of timers. Their deadlines have equal digits at the slot's level and above.
#[derive(Clone, Copy, Debug)]
struct WheelSlot {
    first: u32,
    last: u32,
    /// Lower bound of the deadlines in the slot. Exact until a timer is cancelled.
    earliest: u64,
}

/// How soon an announced timer expires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Near {
    /// The timer is in the slot after the next slot.
    Soon,
    /// The timer is in the next slot.
    Now,
}

/// The lowest level whose timers are announced. Each of its slots spans 4 us.
const COARSE: usize = 2;
const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = 11; // Six-bit digits in 64 bits.
const NIL: u32 = u32::MAX;
const UNSET: u32 = u32::MAX - 1;

impl TimerWheel {
    /// A wheel without timers, at the beginning of the run.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets timer `number` to `deadline`. Replaces an earlier deadline.
    #[inline]
    pub fn set(&mut self, number: u32, deadline: Time) {
        let deadline = deadline.nanos().max(self.reached);
        match self.timers.get(index(number)) {
            Some(timer) if timer.next == UNSET => self.file(number, deadline),
            _ => self.set_again(number, deadline),
        }
    }

    /// Sets a timer that is set already, or whose number is new.
    #[cold]
    #[inline]
    fn set_again(&mut self, number: u32, deadline: u64) {
        if !self.cancel(number) {
            let unset = Timer { deadline: 0, next: UNSET, previous: NIL };
            make_room(&mut self.timers, index(number), unset);
        }
        self.file(number, deadline);
    }

    /// Cancels timer `number`. Returns `true` if it was set.
    #[inline]
    pub fn cancel(&mut self, number: u32) -> bool {
        let Some(timer) = self.timers.get_mut(index(number)) else { return false };
        let Timer { deadline, next, previous } = *timer;
        if next == UNSET {
            return false;
        }
        timer.next = UNSET;
        let (level, digit) = digit(deadline, self.reached);
        self.join(previous, next, level * SLOTS + digit);
        true
    }

    /// Deadline of timer `number`. `None` if the timer is not set.
    #[must_use]
    #[inline]
    pub fn deadline(&self, number: u32) -> Option<Time> {
        let timer = self.timers.get(index(number)).filter(|timer| timer.next != UNSET)?;
        Some(Time::from_nanos(timer.deadline))
    }

    /// A time at or before the next deadline. `None` if no timer is set. Once [`pop`](Self::pop)
    /// has returned `None` at `now`, the time is after `now`.
    ///
    /// The result is the exact deadline, unless a timer close to it was cancelled.
    #[must_use]
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        let (_, slot) = self.first_slot()?;
        Some(Time::from_nanos(self.slots[slot].earliest))
    }

    /// The number of the next timer to expire, if it can be found without a search. A timer that is
    /// set later may expire earlier.
    #[inline]
    #[must_use]
    pub fn upcoming(&self) -> Option<u32> {
        let (level, at) = self.first_slot()?;
        let WheelSlot { first, last, .. } = self.slots[at];
        (level < COARSE || first == last).then_some(first)
    }

    /// Removes the next timer with a deadline of at most `now`, and returns its deadline. Call
    /// until `None`.
    ///
    /// A simulation advances its clock to the returned deadline, up to `now`.
    #[inline]
    pub fn pop_next(&mut self, now: Time) -> Option<(Time, u32)> {
        let number = self.pop(now)?;
        Some((Time::from_nanos(self.reached), number))
    }

    /// Like [`pop_next`](Self::pop_next), but calls `near` for some timers that expire soon, so
    /// that the caller can prefetch their data. With many timers, most are announced.
    #[inline]
    pub fn pop_next_announcing(
        &mut self,
        now: Time,
        mut near: impl FnMut(Near, u32),
    ) -> Option<(Time, u32)> {
        let number = self.fire(now, |this, level, slot| this.announce(level, slot, &mut near))?;
        Some((Time::from_nanos(self.reached), number))
    }

    /// Removes the next timer with a deadline of at most `now`. Call until `None`.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<u32> {
        self.fire(now, |_, _, _| {})
    }

    /// Removes the next expired timer. `opens` is called for each slot whose timers move to lower
    /// levels.
    #[inline]
    fn fire(&mut self, now: Time, opens: impl FnMut(&Self, usize, usize)) -> Option<u32> {
        let due = self.due(now.nanos())?;
        self.fire_from(due, now.nanos(), opens)
    }

    /// The level and the index of the first slot, if one of its timers may have expired. Otherwise
    /// advances the present time towards `now`.
    #[inline]
    fn due(&mut self, now: u64) -> Option<(usize, usize)> {
        let Some((level, at)) = self.first_slot() else {
            self.reached = self.reached.max(now);
            return None;
        };
        let earliest = self.slots[at].earliest;
        if earliest > now {
            self.advance(level, earliest, now);
            return None;
        }
        Some((level, at))
    }

    /// Removes the next expired timer, beginning at a slot that is [`due`](Self::due). It is not
    /// inlined, so that a wheel without expired timers costs no call.
    #[inline(never)]
    fn fire_from(
        &mut self,
        (mut level, mut at): (usize, usize),
        now: u64,
        mut opens: impl FnMut(&Self, usize, usize),
    ) -> Option<u32> {
        loop {
            let WheelSlot { first, last, earliest } = self.slots[at];
            // A list of one timer needs no finer slots.
            if level > 0 && first != last {
                opens(self, level, at);
                self.cascade(at, earliest);
                (level, at) = self.due(now)?;
                continue;
            }
            let deadline = self.timers[index(first)].deadline;
            if deadline > now {
                self.slots[at].earliest = deadline;
                (level, at) = self.due(now)?;
                continue;
            }
            let timer = &mut self.timers[index(first)];
            let Timer { next, previous, .. } = *timer;
            timer.next = UNSET;
            self.join(previous, next, at);
            self.reached = deadline;
            return Some(first);
        }
    }

    /// Calls `near` for the timers of the first and of the second slot of `level`.
    #[inline]
    fn announce(&self, level: usize, slot: usize, near: &mut impl FnMut(Near, u32)) {
        if level < COARSE {
            return;
        }
        self.list(slot).for_each(|number| near(Near::Now, number));
        let later = self.occupied[level] & (self.occupied[level] - 1);
        if later != 0 {
            let slot = level * SLOTS + index(later.trailing_zeros());
            self.list(slot).for_each(|number| near(Near::Soon, number));
        }
    }

    /// The timers of a slot.
    #[inline]
    fn list(&self, slot: usize) -> impl Iterator<Item = u32> {
        let filed = |number: u32| (number != NIL).then_some(number);
        let next = move |number: &u32| filed(self.timers[index(*number)].next);
        core::iter::successors(filed(self.slots[slot].first), next)
    }

    /// Advances the present time to `now`, but never into the next slot with timers. The timers of
    /// that slot would have to move to lower levels first.
    #[inline]
    fn advance(&mut self, level: usize, earliest: u64, now: u64) {
        let span = DIGIT * u32::try_from(level).unwrap_or(0);
        if now >> span < earliest >> span {
            self.reached = self.reached.max(now);
        }
    }

    /// Moves the timers of a slot to lower levels. `earliest` is a time within the span of the
    /// slot.
    #[inline]
    fn cascade(&mut self, slot: usize, earliest: u64) {
        let mut number = self.slots[slot].first;
        self.join(NIL, NIL, slot);
        self.reached = earliest;
        while number != NIL {
            let Timer { deadline, next, .. } = self.timers[index(number)];
            self.file(number, deadline);
            number = next;
        }
    }

    /// Appends a timer to the list of its slot.
    #[inline]
    fn file(&mut self, number: u32, deadline: u64) {
        let (level, digit) = digit(deadline, self.reached);
        let Some(slot) = self.slots.get_mut(level * SLOTS + digit) else {
            return self.file_at_new_level(number, deadline, level);
        };
        let previous = slot.last;
        slot.last = number;
        if previous == NIL {
            slot.first = number;
            slot.earliest = deadline;
            self.occupied[level] |= 1 << digit;
            self.levels |= 1 << level;
        } else {
            slot.earliest = slot.earliest.min(deadline);
            self.timers[index(previous)].next = number;
        }
        self.timers[index(number)] = Timer { deadline, next: NIL, previous };
    }

    #[cold]
    #[inline]
    fn file_at_new_level(&mut self, number: u32, deadline: u64, level: usize) {
        self.slots.resize((level + 1) * SLOTS, WheelSlot { first: NIL, last: NIL, earliest: 0 });
        self.file(number, deadline);
    }

    /// Links `previous` and `next` in the list of `slot`. `NIL` means an end of the list.
    #[inline]
    fn join(&mut self, previous: u32, next: u32, slot: usize) {
        match previous {
            NIL => self.slots[slot].first = next,
            _ => self.timers[index(previous)].next = next,
        }
        match next {
            NIL => self.slots[slot].last = previous,
            _ => self.timers[index(next)].previous = previous,
        }
        if previous == NIL && next == NIL {
            let level = slot / SLOTS;
            self.occupied[level] &= !(1 << (slot % SLOTS));
            if self.occupied[level] == 0 {
                self.levels &= !(1 << level);
            }
        }
    }

    /// The first slot with timers at the lowest level with timers, and that level. This slot has
    /// the earliest deadlines.
    #[inline]
    fn first_slot(&self) -> Option<(usize, usize)> {
        if self.levels == 0 {
            return None;
        }
        let level = index(self.levels.trailing_zeros());
        Some((level, level * SLOTS + index(self.occupied[level].trailing_zeros())))
    }
}

/// The position of the highest digit in which `deadline` differs from `reached`, and the digit of
/// `deadline` at this position.
#[inline]
fn digit(deadline: u64, reached: u64) -> (usize, usize) {
    let level = ((deadline ^ reached) | 1).ilog2() / DIGIT;
    let digit = (deadline >> (DIGIT * level)) % (1 << DIGIT);
    (index(level), usize::try_from(digit).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_in_the_order_of_deadlines_whatever_their_distance() {
        let mut wheel = TimerWheel::new();
        let deadlines = [u64::MAX, 1 << 40, 5_000, 4_999, 64, 63, 0];
        for (number, deadline) in (0..).zip(deadlines) {
            wheel.set(number, Time::from_nanos(deadline));
        }
        assert_eq!(wheel.next_deadline(), Some(Time::ZERO));
        for number in (0..7).rev() {
            assert_eq!(wheel.pop(Time::MAX), Some(number));
        }
        assert_eq!((wheel.pop(Time::MAX), wheel.next_deadline()), (None, None));
    }

    #[test]
    fn the_clock_can_jump_from_deadline_to_deadline() {
        let mut wheel = TimerWheel::new();
        [300, 100, 200].into_iter().zip(0..).for_each(|(at, n)| wheel.set(n, Time::from_nanos(at)));
        let at = Time::from_nanos;
        assert_eq!(wheel.pop_next(at(250)), Some((at(100), 1)));
        wheel.set(1, at(150));
        assert_eq!(wheel.pop_next(at(250)), Some((at(150), 1)));
        assert_eq!(wheel.pop_next(at(250)), Some((at(200), 2)));
        assert_eq!(wheel.pop_next(at(250)), None);
    }

    /// Many timers, each set again when it expires.
    ///
    /// Catches: a timer that is not announced, because only one level of the wheel announces its
    /// timers, or because its slot is not the first slot with timers of its level.
    #[test]
    fn timers_are_announced_before_they_fire_and_announcements_change_nothing() {
        let mut random = crate::random::Random::new(5, 0);
        let (mut announcing, mut plain) = (TimerWheel::new(), TimerWheel::new());
        for number in 0..1_000 {
            let at = Time::from_nanos(random.below(500_000));
            announcing.set(number, at);
            plain.set(number, at);
        }
        let (mut soon, mut now) = ([false; 1_000], [false; 1_000]);
        let (mut announced, mut known) = (0, 0);
        for _ in 0..20_000 {
            let upcoming = announcing.upcoming();
            let near = |near, number: u32| match near {
                Near::Soon => soon[index(number)] = true,
                Near::Now => now[index(number)] = true,
            };
            let fired = announcing.pop_next_announcing(Time::MAX, near);
            assert_eq!(fired, plain.pop_next(Time::MAX));
            let (at, number) = fired.unwrap();
            known += u32::from(upcoming == Some(number));
            let place = index(number);
            announced +=
                u32::from(std::mem::take(&mut soon[place]) && std::mem::take(&mut now[place]));
            let next = at + std::time::Duration::from_nanos(100_000 + random.below(500_000));
            announcing.set(number, next);
            plain.set(number, next);
        }
        assert!(announced > 18_000 && known > 12_000, "{announced} announced, {known} known");
    }

    #[test]
    fn a_timer_set_again_fires_once_at_its_new_deadline() {
        let mut wheel = TimerWheel::new();
        wheel.set(0, Time::from_nanos(100));
        wheel.set(0, Time::from_nanos(200));
        assert_eq!(wheel.pop(Time::from_nanos(199)), None);
        assert_eq!(wheel.deadline(0), Some(Time::from_nanos(200)));
        assert_eq!(wheel.pop(Time::from_nanos(200)), Some(0));
        assert!(!wheel.cancel(0) && !wheel.cancel(99));
    }

    #[test]
    fn a_deadline_in_the_past_expires_at_once() {
        let mut wheel = TimerWheel::new();
        assert_eq!(wheel.pop(Time::from_secs(1)), None);
        wheel.set(0, Time::ZERO);
        assert_eq!(wheel.deadline(0), Some(Time::from_secs(1)));
        assert_eq!(wheel.pop(Time::from_secs(1)), Some(0));
    }
}
