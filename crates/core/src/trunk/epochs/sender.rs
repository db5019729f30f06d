//! The end that sends: user packets leave at the rate of the aggregate control, and beside it what is
//! guaranteed.
//!
//! Differs from Bundler: beside the rate there is a window, as Copa has it. When a boundary is overdue, not
//! more than it and a half leaves after the last one that was acknowledged: acknowledgements come only so often, and now and then
//! for a round trip and more not at all, as it is chance which packets are boundaries.

use std::time::Duration;

use super::PACKET;
use super::boundary::{Spacing, boundary, frames};
use super::control::{Control, Progress};
use super::ledger::{Ledger, Sent};
use super::message::{CongestionAck, ask_for};
use crate::packet::{Fifo, TcpSegment};
use crate::random::Random;
use crate::tcp::Segment;
use crate::trunk::guarantee::Guarantee;
use crate::trunk::packet::network_len;
use crate::trunk::tunnel::Tunnel;
use crate::trunk::{Config, State};
use crate::{Bytes, Cx, Packet, PacketId, Rate, Time};

pub(super) struct Sender {
    tunnel: Tunnel,
    guarantee: Option<Guarantee>,
    control: Control,
    ledger: Ledger,
    spacing: Spacing,
    sent: Sent,
    /// Bytes of user packets sent at the rate of the control. A super-packet counts its headers once.
    elastic: u64,
    /// Bytes of user packets sent for the guarantee, counted in the same way.
    guaranteed: u64,
    /// Bytes that did not arrive, less what came late; and the most it ever was.
    missing: (i64, u64),
    /// What had been sent when the boundary left that was acknowledged last.
    heard: Sent,
    /// When, and what was held for heard after a timeout.
    heard_at: Time,
    /// Since when packets wait, if any do.
    waits_since: Time,
    /// When the next packet may leave.
    next: Time,
    /// Timeouts in a row.
    timeouts: u32,
    /// When the spacing was last looked at, and packets sent by then.
    looked: (Time, u64),
    /// The other end is to be told the spacing; when it was last told.
    tell: bool,
    told: Option<Time>,
}

impl Sender {
    pub(super) fn new(
        tunnel: Tunnel,
        guarantee: Option<Guarantee>,
        random: Random,
        now: Time,
    ) -> Self {
        Self {
            tunnel,
            guarantee,
            control: Control::new(now, random),
            ledger: Ledger::default(),
            spacing: Spacing::default(),
            sent: Sent::default(),
            elastic: 0,
            guaranteed: 0,
            missing: (0, 0),
            heard: Sent::default(),
            heard_at: now,
            waits_since: now,
            next: now,
            timeouts: 0,
            looked: (now, 0),
            tell: false,
            told: None,
        }
    }

    /// From `now` on guarantee and ceiling are as `config` says.
    pub(super) fn change(&mut self, config: &Config, now: Time) {
        Guarantee::follow(&mut self.guarantee, config.guarantee, now);
        self.tunnel.hold_to(config.ceiling, now);
    }

    pub(super) const fn tunnel(&self) -> &Tunnel {
        &self.tunnel
    }

    pub(super) const fn tunnel_mut(&mut self) -> &mut Tunnel {
        &mut self.tunnel
    }

    /// What it may send, the guarantee included; before a round-trip time is known, its window in a second.
    pub(super) fn rate(&self) -> Rate {
        let elastic = self.control.rate().map_or_else(|| 8 * self.control.window(), Rate::bps);
        let guaranteed = self.guarantee.as_ref().map_or(0, |it| it.rate().bps());
        self.tunnel.at_most(Rate::from_bps(elastic.saturating_add(guaranteed).max(1)))
    }

    /// Bytes of user packets sent at the rate of the control, and for the guarantee.
    pub(super) const fn bytes(&self) -> (u64, u64) {
        (self.elastic, self.guaranteed)
    }

    /// Bytes of user packets that did not arrive, as far as is known.
    pub(super) const fn missing(&self) -> u64 {
        self.missing.1
    }

    /// The window in packets and what is left of it, and the round-trip time.
    pub(super) fn state(&self) -> State {
        let under_way = self.sent.bytes.saturating_sub(self.heard.bytes);
        State {
            window: self.control.window() / PACKET,
            credit: 0_i64
                .saturating_add_unsigned(self.control.window())
                .saturating_sub_unsigned(under_way),
            rtt: self.control.srtt(),
            silent: usize::from(self.timeouts >= SILENCE),
        }
    }

    /// Takes in a user packet, to be sent by [`pump`](Self::pump).
    pub(super) fn take(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        if self.tunnel.is_empty() {
            self.waits_since = cx.now;
        }
        self.tunnel.push(cx, packet);
    }

    /// Lets go what may by now.
    pub(super) fn pump(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        self.look_for_silence(cx.now);
        let mut guaranteed = Fifo::new();
        if let Some(guarantee) = &mut self.guarantee {
            self.guaranteed += guarantee.serve(cx, &mut self.tunnel, &mut guaranteed);
        }
        while let Some(packet) = guaranteed.pop(cx.pool) {
            self.leaves(cx.now, &cx.pool[&packet]);
            out.push(cx.pool, packet);
        }
        while self.may_send(cx.now)
            && self.tunnel.is_open(cx.now)
            && let Some(packet) = self.tunnel.pop(cx)
        {
            self.elastic += network_len(&cx.pool[&packet]);
            self.pace(cx.now, self.tunnel.takes(&cx.pool[&packet]));
            self.leaves(cx.now, &cx.pool[&packet]);
            out.push(cx.pool, packet);
        }
        if let Some(guarantee) = &mut self.guarantee {
            guarantee.arm(cx.now, !self.tunnel.is_empty());
        }
    }

    fn may_send(&self, now: Time) -> bool {
        now >= self.next && self.has_room()
    }

    /// Whether there is room for the next packet: in the window, which is larger by what may have come since
    /// the last boundary, or as nothing is overdue.
    fn has_room(&self) -> bool {
        let after = self.sent.bytes - self.heard.bytes;
        after < self.control.window() + self.control.window() / 2 || !self.is_overdue()
    }

    /// Whether a boundary will have been under way for too long when the next packet is due; before there is
    /// a round-trip time, any packet has.
    fn is_overdue(&self) -> bool {
        let Some(srtt) = self.control.srtt() else { return true };
        self.ledger.oldest().is_some_and(|left| left + srtt + srtt / 2 <= self.next)
    }

    /// A packet of `len` bytes goes at the rate of the control: the next one later by as much.
    fn pace(&mut self, now: Time, len: u64) {
        let from = self.next.max(Time::from_nanos(now.nanos().saturating_sub(CATCH_UP)));
        self.next = match self.control.rate() {
            Some(rate) => from + rate.time_for(Bytes(len)),
            None => now,
        };
    }

    fn leaves(&mut self, now: Time, packet: &Packet) {
        for frame in frames(packet) {
            let bytes = network_len(&frame);
            self.control.on_sent(&packet.key, bytes);
            self.sent.bytes += bytes;
            self.sent.packets += 1;
            if let Some(name) = boundary(&frame, self.spacing) {
                let under_way = self.sent.bytes - self.heard.bytes;
                let full = under_way + under_way / 8 >= self.control.window();
                self.ledger.leaves(now, name, self.sent, full);
            }
        }
    }

    /// The other end says that a boundary has come.
    pub(super) fn handle(&mut self, now: Time, header: &TcpSegment) {
        let Some(ack) = CongestionAck::read(header) else { return };
        self.tell |= ack.spacing != self.spacing && self.may_tell(now);
        let Some(sample) = self.ledger.acknowledged(now, ack) else { return };
        let bytes = sample.sent.bytes.saturating_sub(self.heard.bytes);
        self.heard = Sent { bytes: self.heard.bytes.max(sample.sent.bytes), ..sample.sent };
        (self.heard_at, self.timeouts) = (now, 0);
        self.missing.0 = self.missing.0.saturating_add(sample.missing);
        self.missing.1 = self.missing.1.max(u64::try_from(self.missing.0).unwrap_or(0));
        if let Some(rtt) = sample.rtt {
            let (missing, arrived, full) = (sample.missing, sample.arrived, sample.full);
            let progress = Progress { rtt, bytes, missing, arrived, full };
            self.control.on_progress(now, &progress);
            self.tunnel.set_window(Bytes(self.control.window()));
            self.space(now);
        }
    }

    /// Once in a round trip: how far apart boundaries are to be.
    fn space(&mut self, now: Time) {
        let srtt = self.control.srtt().unwrap_or_default();
        let (at, packets) = self.looked;
        let span = now.since(at);
        if span >= srtt && !span.is_zero() {
            let sent = u128::from(self.sent.packets - packets) * srtt.as_nanos() / span.as_nanos();
            let spacing = self.spacing.adapted(u64::try_from(sent).unwrap_or(u64::MAX));
            self.tell |= spacing != self.spacing;
            self.spacing = spacing;
            self.looked = (now, self.sent.packets);
        }
    }

    fn may_tell(&self, now: Time) -> bool {
        let srtt = self.control.srtt().unwrap_or(FIRST_TIMEOUT);
        self.told.is_none_or(|at| now.since(at) >= srtt)
    }

    /// What the other end is to be told, if there is something.
    pub(super) fn tells(&mut self, now: Time) -> Option<Segment> {
        std::mem::take(&mut self.tell).then(|| {
            self.told = Some(now);
            ask_for(self.spacing)
        })
    }

    /// If nothing was heard for too long while packets wait, what is under way is held for lost.
    fn look_for_silence(&mut self, now: Time) {
        if self.silent_at().is_some_and(|at| at <= now) {
            self.timeouts = self.timeouts.saturating_add(1);
            self.control.on_silence(now, self.timeouts >= SILENCE);
            self.ledger.forget();
            self.heard = self.sent;
            (self.heard_at, self.next) = (now, now);
            (self.spacing, self.tell) = (Spacing::default(), true);
        }
    }

    /// The other end has shown that it is there: if it was held for gone, the next timeout is no longer than the
    /// first that found it so.
    pub(super) fn hasten(&mut self) {
        self.timeouts = self.timeouts.min(SILENCE);
    }

    /// When it will have been silent for too long.
    fn silent_at(&self) -> Option<Time> {
        let waits = !self.tunnel.is_empty();
        let srtt = self.control.srtt();
        let timeout = srtt.map_or(FIRST_TIMEOUT, |srtt| (3 * srtt).max(LEAST_TIMEOUT));
        let timeout = timeout * (1 << self.timeouts.min(6));
        waits.then(|| self.heard_at.max(self.waits_since) + timeout)
    }

    /// When it is next to be pumped.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let guarantee = self.guarantee.as_ref().and_then(Guarantee::due);
        let silent = self.silent_at();
        let next = (silent.is_some() && self.has_room())
            .then(|| self.tunnel.opens().map_or(self.next, |at| at.max(self.next)));
        [guarantee, silent, next].into_iter().flatten().min()
    }
}

/// Timeouts in a row after which the path is held for gone.
const SILENCE: u32 = 3;

/// Source: RFC 6298, section 2.1.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// What a pump that comes late may catch up on, in nanoseconds.
const CATCH_UP: u64 = 1_000_000;
