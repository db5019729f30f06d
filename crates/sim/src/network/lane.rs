//! A lane: one direction of a link, with counters.

use std::time::Duration;

use tidegate_core::Count;
use tidegate_core::link::{Link, LinkChange, LinkConfig};
use tidegate_core::packet::Note;
use tidegate_core::qdisc::Backlog;
use tidegate_core::{Cx, Packet, PacketId, PacketPool, Tally, Time};

use super::Leads;
use crate::agenda::Agenda;
use crate::capture::Capture;
use crate::draw::stream;
use crate::histogram::Histogram;
use crate::scenario::Way;

/// One direction of a link.
///
/// A network can have very many lanes, and each hop of a packet must fetch one from memory. So a
/// lane is small and aligned to cache lines.
#[repr(align(64))]
pub(crate) struct Lane {
    link: Link,
    pub(super) leads: Leads,
    /// Time of its entry in the agenda; [`Time::MAX`] for none.
    armed: Time,
    /// Packets sent into the link.
    pub(crate) offered: Count,
    /// Packets that came out of the link.
    pub(crate) delivered: Count,
    aside: Option<Box<Aside>>,
    watch: Option<Box<Watch>>,
}

const _: () = assert!(size_of::<Lane>() == 192);

/// Counters that most links never need.
#[derive(Default)]
struct Aside {
    /// Drops and marks; `None` before the first one.
    tally: Option<Box<Tally>>,
    /// Counters at the end of the warm-up; `None` if no packet came before.
    before: Option<LaneCounts>,
}

/// Counters of a link.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneCounts {
    pub(crate) offered: Count,
    pub(crate) delivered: Count,
    /// Drops and marks; `None` if there were none.
    tally: Option<Box<Tally>>,
}

/// Measurements of a link that a probe watches.
#[derive(Default)]
pub(crate) struct Watch {
    /// `backlog` has had its value since this time.
    since: Time,
    backlog: Backlog,
    /// Backlog integrated over time: packets times nanoseconds, and bytes times nanoseconds.
    area: [u128; 2],
    /// Time at which the integral starts.
    from: Time,
    /// Time from a packet's entry into the link to its arrival at the far end.
    pub(crate) delay: Histogram,
    capture: Option<Capture>,
}

impl Lane {
    pub(super) fn new(way: &Way, config: &LinkConfig, leads: Leads, seed: u64) -> Self {
        // `Link::new` numbers the random streams of the link's parts 3 * `component` + 0, 1, 2. The
        // shift keeps this product within 64 bits.
        let component = stream("link", &way.to_string(), 0) >> 8;
        Self {
            link: Link::new(config, seed, component),
            leads,
            armed: Time::MAX,
            offered: Count::default(),
            delivered: Count::default(),
            aside: None,
            watch: None,
        }
    }

    /// Starts measuring backlog and delay.
    pub(crate) fn watch(&mut self) {
        self.watch.get_or_insert_default();
    }

    /// Starts capturing the packets that arrive.
    pub(crate) fn capture(&mut self, capture: Capture) {
        self.watch.get_or_insert_default().capture = Some(capture);
    }

    /// Removes and returns the capture, if there is one.
    pub(crate) fn captured(&mut self) -> Option<Capture> {
        self.watch.as_mut()?.capture.take()
    }

    /// The measurements, if the link is watched.
    pub(crate) fn watched(&self) -> Option<&Watch> {
        self.watch.as_deref()
    }

    /// The current counters.
    fn counts(&self) -> LaneCounts {
        let Self { offered, delivered, .. } = *self;
        let tally = self.aside.as_ref().and_then(|aside| aside.tally.clone());
        LaneCounts { offered, delivered, tally }
    }

    /// Packets offered and delivered since the end of the warm-up.
    pub(crate) fn counted(&self) -> [Count; 2] {
        let none = LaneCounts::default();
        let before = self.before().unwrap_or(&none);
        [self.offered - before.offered, self.delivered - before.delivered]
    }

    fn before(&self) -> Option<&LaneCounts> {
        self.aside.as_ref()?.before.as_ref()
    }

    /// Drops and marks up to the end of the warm-up.
    pub(crate) fn tally_before(&self) -> Tally {
        let before = self.before().and_then(|before| before.tally.as_deref());
        before.copied().unwrap_or_default()
    }

    /// Drops and marks in the whole run.
    pub(crate) fn tally(&self) -> Tally {
        let tally = self.aside.as_ref().and_then(|aside| aside.tally.as_deref());
        tally.copied().unwrap_or_default()
    }

    /// Adds the drops and marks of one call of the link to its counters, and clears `tally`.
    #[inline]
    fn took(&mut self, tally: &mut Tally) {
        if tally.drops.total() + tally.marks.total() > 0 {
            let aside = self.aside.get_or_insert_default();
            **aside.tally.get_or_insert_default() += std::mem::take(tally);
        }
    }

    /// Ends the warm-up at `now`.
    pub(crate) fn restart(&mut self, now: Time) {
        let backlog = self.link.backlog();
        if self.offered.packets > 0 {
            let before = Some(self.counts());
            self.aside.get_or_insert_default().before = before;
        }
        if let Some(watch) = &mut self.watch {
            let capture = watch.capture.take();
            **watch = Watch { since: now, from: now, backlog, capture, ..Watch::default() };
        }
    }

    /// Extends the integral of the backlog to `now`.
    #[inline]
    pub(crate) fn settle(&mut self, now: Time) {
        if let Some(watch) = &mut self.watch {
            watch.settle(now, self.link.backlog());
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.link.backlog()
    }

    pub(crate) fn held(&self) -> usize {
        self.link.held()
    }

    #[inline]
    pub(super) fn send(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        if self.watch.is_some() {
            cx.pool[&packet].arrived = cx.now;
        }
        self.offered.add(cx.pool[&packet].len);
        self.link.send(cx, packet);
        self.took(cx.tally);
        self.settle(cx.now);
    }

    /// Changes rate or delay of the link from now on.
    pub(super) fn change(&mut self, cx: &mut Cx<'_>, change: LinkChange) {
        // `Scenario::check` refuses a change of rate for a link without a rate.
        let changed = self.link.change(cx, change);
        debug_assert!(changed, "a link without a rate got one");
        self.took(cx.tally);
        self.settle(cx.now);
    }

    /// The packet that arrives next, with its note from the pool.
    #[inline]
    pub(super) fn next_packet<'p>(&self, pool: &'p PacketPool) -> Option<(&'p Packet, &'p Note)> {
        self.link.next_packet(pool)
    }

    #[inline]
    pub(super) fn poll(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.link.poll(cx);
        self.took(cx.tally);
        self.settle(cx.now);
        let packet = packet?;
        let left = &cx.pool[&packet];
        self.delivered.add(left.len);
        if let Some(watch) = &mut self.watch {
            watch.delay.add(cx.now.since(left.arrived));
            if let Some(capture) = &mut watch.capture {
                capture.write(cx.now, left, &cx.pool.sack(&packet));
            }
        }
        Some(packet)
    }

    /// Schedules the link after a packet has entered. A packet can only make the next call earlier.
    #[inline]
    pub(super) fn arm_after_send(&mut self, agenda: &mut impl Agenda, number: u32) {
        if let Some(at) = self.link.ready_at()
            && at < self.armed
        {
            self.armed = at;
            agenda.set(number, at);
        }
    }

    /// Schedules the link again after the agenda has called it.
    #[inline]
    pub(super) fn arm(&mut self, agenda: &mut impl Agenda, number: u32) {
        self.armed = Time::MAX;
        self.arm_after_send(agenda, number);
    }
}

impl Watch {
    fn settle(&mut self, now: Time, backlog: Backlog) {
        let nanos = now.since(self.since).as_nanos();
        self.area[0] += nanos * u128::from(self.backlog.packets);
        self.area[1] += nanos * u128::from(self.backlog.bytes.0);
        (self.since, self.backlog) = (now, backlog);
    }

    /// Mean backlog in packets and bytes, up to the last [`settle`](Lane::settle).
    pub(crate) fn mean_backlog(&self) -> [f64; 2] {
        let span: Duration = self.since.since(self.from);
        self.area.map(|area| if span.is_zero() { 0.0 } else { per(area, span.as_nanos()) })
    }
}

#[expect(clippy::as_conversions, reason = "a mean need not be exact beyond 53 bits")]
const fn per(area: u128, nanos: u128) -> f64 {
    area as f64 / nanos as f64
}
