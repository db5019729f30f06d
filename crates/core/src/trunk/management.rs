//! The bandwidth probe by management packets: TCP connections without payload find the share of a trunk.
//!
//! Each management packet that TCP sends gives *credit* for VMSS bytes of user packets. A user packet may depart while
//! the credit of a connection is above zero. The packet may be longer than the credit, which then becomes negative.
//! A management packet has 52 bytes, so users get `VMSS / (VMSS + 52)` of the bandwidth.
//!
//! A *weight* `w` scales the share. With [`Probing::Management`](super::Probing), `round(w)` of the connections are
//! active, and the others stay open and idle. With [`Probing::Vegas`](super::Probing), there is one connection with
//! weighted Vegas, which keeps `theta = w` packets in the queue of the path.
//!
//! Source: `trunking`, section 4, R003-1 (management packets give credit) and R003-4 (the guarantee takes none); `itcp`,
//! section 3 (weights).
//! Differs:
//! - The connections are served in the order of their numbers. While the load is low, the first connections give most of
//!   the credit.
//! - If the window of a connection opens after the tunnel queue has run empty, the connection sends
//!   its management packet nevertheless. So each connection may save credit for one VMSS. The
//!   buffer formula of the paper (equation 2) includes these bytes.
//! - VMSS does not depend on the weight. Otherwise the buffers of routers would have to fit the largest VMSS
//!   (equation 2).

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

/// The sending ends of all management connections of a trunk.
pub(super) struct Managements {
    vmss: u64,
    /// DS codepoint of handshakes and of user packets.
    user_dscp: u8,
    /// DS codepoint of management packets.
    management_dscp: u8,
    connections: Vec<Management>,
    /// Number of active connections, from the first on. The other connections only spend their
    /// credit and complete earlier transmissions.
    active: usize,
    /// Effect of the weight.
    weighting: Weighting,
    /// Index of the connection whose credit is being used. `None` outside of `Trunk::pump`.
    serving: Option<usize>,
    /// `true` if the other gateway has ever answered.
    met: bool,
    /// Latest time for the next call of `Trunk::pump`, as of the end of the last call.
    due: Time,
}

/// Effect of the weight of the trunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Weighting {
    /// The weight is the number of active connections.
    Connections,
    /// The weight is the parameter `theta` of the only connection's congestion control.
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
            serving: None,
            met: false,
            due: Time::MAX,
        }
    }

    /// Number of silent connections, which have had two timeouts in a row. If one connection is
    /// silent and no other connection waits for an ACK, all connections count as silent: no ACK
    /// shows that the other gateway is alive.
    fn silent(&self) -> usize {
        let silent = self.connections.iter().filter(|it| it.is_silent()).count();
        let asks = |it: &Management| !it.is_silent() && it.is_unanswered();
        if silent > 0 && !self.connections.iter().any(asks) {
            return self.connections.len();
        }
        silent
    }

    /// The other gateway has sent a keepalive.
    ///
    /// At the first keepalive, all connections send their SYN again at once. The other gateway has just started, so the
    /// earlier SYNs were lost.
    ///
    /// At a later keepalive of a gateway that was considered dead, one connection retransmits. It does so at most once
    /// per RTO without backoff, so that replayed keepalives cannot cause a flood. The ACK makes the other silent
    /// connections start again.
    ///
    /// At any other keepalive, nothing happens. If some connections receive ACKs, the timeouts of
    /// the other connections are caused by congestion.
    fn on_keepalive(&mut self) {
        if !std::mem::replace(&mut self.met, true) {
            return self.connections.iter_mut().for_each(Management::knock_again);
        }
        if self.peer_is_dead() {
            let asks = |it: &&mut Management| it.is_unanswered();
            self.connections.iter_mut().find(asks).into_iter().for_each(Management::hasten);
        }
    }

    /// The first connection, from number `from` on, for which a user packet or a TCP segment may depart.
    fn first_of(&self, from: usize, now: Time, backlogged: bool) -> Option<usize> {
        let remaining = self.connections.iter().enumerate().skip(from);
        // An inactive connection gets no new credit. User packets may still spend the credit that it has.
        let serves = |at, it: &Management| backlogged && (at < self.active || it.has_credit());
        let mut ready = remaining.filter(|(at, it)| !it.rests(now, serves(*at, it)));
        ready.next().map(|(at, _)| at)
    }

    /// The active connections.
    fn active(&self) -> &[Management] {
        &self.connections[..self.active]
    }

    /// Sum of the congestion windows, in management packets.
    fn window(&self) -> u64 {
        self.active().iter().map(Management::window).sum()
    }

    /// Sum of the congestion windows, in user bytes.
    fn window_bytes(&self) -> Bytes {
        Bytes(self.window().saturating_mul(self.vmss))
    }
}

impl BandwidthProbe for Managements {
    fn on_arrival(&mut self, now: Time, _: &Packet, arrival: TunnelArrival) -> bool {
        if arrival == TunnelArrival::Past {
            self.connections[..self.active].iter_mut().for_each(|it| it.ask(now));
        }
        // If other packets wait already, no credit is left, and every connection has been asked for more.
        // A further packet changes nothing.
        arrival != TunnelArrival::Queued
    }

    fn start(&mut self, now: Time, tunnel: &mut Tunnel) {
        let backlogged = !tunnel.is_empty();
        self.serving = tunnel.is_open(now).then(|| self.first_of(0, now, backlogged)).flatten();
    }

    fn may_send(&self, _now: Time) -> bool {
        self.serving.is_some_and(|at| self.connections[at].has_credit())
    }

    fn on_sent(&mut self, _now: Time, _packet: &Packet, takes: u64, reason: Reason) {
        if let (Reason::Share, Some(at)) = (reason, self.serving) {
            self.connections[at].spend(takes);
        }
    }

    fn transmit(&mut self, to: &mut TrunkOutput<'_, '_>, tunnel: &mut Tunnel) -> bool {
        let Some(at) = self.serving else { return false };
        let (now, backlogged) = (to.cx.now, !tunnel.is_empty());
        let connection = &mut self.connections[at];
        if backlogged && at < self.active {
            connection.ask(now);
        }
        if !tunnel.is_open(now) {
            return false;
        }
        let Some(outgoing) = connection.poll(now) else {
            self.serving = self.first_of(at + 1, now, backlogged);
            return self.serving.is_some();
        };
        let sent = connection.note_sent(&outgoing);
        let dscp = if sent.probes { self.management_dscp } else { self.user_dscp };
        let packet = describe(connection.key, &outgoing.segment, tunnel.frame(), dscp);
        tunnel.charge(now, network_len(&packet));
        // If the packet pool is full, the management packet is lost and gives no credit. TCP retransmits it.
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
        self.serving = None;
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
