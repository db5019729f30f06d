//! Round-trip times of a TCP flow: from the gateway to the LAN host and back, and from the gateway to the WAN host and
//! back.

use std::time::Duration;

use super::{before, micros};
use crate::Time;
use crate::packet::{Direction, TcpFlags, TcpSegment};

/// The two halves of a flow's round-trip time. `None` for an unknown half.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rtt {
    /// From the gateway to the LAN host and back.
    pub near: Option<Duration>,
    /// From the gateway to the WAN host and back.
    pub far: Option<Duration>,
}

impl Rtt {
    /// The sum of both halves. `None` if either half is unknown.
    #[must_use]
    pub fn end_to_end(&self) -> Option<Duration> {
        Some(self.near? + self.far?)
    }
}

/// Round trips from the gateway to one host and back.
///
/// One round trip is measured at a time. It begins when a segment departs from the gateway, so the queues of the gateway
/// do not count. It ends when the acknowledgement of the segment arrives. The first measurement is that of the handshake.
///
/// Source: RFC 6298, sections 2 and 3 (smoothing; Karn's algorithm).
/// Differs: no variance is kept, because no timeout here needs it.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    /// Smoothed round-trip time, in eighths of a microsecond. Zero before the first measurement.
    smoothed: u32,
    /// The shortest round-trip time, in microseconds.
    shortest: u32,
    /// The sequence number or timestamp that ends the present round trip.
    mark: u32,
    /// Beginning of the present round trip, in microseconds.
    began: u32,
}

/// The two halves of a flow's round-trip time, by the direction of the segment that begins a round
/// trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Halves {
    halves: [Half; 2],
    /// Kind of the measurement in each half. Outside of [`Half`], where alignment would make it four bytes.
    probes: [Probe; 2],
}

impl Halves {
    /// A segment departs in direction `to`.
    #[inline]
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

    /// A segment arrives in direction `way`. Returns `true` if the round-trip times change.
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

    /// Deletes the stored numbers.
    pub(super) fn forget(&mut self) {
        let kept = self.probes.iter_mut().filter(|probe| **probe == Probe::Kept);
        kept.for_each(|probe| *probe = Probe::None);
    }

    /// Deletes all round trips, but not the numbers about a SYN.
    pub(super) fn renew(&mut self) {
        let kept = self.kept();
        *self = Self::default();
        if let Some((direction, numbers)) = kept {
            self.keep(direction, numbers);
        }
    }

    #[inline]
    pub(super) fn smoothed(&self) -> Rtt {
        self.each(Half::smoothed)
    }

    #[inline]
    pub(super) fn shortest(&self) -> Rtt {
        self.each(Half::shortest)
    }

    fn each(&self, of: impl Fn(&Half) -> Option<Duration>) -> Rtt {
        let [far, near] = [Direction::Up, Direction::Down].map(|to| of(&self.halves[to.index()]));
        Rtt { near, far }
    }
}

/// Kind of the present measurement.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Probe {
    /// No measurement.
    #[default]
    None,
    /// From data to the acknowledgement of `mark`.
    Data,
    /// Waits for a departing ACK whose timestamp differs from `mark`: the first one of a new tick.
    NextTick,
    /// From an ACK to data that echoes its timestamp `mark`.
    ///
    /// Differs: in RFC 7323, section 4.1, only senders of data measure. The gateway also needs the
    /// round trip to the sender of a download. It includes the sender's own pauses, so samples
    /// above twice the smoothed time are ignored.
    Tick,
    /// No round trip: `mark` and `began` describe a SYN ([`Halves::keep`]).
    Kept,
}

impl Half {
    /// A segment departs to the host.
    #[inline]
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
            // The acknowledgement may be for either copy of the segment (Karn's algorithm), or may have to
            // wait for this copy.
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

    /// A segment arrives from the host.
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

    /// Adds a sample of `span` microseconds.
    ///
    /// Source: RFC 6298, section 2; scaled so that no fraction is lost; `postack`, R001-2 (the shortest
    /// round trip).
    /// Differs: the shortest round trip is that of the whole connection, not of the last 10 s, in which
    /// queues downstream may never have been empty. If a path becomes longer, windows stay those of the
    /// shorter path.
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

    #[inline]
    fn smoothed(&self) -> Option<Duration> {
        (self.smoothed != 0).then(|| Duration::from_micros(u64::from(self.smoothed / 8)))
    }

    #[inline]
    fn shortest(&self) -> Option<Duration> {
        (self.smoothed != 0).then(|| Duration::from_micros(u64::from(self.shortest)))
    }
}

/// The longest round trip that counts, in microseconds.
///
/// Source: RFC 6298, section 2.5 (the least upper bound of a retransmission timeout).
const LONGEST: u32 = 60_000_000;
