//! Round-trip times, measured from between the two ends.

use std::time::Duration;

use super::{before, low_half};
use crate::Time;
use crate::packet::{Direction, TcpFlags, TcpSegment};

/// The two halves of a flow's round-trip time, as far as they are known.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rtt {
    /// From the gateway to the LAN host and back.
    pub near: Option<Duration>,
    /// From the gateway to the WAN host and back.
    pub far: Option<Duration>,
}

impl Rtt {
    /// End to end; `None` if only one half is known, or neither.
    #[must_use]
    pub fn end_to_end(&self) -> Option<Duration> {
        Some(self.near? + self.far?)
    }
}

/// Round trips from the gateway to one host and back.
///
/// One at a time is measured: it begins when a segment leaves the gateway, so that no queue of ours
/// is in it, and ends when what acknowledges it arrives. The handshake is the first of them.
///
/// Source: RFC 6298, sections 2 and 3 (smoothing; Karn's algorithm). Differs: no variance is kept,
/// for nothing here times out by it.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    /// Smoothed round-trip time, in eighths of a microsecond; zero before the first.
    smoothed: u32,
    /// The shortest, in microseconds.
    shortest: u32,
    /// The sequence number, or timestamp, that ends the one under way.
    mark: u32,
    /// When that began, in microseconds.
    began: u32,
}

/// The two halves of a flow's round-trip time, by the direction of what begins a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Halves {
    halves: [Half; 2],
    /// Beside them, not in them, where each would take four bytes.
    probes: [Probe; 2],
}

impl Halves {
    /// Takes note of a segment that leaves in direction `to`.
    pub(super) fn on_departure(
        &mut self,
        to: Direction,
        now: Time,
        segment: &TcpSegment,
        seen_before: bool,
    ) {
        let (half, probe) = (&mut self.halves[to.index()], &mut self.probes[to.index()]);
        half.on_departure(probe, now, segment, seen_before);
    }

    /// Takes note of a segment that arrives going in direction `way`; says whether it changes what is
    /// known.
    pub(super) fn on_arrival(&mut self, way: Direction, now: Time, segment: &TcpSegment) -> bool {
        let at = way.reverse().index();
        let before = self.halves[at].smoothed / 8;
        self.halves[at].on_arrival(&mut self.probes[at], now, segment);
        self.halves[at].smoothed / 8 != before
    }

    /// Stores two numbers about a SYN that travels in `direction`, in place of earlier ones.
    ///
    /// They occupy the fields for round trips that begin in the other direction, so a flow needs no more
    /// memory. The new connection has no such round trip before the SYN is answered.
    pub(super) fn keep(&mut self, direction: Direction, numbers: [u32; 2]) {
        self.forget();
        let at = direction.reverse().index();
        [self.halves[at].mark, self.halves[at].began] = numbers;
        self.probes[at] = Probe::Kept;
    }

    /// The direction and the numbers that [`keep`](Self::keep) stored.
    pub(super) fn kept(&self) -> Option<(Direction, [u32; 2])> {
        let is_kept = |way: &Direction| self.probes[way.reverse().index()] == Probe::Kept;
        let way = Direction::BOTH.into_iter().find(is_kept)?;
        let half = &self.halves[way.reverse().index()];
        Some((way, [half.mark, half.began]))
    }

    /// Forgets the stored numbers.
    pub(super) fn forget(&mut self) {
        let kept = self.probes.iter_mut().filter(|probe| **probe == Probe::Kept);
        kept.for_each(|probe| *probe = Probe::None);
    }

    /// Forgets all round trips, but not the numbers about a SYN.
    pub(super) fn renew(&mut self) {
        let kept = self.kept();
        *self = Self::default();
        if let Some((direction, numbers)) = kept {
            self.keep(direction, numbers);
        }
    }

    pub(super) fn smoothed(&self) -> Rtt {
        self.each(Half::smoothed)
    }

    pub(super) fn shortest(&self) -> Rtt {
        self.each(Half::shortest)
    }

    fn each(&self, of: impl Fn(&Half) -> Option<Duration>) -> Rtt {
        let [far, near] = [Direction::Up, Direction::Down].map(|to| of(&self.halves[to.index()]));
        Rtt { near, far }
    }
}

/// What is being measured.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Probe {
    /// Nothing.
    #[default]
    None,
    /// From data to the acknowledgement of `mark`.
    Data,
    /// Nothing before an ACK leaves whose timestamp is not `mark`: it is the first with its own.
    NextTick,
    /// From an ACK to data that echoes its timestamp `mark`.
    ///
    /// Differs: RFC 7323, section 4.1, has only those who send data measure. The gateway wants the
    /// round trip to the sender of a download too. What that sender waits for itself is then in
    /// it, so of these only up to twice the smoothed time count.
    Tick,
    /// No round trip: `mark` and `began` describe a SYN ([`Halves::keep`]).
    Kept,
}

impl Half {
    /// Takes note of a segment that leaves for the host.
    fn on_departure(
        &mut self,
        probe: &mut Probe,
        now: Time,
        segment: &TcpSegment,
        seen_before: bool,
    ) {
        if *probe == Probe::Kept {
            return;
        }
        if segment.sequence_len() > 0 {
            self.data_leaves(probe, now, segment, seen_before);
        } else if let Some((value, _)) = segment.timestamps {
            self.ack_leaves(probe, now, value);
        }
    }

    fn data_leaves(
        &mut self,
        probe: &mut Probe,
        now: Time,
        segment: &TcpSegment,
        seen_before: bool,
    ) {
        if seen_before {
            // An acknowledgement may now be for either copy (Karn), or wait for this one.
            *probe = Probe::None;
        } else if *probe != Probe::Data {
            (*probe, self.mark, self.began) = (Probe::Data, segment.end_seq(), micros(now));
        }
    }

    fn ack_leaves(&mut self, probe: &mut Probe, now: Time, timestamp: u32) {
        match *probe {
            Probe::None => (*probe, self.mark) = (Probe::NextTick, timestamp),
            Probe::NextTick if timestamp != self.mark => {
                (*probe, self.mark, self.began) = (Probe::Tick, timestamp, micros(now));
            }
            Probe::NextTick | Probe::Data | Probe::Tick | Probe::Kept => {}
        }
    }

    /// Takes note of a segment that arrives from the host.
    fn on_arrival(&mut self, probe: &mut Probe, now: Time, segment: &TcpSegment) {
        if !segment.flags.any(TcpFlags::ACK) {
            return;
        }
        let span = micros(now).wrapping_sub(self.began).max(1);
        match *probe {
            Probe::Data if !before(segment.ack, self.mark) => self.sample(span),
            Probe::Tick if segment.payload > 0 => match segment.timestamps {
                Some((_, echo)) if echo == self.mark => {
                    if self.smoothed == 0 || span <= self.smoothed / 4 {
                        self.sample(span);
                    }
                }
                Some((_, echo)) if before(self.mark, echo) => {}
                _ => return,
            },
            _ => return,
        }
        *probe = Probe::None;
    }

    /// Source: RFC 6298, section 2; scaled so that no fraction is lost; `postack`, R001-2 (the shortest).
    /// Differs: it is the shortest of the connection, not of the last 10 s, in which queues beyond the gateway
    /// need not have been empty once. Where a way becomes longer, windows stay as the shorter one needed them.
    fn sample(&mut self, span: u32) {
        if span > LONGEST {
            return;
        }
        if self.smoothed == 0 {
            (self.smoothed, self.shortest) = (span * 8, span);
            return;
        }
        self.smoothed = self.smoothed - self.smoothed / 8 + span;
        self.shortest = self.shortest.min(span);
    }

    fn smoothed(&self) -> Option<Duration> {
        (self.smoothed != 0).then(|| Duration::from_micros(u64::from(self.smoothed / 8)))
    }

    fn shortest(&self) -> Option<Duration> {
        (self.smoothed != 0).then(|| Duration::from_micros(u64::from(self.shortest)))
    }
}

/// A round trip of more than this, in microseconds, is none.
///
/// Source: RFC 6298, section 2.5 (the least upper bound of a retransmission timeout).
const LONGEST: u32 = 60_000_000;

/// Microseconds, in a clock that wraps after 71 minutes.
const fn micros(now: Time) -> u32 {
    low_half(now.nanos() / 1_000)
}
