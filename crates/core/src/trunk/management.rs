//! The probes by management packets: real TCP connections without payload, which find the share of a trunk.
//!
//! Each management packet gives *credit* for VMSS bytes of user packets. A user packet departs while a connection has
//! credit left, and may borrow up to one packet. User bytes are `VMSS / (VMSS + 52)` of the share.
//!
//! A *weight* `w` scales the share. With [`Probing::Management`](super::Probing) it is the number of connections that ask
//! for credit: `M = round(w)`. The others stay open and idle. With [`Probing::Vegas`](super::Probing) there is one
//! connection, and `theta = w` in its congestion control.
//!
//! Source: `trunking`, section 4, R003-1 and R003-4; `itcp`, section 3, for the weight.
//! Differs:
//! - Connections are served in the order of their numbers. A queue that never fills uses the first ones most.
//! - A window may open after the queue has run empty. The connection then sends its management
//!   packet all the same. Each connection then holds credit of one VMSS, which equation 2 counts.
//! - VMSS does not follow the weight: equation 2 would have to hold for the largest VMSS.

mod connection;
mod receiver;

use std::sync::Arc;
use std::time::Duration;

use super::packet::{describe, network_len};
use super::probe::{BandwidthProbe, Reason, TrunkOutput, TunnelArrival};
use super::tunnel::Tunnel;
use super::weight::rounded;
use super::{Config, Probing, TrunkCounters, TrunkState};
use crate::random::Random;
use crate::tcp::Segment;
use crate::{Bytes, Factor, Packet, Time};
use connection::Management;
pub(super) use receiver::ManagementReceiver;

/// The sending end of all management connections of a trunk.
pub(super) struct Managements {
    vmss: u64,
    /// DS codepoints of handshakes and of management packets.
    user_dscp: u8,
    management_dscp: u8,
    connections: Vec<Management>,
    /// Number of connections that ask for credit, from the first on. The others only complete
    /// earlier transmissions.
    active: usize,
    /// Meaning of the weight.
    weighting: Weighting,
    /// The connection that the pump serves now.
    turn: Option<usize>,
    /// `true` if the other end has ever answered.
    met: bool,
    /// Latest time for the next pump, as of the end of the last pump.
    due: Time,
}

/// Meaning of the weight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Weighting {
    /// The number of active connections.
    Connections,
    /// The weight in the congestion control of the only connection.
    Theta,
}

impl Managements {
    pub(super) fn new(config: &Config, mut random: Random) -> Self {
        let tcp = Arc::new(config.tcp.clone());
        let mut connection = |number| {
            let random = Random::new(random.below(u64::MAX), u64::from(number));
            Management::new(config.key(number), tcp.clone(), random)
        };
        Self {
            vmss: config.vmss.0,
            user_dscp: config.user_dscp(),
            management_dscp: config.management_dscp(),
            connections: (0..config.channels()).map(&mut connection).collect(),
            active: usize::from(config.channels()),
            weighting: match config.probing {
                Probing::Vegas => Weighting::Theta,
                _ => Weighting::Connections,
            },
            turn: None,
            met: false,
            due: Time::MAX,
        }
    }

    /// Number of connections without an answer: two timeouts in a row. All of them, if one is silent and no other
    /// connection waits for an answer.
    fn silent(&self) -> usize {
        let silent = self.connections.iter().filter(|it| it.is_silent()).count();
        let asks = |it: &Management| !it.is_silent() && it.is_unanswered();
        if silent > 0 && !self.connections.iter().any(asks) {
            return self.connections.len();
        }
        silent
    }

    /// The other end has sent a keepalive.
    ///
    /// The first time, all connections send their SYN again at once, because nobody heard the earlier one. Later, a
    /// dead peer gets one question of one connection, at most once per RTO without backoff, so that replayed
    /// keepalives cannot cause a flood. The answer makes the other connections start again. While some connections
    /// are answered, the others back off because of congestion, and stay in their timeouts.
    fn on_keepalive(&mut self) {
        if !std::mem::replace(&mut self.met, true) {
            return self.connections.iter_mut().for_each(Management::knock_again);
        }
        if self.peer_is_dead() {
            let asks = |it: &&mut Management| it.is_unanswered();
            self.connections.iter_mut().find(asks).into_iter().for_each(Management::hasten);
        }
    }

    /// The first connection from number `from` on that may have something to send.
    fn first_of(&self, from: usize, now: Time, backlogged: bool) -> Option<usize> {
        let remaining = self.connections.iter().enumerate().skip(from);
        // A connection that is not active asks for nothing, but its credit is still spent.
        let serves = |at, it: &Management| backlogged && (at < self.active || it.has_credit());
        let mut ready = remaining.filter(|(at, it)| !it.rests(now, serves(*at, it)));
        ready.next().map(|(at, _)| at)
    }

    /// The connections that ask for credit.
    fn active(&self) -> &[Management] {
        &self.connections[..self.active]
    }

    /// Management packets that may be in flight.
    fn window(&self) -> u64 {
        self.active().iter().map(Management::window).sum()
    }

    /// User bytes for which these management packets stand.
    fn window_bytes(&self) -> Bytes {
        Bytes(self.window().saturating_mul(self.vmss))
    }
}

impl BandwidthProbe for Managements {
    fn on_arrival(&mut self, now: Time, _: &Packet, arrival: TunnelArrival) -> bool {
        if arrival == TunnelArrival::Past {
            self.connections[..self.active].iter_mut().for_each(|it| it.ask(now));
        }
        // While packets wait, all credit is spent and every connection has been asked for more.
        arrival != TunnelArrival::Queued
    }

    fn start(&mut self, now: Time, tunnel: &mut Tunnel) {
        let backlogged = !tunnel.is_empty();
        self.turn = tunnel.is_open(now).then(|| self.first_of(0, now, backlogged)).flatten();
    }

    fn may_send(&self, _now: Time) -> bool {
        self.turn.is_some_and(|at| self.connections[at].has_credit())
    }

    fn on_sent(&mut self, _now: Time, _packet: &Packet, takes: u64, reason: Reason) {
        if let (Reason::Share, Some(at)) = (reason, self.turn) {
            self.connections[at].spend(takes);
        }
    }

    fn transmit(&mut self, to: &mut TrunkOutput<'_, '_>, tunnel: &mut Tunnel) -> bool {
        let Some(at) = self.turn else { return false };
        let (now, backlogged) = (to.cx.now, !tunnel.is_empty());
        let connection = &mut self.connections[at];
        if backlogged && at < self.active {
            connection.ask(now);
        }
        if !tunnel.is_open(now) {
            return false;
        }
        let Some(outgoing) = connection.poll(now) else {
            self.turn = self.first_of(at + 1, now, backlogged);
            return self.turn.is_some();
        };
        let sent = connection.note_sent(&outgoing);
        let dscp = if sent.probes { self.management_dscp } else { self.user_dscp };
        let packet = describe(connection.key, &outgoing.segment, tunnel.frame(), dscp);
        tunnel.charge(now, network_len(&packet));
        // A packet that the pool has no room for gives no credit. TCP sends it again.
        if to.make(packet, &outgoing.segment) {
            if sent.counts {
                connection.earn(self.vmss);
            }
            to.counts.management += u64::from(sent.probes);
            to.counts.again += u64::from(sent.again);
        }
        true
    }

    fn settle(&mut self, now: Time, tunnel: &mut Tunnel) {
        self.turn = None;
        self.due = match tunnel.opens() {
            Some(at) if !tunnel.is_open(now) => at,
            _ => self.connections.iter().map(Management::due).min().unwrap_or(Time::MAX),
        };
    }

    fn on_feedback(
        &mut self,
        now: Time,
        number: u16,
        segment: Option<&Segment>,
        _counts: &mut TrunkCounters,
    ) -> Option<Bytes> {
        let Some(segment) = segment else {
            self.on_keepalive();
            return None;
        };
        let connection = self.connections.get_mut(usize::from(number))?;
        let silent = connection.is_silent();
        self.met = true;
        connection.handle(now, segment);
        if silent && !connection.is_silent() {
            self.connections.iter_mut().for_each(Management::start_again);
        }
        Some(self.window_bytes())
    }

    fn rate(&self) -> u64 {
        let rates = self.active().iter().map(|it| it.rate(self.vmss));
        rates.fold(0, u64::saturating_add)
    }

    fn poll_timeout(&self, _tunnel: &Tunnel) -> Option<Time> {
        (self.due < Time::MAX).then_some(self.due)
    }

    fn state(&self) -> TrunkState {
        let rtts: Vec<_> = self.active().iter().filter_map(Management::rtt).collect();
        let mean = |sum: Duration| sum.checked_div(u32::try_from(rtts.len()).ok()?);
        TrunkState {
            window: self.window(),
            rtt: mean(rtts.iter().sum()),
            credit: self.connections.iter().map(Management::credit).sum(),
            silent: self.silent(),
            active: u16::try_from(self.active).unwrap_or(u16::MAX),
        }
    }

    fn peer_is_dead(&self) -> bool {
        self.silent() == self.connections.len()
    }

    fn has_met_peer(&self) -> bool {
        self.met
    }

    fn remember_peer(&mut self) {
        self.met = true;
    }

    fn follow(&mut self, config: &Config) {
        self.vmss = config.vmss.0;
    }

    fn set_weight(&mut self, weight: Factor) {
        match self.weighting {
            Weighting::Connections => {
                self.active = usize::from(rounded(weight)).min(self.connections.len());
            }
            Weighting::Theta => self.connections.iter_mut().for_each(|it| it.set_weight(weight)),
        }
    }

    fn path(&self) -> (Bytes, Option<Duration>) {
        let least = self.active().iter().filter_map(Management::least_rtt).min();
        (self.window_bytes(), least)
    }
}
