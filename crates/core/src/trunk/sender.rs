//! The end of a trunk that sends: user packets leave as credit and guarantee allow.
//!
//! Source: `trunking`, section 4, R003-1 and R003-4.
//! Differs: connections are served in the order of their numbers, so that a queue which never fills uses the
//! first ones most. A connection whose window let nothing go while packets waited sends its management packet
//! when it may, even if none waits by then: each may so hold the credit of one VMSS, which is what equation 2
//! counts.

use std::sync::Arc;
use std::time::Duration;

use super::guarantee::Guarantee;
use super::management::Management;
use super::packet::{describe, network_len};
use super::tunnel::Tunnel;
use super::{Config, Fallback, MANAGEMENT, State, USER};
use crate::packet::Fifo;
use crate::random::Random;
use crate::tcp::Segment;
use crate::{Bytes, Cx, PacketId, Rate, Time};

/// What an end has sent, made and taken in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Management packets sent.
    pub management: u64,
    /// Of these, those that were sent before.
    pub again: u64,
    /// Bytes of user packets sent for credit, from the IP header on.
    pub elastic: u64,
    /// The same of what was sent for the guarantee.
    pub guaranteed: u64,
    /// The same of what went past the trunk while the path was held for gone.
    pub past: u64,
    /// With epochs, bytes of user packets that did not arrive, as far as the other end told; what came late after all is
    /// not taken off what was counted before.
    pub missing: u64,
    /// Packets made: management packets, handshakes and acknowledgements.
    pub made: u64,
    /// Packets that ended here.
    pub absorbed: u64,
}

impl Counts {
    /// What was counted since it was `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            management: self.management - before.management,
            again: self.again - before.again,
            elastic: self.elastic - before.elastic,
            guaranteed: self.guaranteed - before.guaranteed,
            past: self.past - before.past,
            missing: self.missing - before.missing,
            made: self.made - before.made,
            absorbed: self.absorbed - before.absorbed,
        }
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            management: self.management + more.management,
            again: self.again + more.again,
            elastic: self.elastic + more.elastic,
            guaranteed: self.guaranteed + more.guaranteed,
            past: self.past + more.past,
            missing: self.missing + more.missing,
            made: self.made + more.made,
            absorbed: self.absorbed + more.absorbed,
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        *self = *self + more;
    }
}

pub(super) struct Sender {
    vmss: u64,
    fallback: Fallback,
    user_dscp: u8,
    management_dscp: u8,
    tunnel: Tunnel,
    guarantee: Option<Guarantee>,
    managements: Vec<Management>,
    /// Whether the other end was ever there.
    met: bool,
    /// When a connection is next to be asked, as of the last time they were.
    due: Time,
    counts: Counts,
}

impl Sender {
    pub(super) fn new(config: &Config, mut random: Random, now: Time) -> Self {
        let tcp = Arc::new(config.tcp.clone());
        let queue = config.queue.build(None, Random::new(random.below(u64::MAX), 0));
        let mut management = |number| {
            let random = Random::new(random.below(u64::MAX), u64::from(number));
            Management::new(config.key(number), tcp.clone(), random)
        };
        Self {
            vmss: config.vmss.0,
            fallback: config.fallback,
            user_dscp: config.dscp(USER),
            management_dscp: config.dscp(MANAGEMENT),
            tunnel: Tunnel::of(config, queue).under(config.ceiling, now),
            guarantee: config.guarantee.map(|rate| Guarantee::new(rate, now)),
            managements: (0..config.connections).map(&mut management).collect(),
            met: false,
            due: Time::MAX,
            counts: Counts::default(),
        }
    }

    /// From `now` on VMSS, fallback, guarantee and ceiling are as `config` says.
    pub(super) fn change(&mut self, config: &Config, now: Time) {
        (self.vmss, self.fallback) = (config.vmss.0, config.fallback);
        Guarantee::follow(&mut self.guarantee, config.guarantee, now);
        self.tunnel.hold_to(config.ceiling, now);
    }

    /// The other end was there if it was for `before`.
    pub(super) const fn remember(&mut self, before: &Self) {
        self.met = before.met;
    }

    pub(super) const fn tunnel(&self) -> &Tunnel {
        &self.tunnel
    }

    pub(super) const fn tunnel_mut(&mut self) -> &mut Tunnel {
        &mut self.tunnel
    }

    /// What it may send, as windows and round-trip times say, and the guarantee.
    pub(super) fn rate(&self) -> Rate {
        let elastic = self.managements.iter().map(|it| it.rate(self.vmss));
        let guaranteed = self.guarantee.as_ref().map_or(0, |it| it.rate().bps());
        let all = elastic.fold(guaranteed, u64::saturating_add).max(1);
        self.tunnel.at_most(Rate::from_bps(all))
    }

    pub(super) const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What it may send now, and what it knows of the path.
    pub(super) fn state(&self) -> State {
        let all = || self.managements.iter();
        let rtts: Vec<_> = all().filter_map(Management::rtt).collect();
        let mean = |sum: Duration| sum.checked_div(u32::try_from(rtts.len()).ok()?);
        State {
            window: all().map(Management::window).sum(),
            rtt: mean(rtts.iter().sum()),
            credit: all().map(Management::credit).sum(),
            silent: self.silent(),
        }
    }

    /// Management connections that are held for gone: all, where one is and the others have not asked.
    fn silent(&self) -> usize {
        let silent = self.managements.iter().filter(|it| it.is_silent()).count();
        let asks = |it: &Management| !it.is_silent() && it.is_unanswered();
        if silent > 0 && !self.managements.iter().any(asks) {
            return self.managements.len();
        }
        silent
    }

    /// Whether user packets go past the trunk: nothing is heard of the other end.
    pub(super) fn is_passing(&self) -> bool {
        self.fallback == Fallback::Direct && self.silent() == self.managements.len()
    }

    /// Takes in a user packet.
    pub(super) fn send(&mut self, cx: &mut Cx<'_>, packet: PacketId, out: &mut Fifo) {
        if self.is_passing() {
            self.managements.iter_mut().for_each(|it| it.ask(cx.now));
            if self.tunnel.is_empty() && self.tunnel.is_open(cx.now) {
                let len = network_len(&cx.pool[&packet]);
                let takes = self.tunnel.takes(&cx.pool[&packet]);
                self.tunnel.charge(cx.now, takes);
                self.counts.past += len;
                out.push(cx.pool, packet);
            } else {
                self.tunnel.push(cx, packet);
            }
            return self.pump(cx, out);
        }
        let others_wait = !self.tunnel.is_empty();
        self.tunnel.push(cx, packet);
        // While packets wait, all credit is spent and every connection has been asked for more.
        if !others_wait {
            self.pump(cx, out);
        }
    }

    /// The other end has shown that it is there. If the path was held for gone, one connection asks whether it is
    /// there for good: no sooner than a timeout that was not backed off after it last did, so that what may be
    /// sent again by somebody else brings about next to nothing. When it is answered the others begin anew.
    ///
    /// Where some are answered, others may wait for the end of a timeout because of congestion: they wait on. The
    /// first time, all ask again at once: nobody was there to hear them.
    fn hear(&mut self) {
        if !std::mem::replace(&mut self.met, true) {
            return self.managements.iter_mut().for_each(Management::knock_again);
        }
        if self.silent() == self.managements.len() {
            let asks = |it: &&mut Management| it.is_unanswered();
            self.managements.iter_mut().find(asks).into_iter().for_each(Management::hasten);
        }
    }

    /// Takes in what the receiver of management connection `number` says; without a segment, only that it is
    /// there.
    pub(super) fn handle(
        &mut self,
        cx: &mut Cx<'_>,
        number: u16,
        packet: PacketId,
        out: &mut Fifo,
    ) {
        self.counts.absorbed += 1;
        let segment = take_in(cx, packet);
        if segment.is_none() {
            self.hear();
        }
        if let (Some(segment), Some(management)) =
            (segment, self.managements.get_mut(usize::from(number)))
        {
            let silent = management.is_silent();
            self.met = true;
            management.handle(cx.now, &segment);
            if silent && !management.is_silent() {
                self.managements.iter_mut().for_each(Management::begin_anew);
            }
            let packets: u64 = self.managements.iter().map(Management::window).sum();
            self.tunnel.set_window(Bytes(packets.saturating_mul(self.vmss)));
        }
        self.pump(cx, out);
    }

    /// Lets go what may by now.
    pub(super) fn pump(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        let passes = self.is_passing();
        if let Some(guarantee) = self.guarantee.as_mut().filter(|_| !passes) {
            self.counts.guaranteed += guarantee.serve(cx, &mut self.tunnel, out);
        }
        let mut waits = !self.tunnel.is_empty();
        let mut next = 0;
        while self.tunnel.is_open(cx.now)
            && let Some(at) = self.first_of(next, cx.now, waits)
        {
            waits = self.serve(cx, at, passes, out);
            next = at + 1;
        }
        let passes = self.is_passing();
        if passes {
            self.pass(cx, out);
        }
        self.due = match self.tunnel.opens() {
            Some(at) if !self.tunnel.is_open(cx.now) => at,
            _ => self.managements.iter().map(Management::due).min().unwrap_or(Time::MAX),
        };
        if let Some(guarantee) = &mut self.guarantee {
            guarantee.arm(cx.now, !self.tunnel.is_empty() && !passes);
        }
    }

    /// Lets what waits go past the trunk, as it came.
    fn pass(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        while self.tunnel.is_open(cx.now)
            && let Some(packet) = self.tunnel.take_out(cx)
        {
            self.tunnel.charge(cx.now, self.tunnel.takes(&cx.pool[&packet]));
            self.counts.past += network_len(&cx.pool[&packet]);
            out.push(cx.pool, packet);
        }
    }

    /// The first management connection from number `from` on that may have something to send.
    fn first_of(&self, from: usize, now: Time, waits: bool) -> Option<usize> {
        let rest = self.managements.get(from..)?;
        rest.iter().position(|it| !it.rests(now, waits)).map(|at| from + at)
    }

    /// Lets go what a management connection may, and has to, send, but no user packets where these pass the trunk;
    /// says whether any still wait.
    fn serve(&mut self, cx: &mut Cx<'_>, at: usize, passes: bool, out: &mut Fifo) -> bool {
        let Self { tunnel, counts, .. } = self;
        let management = &mut self.managements[at];
        loop {
            while !passes
                && management.has_credit()
                && tunnel.is_open(cx.now)
                && let Some(packet) = tunnel.pop(cx)
            {
                let len = network_len(&cx.pool[&packet]);
                management.spend(tunnel.takes(&cx.pool[&packet]));
                counts.elastic += len;
                out.push(cx.pool, packet);
            }
            let waits = !tunnel.is_empty();
            if waits {
                management.ask(cx.now);
            }
            if !tunnel.is_open(cx.now) {
                return waits;
            }
            let Some(outgoing) = management.poll(cx.now) else { return waits };
            let sent = management.note_sent(&outgoing);
            let dscp = if sent.probes { self.management_dscp } else { self.user_dscp };
            let packet = describe(management.key, &outgoing.segment, tunnel.frame(), dscp);
            tunnel.charge(cx.now, network_len(&packet));
            let Some(packet) = cx.pool.insert(packet) else { continue };
            if sent.counts {
                management.earn(self.vmss);
            }
            counts.made += 1;
            counts.management += u64::from(sent.probes);
            counts.again += u64::from(sent.again);
            out.push(cx.pool, packet);
        }
    }

    /// When it is next to be pumped.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let guarantee = self.guarantee.as_ref().and_then(Guarantee::due);
        Time::earliest((self.due < Time::MAX).then_some(self.due), guarantee)
    }
}

/// The segment that `packet` is, which ends here.
pub(super) fn take_in(cx: &mut Cx<'_>, packet: PacketId) -> Option<Segment> {
    let sack = cx.pool.sack(&packet);
    let arrived = &cx.pool[&packet];
    let segment = arrived.tcp.map(|header| Segment { header, sack, ecn: arrived.ecn });
    cx.pool.release(packet);
    segment
}
