//! Gates of several aggregates whose data waits in one place: a class of the link, or the link.
//!
//! An aggregate's own gate sees what waits in the aggregate. What waits behind it, and what all that
//! send there were called for, is the place's, which has a gate too: while it wants more, the
//! aggregates that have ACKs for it take turns byte for byte.
//!
//! Source: `postack`, R001-9 P3: a gate for each class, `O_C` and `B_C` of all that is in it. Differs:
//! the rate of a class is not known; it is taken for the profiles of those who send there together, but
//! no more than the link or the ceiling of the class allows.

use std::time::Duration;

use super::takers::Takers;
use crate::packet::{First, Links, Member, make_room};
use crate::{Bytes, Rate};

/// What waits where packets of an aggregate go next, and may be called for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ahead {
    /// Charged bytes of governed flows, of whatever aggregate.
    pub waiting: Bytes,
    /// Packets of others wait there as well.
    pub others: bool,
    /// The most that may leave there; `None` if nothing is ever to wait.
    pub rate: Option<Rate>,
    /// What is asked for there.
    pub(crate) asked: Asked,
    /// What may be called for.
    pub room: Bytes,
    /// How long it may be before somebody looks again.
    pub grain: Duration,
}

/// What aggregates whose senders are asked to send to one place may send by their profiles.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Asked {
    /// Bits per second.
    all: u64,
    takers: Takers,
}

impl Asked {
    /// These are asked for, while all may send `most`.
    #[cfg(test)]
    pub(super) fn of(rates: &[u64], most: u64) -> Self {
        let mut asked = Self::default();
        for rate in rates {
            asked.add(*rate, most);
        }
        asked
    }

    /// What an aggregate may send of `rate`, if all may send `most`.
    fn part_of(&self, rate: u64, most: u64) -> u64 {
        if self.all <= most { rate } else { rate.min(self.takers.level(most, 1)).max(1) }
    }

    /// One who asked for `rate`, and that was `modest` or not, does so no longer.
    fn remove(&mut self, rate: u64, modest: bool) {
        self.all = self.all.saturating_sub(rate);
        self.takers.remove(u32::from(rate > 0), modest.then_some(rate));
    }

    /// One asks for `rate`, while all may send `most`; says whether that is modest.
    fn add(&mut self, rate: u64, most: u64) -> bool {
        let mut others = self.takers;
        others.add(u32::from(rate > 0), None);
        let modest = rate > 0 && rate < others.level(most, 1);
        self.all = self.all.saturating_add(rate);
        self.takers.add(u32::from(rate > 0), modest.then_some(rate));
        modest
    }
}

impl Ahead {
    /// What is left of the `rate` of an aggregate if what is asked for there is cut down to what may leave.
    pub(super) fn part_of(&self, rate: Rate) -> Rate {
        let Some(most) = self.rate else { return rate };
        Rate::from_bps(self.asked.part_of(rate.bps(), most.bps()))
    }

    /// The least of that and what may leave at all.
    pub(super) fn carries_of(&self, rate: Rate) -> Rate {
        self.rate.map_or(rate, |most| self.part_of(rate).min(most))
    }
}

/// What the senders of an aggregate were called for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    /// Charged bytes that have not come yet.
    pub(super) outstanding: u64,
    /// Bytes they were called for since last time.
    pub(super) called: u64,
    /// Bits per second that they may send; zero if they are not asked to.
    pub(super) rate: u64,
    pub(super) wanted: Wanted,
    /// More would have been called for, had there been room ahead.
    pub(super) more: bool,
}

/// How much a queue should have, and on its way to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// Round trip to the senders, in microseconds, averaged over what they are called for.
    near_us: u64,
    /// What leave for them was outstanding, in microseconds.
    response_us: u64,
    /// The longest full segment, as charged.
    segment: u32,
    /// Flows that have ACKs here.
    pub(super) waiting: u32,
}

/// Full segments the queue holds at least, and beyond what is on its way.
///
/// Source: `postack`, R001-9: `max(2..4 MTU, rate * rtt_near + 2 MTU)`.
const LEAST: u64 = 3;
const BEYOND: u64 = 2;

/// An Ethernet frame, until a longer one is seen.
const FRAME: u32 = 1_514;

/// The average is over this many bytes.
const AVERAGED: u64 = 1 << 16;

impl Wanted {
    /// A full segment is at least so long.
    pub(super) fn see(&mut self, segment: u32) {
        self.segment = self.segment.max(segment);
    }

    /// Senders that are `near` by were called for `bytes`.
    pub(super) fn called(&mut self, near: Duration, bytes: u32) {
        let near_us = u64::try_from(near.as_micros()).unwrap_or(u64::MAX).min(1_000_000);
        self.average(near_us, bytes.into());
    }

    /// Leave was outstanding for `span` on average.
    pub(super) fn respond(&mut self, span: Duration) {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).min(1_000_000);
        self.response_us = self.response_us / 2 + span / 2;
    }

    /// How long what is called for is on its way: no longer than its leave lasts.
    fn on_its_way_us(&self) -> u64 {
        let lasts = super::gate::lasts(Duration::from_micros(self.near_us));
        let most = u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX);
        self.near_us.max(self.response_us.min(most))
    }

    fn average(&mut self, near_us: u64, bytes: u64) {
        let part = bytes.min(AVERAGED);
        self.near_us = (self.near_us * (AVERAGED - part) + near_us * part) / AVERAGED;
    }

    /// How much the queue should have, and on its way, if it is emptied at `rate` and looked at once in
    /// a `grain`.
    pub(super) fn bytes(&self, rate: Rate, grain: Duration, others: bool) -> u64 {
        let segment = u64::from(self.segment());
        let on_its_way = rate.bytes_in(Duration::from_micros(self.on_its_way_us()) + grain).0;
        let own = (segment * LEAST).max(on_its_way + segment * BEYOND);
        if others { own.max(on_its_way + segment * u64::from(self.waiting)) } else { own }
    }

    fn segment(&self) -> u32 {
        self.segment.max(FRAME)
    }
}

/// The places in one direction, by number, and the aggregates that send there, by theirs.
#[derive(Default)]
pub(crate) struct Places {
    places: Vec<Place>,
    /// Whose turn comes when, in the place they send to.
    turns: Links,
    senders: Vec<Sender>,
    /// How many of them wait for room.
    waiting: u32,
}

/// A place where data of several aggregates waits.
#[derive(Clone, Copy)]
struct Place {
    /// Of all that send here.
    outstanding: u64,
    asked: Asked,
    wanted: Wanted,
    turns: First,
}

/// An aggregate that sends to a place.
#[derive(Clone, Copy, Default)]
struct Sender {
    /// What it last said.
    call: Call,
    /// It asked for no more than its part.
    modest: bool,
    /// Bytes left of its turn; negative if its last ACK was worth more.
    credit: i64,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            outstanding: 0,
            asked: Asked::default(),
            wanted: Wanted::default(),
            turns: First::NOBODY,
        }
    }
}

impl Place {
    /// A sender says something else than `before`, while all may send `most`.
    fn update(&mut self, sender: &mut Sender, now: &Call, most: Option<Rate>) {
        let before = &sender.call;
        self.outstanding = self.outstanding - before.outstanding + now.outstanding;
        self.asked.remove(before.rate, sender.modest);
        sender.modest = self.asked.add(now.rate, most.map_or(u64::MAX, Rate::bps));
        self.wanted.waiting = self.wanted.waiting - before.wanted.waiting + now.wanted.waiting;
        self.wanted.see(now.wanted.segment);
        self.wanted.average(now.wanted.on_its_way_us(), now.called);
    }

    /// What a turn is worth: two full segments.
    fn quantum(&self) -> i64 {
        i64::from(self.wanted.segment()) * 2
    }

    /// What may be called for.
    fn room(&self, ahead: Ahead) -> u64 {
        let Some(most) = ahead.rate else { return u64::MAX };
        let rate = most.min(Rate::from_bps(self.asked.all));
        let wanted = self.wanted.bytes(rate, ahead.grain, ahead.others);
        wanted.saturating_sub(ahead.waiting.0.saturating_add(self.outstanding))
    }
}

impl Places {
    /// The same, with what is asked for at `place`, and what may be called for out of turn: nothing while
    /// somebody waits for a turn.
    pub(crate) fn complete(&self, place: usize, ahead: Ahead) -> Ahead {
        if ahead.rate.is_none() {
            return Ahead { room: Bytes(u64::MAX), ..ahead };
        }
        let place = self.places.get(place).copied().unwrap_or_default();
        let room = if place.turns.member().is_none() { place.room(ahead) } else { 0 };
        Ahead { asked: place.asked, room: Bytes(room), ..ahead }
    }

    /// Whether somebody waits for a turn, wherever.
    pub(crate) const fn is_waited_for(&self) -> bool {
        self.waiting > 0
    }

    /// Takes note of what aggregate `number`, which sends to `place`, says; all may send `most` there.
    pub(crate) fn note(&mut self, place: usize, number: u32, call: Call, most: Option<Rate>) {
        let member = Member(number);
        make_room(&mut self.places, place, Place::default());
        make_room(&mut self.senders, member.index(), Sender::default());
        let (place, sender) = (&mut self.places[place], &mut self.senders[member.index()]);
        place.update(sender, &call, most);
        match (sender.call.more, call.more) {
            (false, true) => {
                self.turns.push(&mut place.turns, member);
                self.waiting += 1;
                sender.credit = place.quantum();
            }
            (true, false) => {
                self.turns.remove(&mut place.turns, member);
                self.waiting -= 1;
            }
            (true, true) => sender.credit -= i64::try_from(call.called).unwrap_or(i64::MAX),
            (false, false) => {}
        }
        sender.call = call;
    }

    /// Whose turn it is at `place`, and what it may call for; nobody's while there is no room.
    pub(crate) fn turn(
        &mut self,
        place: usize,
        ahead: impl FnOnce() -> Ahead,
    ) -> Option<(u32, Bytes)> {
        let place = self.places.get_mut(place)?;
        place.turns.member()?;
        let ahead = ahead();
        let room = place.room(ahead);
        if ahead.rate.is_none() || room == 0 {
            return None;
        }
        loop {
            let member = place.turns.member()?;
            let credit = &mut self.senders[member.index()].credit;
            match u64::try_from(*credit) {
                Ok(credit @ 1..) => return Some((member.0, Bytes(room.min(credit)))),
                _ => *credit += place.quantum(),
            }
            self.turns.rotate(&mut place.turns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Option<Rate> = Some(Rate::from_mbps(10));

    /// A sender that would call for more, and has called for so much more since last time.
    fn more(called: u64) -> Call {
        let wanted = Wanted { near_us: 3_000, ..Wanted::default() };
        Call { called, rate: 10_000_000, wanted, more: true, ..Call::default() }
    }

    fn behind(waiting: u64) -> Ahead {
        Ahead { waiting: Bytes(waiting), rate: MOST, ..Ahead::default() }
    }

    /// Kills: an ACK a turn; turns that are not ended; what was beyond a turn forgotten.
    #[test]
    fn who_waits_takes_turns_byte_for_byte_whatever_an_ack_is_worth() {
        let (mut places, worth) = (Places::default(), [1_514, 3_028, 6_056]);
        let mut called = [0_u64; 3];
        for sender in 0..3 {
            places.note(7, sender, more(0), MOST);
        }
        for _ in 0..3_000 {
            let (sender, room) = places.turn(7, || behind(0)).unwrap();
            assert!(room > Bytes::ZERO);
            let at = Member(sender).index();
            called[at] += worth[at];
            places.note(7, sender, more(worth[at]), MOST);
        }
        let [least, most] = [called.iter().min(), called.iter().max()].map(|it| *it.unwrap());
        assert!(most - least <= 2 * 6_056, "{called:?}");
    }

    /// Kills: room for who has not waited; calls of others not counted; those of before counted.
    #[test]
    fn room_is_what_nobody_has_called_for_and_is_for_those_who_wait() {
        let mut places = Places::default();
        let room = |places: &Places, waiting| places.complete(0, behind(waiting)).room.0;
        // 3 full segments, or what 10 Mbit/s carry in the 3 ms of those who were called and 2 more.
        assert_eq!(room(&places, 1_000), 3 * 1_514 - 1_000);
        let idle = Call { more: false, ..more(1 << 20) };
        places.note(0, 1, Call { outstanding: 700, ..idle }, MOST);
        places.note(0, 1, Call { outstanding: 500, ..idle }, MOST);
        places.note(0, 2, Call { outstanding: 600, ..idle }, MOST);
        assert_eq!(room(&places, 0), 3_750 + 2 * 1_514 - 1_100);
        places.note(0, 2, more(0), MOST);
        assert!(places.is_waited_for());
        assert_eq!(room(&places, 0), 0);
        assert_eq!(places.turn(0, || behind(7_000)), None);
        assert_eq!(places.turn(0, || behind(0)).unwrap().0, 2);
        places.note(0, 2, Call::default(), MOST);
        assert_eq!((places.turn(0, || behind(0)), places.is_waited_for()), (None, false));
        assert_eq!(places.complete(0, Ahead::default()).room.0, u64::MAX);
        places.note(0, 2, more(0), MOST);
        assert_eq!(places.turn(0, Ahead::default), None, "nothing is ever to wait there");
    }

    /// Kills: all cut down alike, so that who asks for little gets less than an equal part; who is gone, or
    /// asks for less than before, still counted.
    #[test]
    fn what_is_asked_for_together_is_cut_down_to_what_may_leave_from_the_largest_down() {
        let mut places = Places::default();
        let mut parts = |asked: [u64; 3]| {
            for _ in 0..2 {
                for (number, mbps) in (0..).zip(asked) {
                    places.note(0, number, Call { rate: mbps * 1_000_000, ..more(0) }, MOST);
                }
            }
            asked.map(|mbps| {
                let ahead = places.complete(0, behind(0));
                ahead.part_of(Rate::from_mbps(mbps)).bps() / 1_000
            })
        };
        assert_eq!(parts([2, 3, 4]), [2_000, 3_000, 4_000]);
        assert_eq!(parts([2, 20, 20]), [2_000, 4_000, 4_000]);
        assert_eq!(parts([2, 3, 20]), [2_000, 3_000, 5_000]);
        assert_eq!(parts([20, 20, 20]), [3_333, 3_333, 3_333]);
        assert_eq!(parts([20, 0, 1]), [9_000, 0, 1_000]);
    }
}
