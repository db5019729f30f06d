//! Bandwidth probes: the interface between a trunk and the congestion control that finds its rate.
//!
//! A [`Trunk`](super::Trunk) owns the tunnel queue, the guarantee and the ceiling. Its
//! [`BandwidthProbe`] decides when the next user packet may depart. The probe measures the path
//! with ACKs from the other gateway, where a [`ProbeReceiver`] sends them. Two pairs of a probe and
//! a receiver implement these traits: TCP connections without payload (`management`), and delay
//! measurements of user packets (`epochs`).
//!
//! The *share* of a trunk is the bandwidth that the probe permits. The guaranteed bandwidth is
//! added to it.

use std::time::Duration;

use super::epochs::{self, Epochs};
use super::management::{self, Managements};
use super::packet::take_in;
use super::tunnel::Tunnel;
use super::{Config, Probing, TrunkCounters, TrunkState};
use crate::packet::Fifo;
use crate::random::Random;
use crate::tcp::Segment;
use crate::{Bytes, Cx, Factor, Packet, PacketId, Time};

/// Decides how much of its tunnel queue a trunk may send.
///
/// `Trunk::pump` sends all packets that may depart now. It calls the probe in this order:
///
/// 1. [`handle_timeout`](Self::handle_timeout) and [`start`](Self::start), once each.
/// 2. While [`may_send`](Self::may_send) is `true`: send a user packet, then call [`on_sent`](Self::on_sent).
/// 3. [`transmit`](Self::transmit), which may send a packet of the probe. If it returns `true`, go back to step 2.
/// 4. [`settle`](Self::settle), once.
pub(super) trait BandwidthProbe: Send {
    /// A user packet arrives at the trunk. Returns `true` if `Trunk::pump` must be called.
    fn on_arrival(&mut self, now: Time, packet: &Packet, arrival: TunnelArrival) -> bool;

    /// Handles expired timeouts. `backlogged` is `true` while user packets wait in the tunnel queue.
    fn handle_timeout(&mut self, _now: Time, _backlogged: bool) {}

    /// `Trunk::pump` begins to send packets of the share. It has sent the packets of the guarantee before.
    fn start(&mut self, _now: Time, _tunnel: &mut Tunnel) {}

    /// Returns `true` if the share permits the departure of a user packet now. The trunk checks its
    /// ceiling in addition.
    fn may_send(&self, now: Time) -> bool;

    /// A user packet departs. `takes` is its length on the path in bytes, from the IP header on.
    fn on_sent(&mut self, now: Time, packet: &Packet, takes: u64, reason: Reason);

    /// Sends at most one packet of the probe, such as a management packet. Returns `true` if more user packets may
    /// depart now.
    fn transmit(&mut self, to: &mut TrunkOutput<'_, '_>, tunnel: &mut Tunnel) -> bool;

    /// `Trunk::pump` has sent all packets that may depart now.
    fn settle(&mut self, _now: Time, _tunnel: &mut Tunnel) {}

    /// An ACK for connection `number` arrives from the other gateway. `segment` is `None` for a keepalive. Returns the
    /// window in user bytes if the window may have changed.
    fn on_feedback(
        &mut self,
        now: Time,
        number: u16,
        segment: Option<&Segment>,
        counts: &mut TrunkCounters,
    ) -> Option<Bytes>;

    /// The share in bits per second.
    fn rate(&self) -> u64;

    /// Latest time for the next call of `Trunk::pump`.
    fn poll_timeout(&self, tunnel: &Tunnel) -> Option<Time>;

    /// Window, round-trip time, credit, and connections without an answer.
    fn state(&self) -> TrunkState;

    /// Returns `true` if the other gateway is considered dead. The trunk then applies its
    /// [`Fallback`](super::Fallback).
    fn peer_is_dead(&self) -> bool {
        false
    }

    /// Returns `true` if the other gateway has ever answered.
    fn has_met_peer(&self) -> bool {
        false
    }

    /// Notes that the other gateway answered an earlier probe, which this probe replaces.
    fn remember_peer(&mut self) {}

    /// Applies a new configuration. Only VMSS and fallback differ from the present one.
    fn follow(&mut self, _config: &Config) {}

    /// Sets the weight of the share: twice the weight is about twice the bandwidth.
    fn set_weight(&mut self, _weight: Factor) {}

    /// User bytes that may be in flight, and the least round-trip time. `None` if it is unknown.
    fn path(&self) -> (Bytes, Option<Duration>) {
        (Bytes::ZERO, None)
    }
}

/// State of the tunnel queue as a user packet arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TunnelArrival {
    /// The queue was empty. The packet is queued.
    First,
    /// Other packets wait already. The packet is queued behind them.
    Queued,
    /// The packet bypasses the trunk, because the other gateway is considered dead.
    Past,
}

/// Part of the trunk's bandwidth that a departing user packet uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reason {
    /// The share that the probe permits.
    Share,
    /// The guaranteed minimum bandwidth.
    Guarantee,
}

/// Receives the packets of the other gateway's probe, and sends the ACKs for them.
pub(super) trait ProbeReceiver: Send {
    /// A probe packet of connection `number` arrives from the other gateway.
    fn handle(&mut self, to: &mut TrunkOutput<'_, '_>, number: u16, packet: PacketId);

    /// A user packet from the other gateway passes. The packet itself is forwarded.
    fn watch(&mut self, _to: &mut TrunkOutput<'_, '_>, _packet: &PacketId) {}

    /// Sends ACKs that are due, such as delayed ACKs.
    fn send_due_acks(&mut self, _to: &mut TrunkOutput<'_, '_>) {}

    /// Latest time for the next call of [`send_due_acks`](Self::send_due_acks).
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

/// Output of a trunk: packets that depart are appended to `out` and counted in `counts`.
pub(super) struct TrunkOutput<'a, 'b> {
    pub(super) cx: &'a mut Cx<'b>,
    pub(super) counts: &'a mut TrunkCounters,
    pub(super) out: &'a mut Fifo,
}

impl TrunkOutput<'_, '_> {
    /// Sends a packet that the trunk created. Returns `false` if the packet pool is full.
    pub(super) fn make(&mut self, packet: Packet, segment: &Segment) -> bool {
        let Some(id) = self.cx.pool.insert(packet) else { return false };
        if segment.header.has_sack {
            self.cx.pool.set_sack(&id, segment.sack);
        }
        self.counts.made += 1;
        self.out.push(self.cx.pool, id);
        true
    }

    /// Consumes `packet`. Returns the TCP segment that it carried.
    pub(super) fn take_in(&mut self, packet: PacketId) -> Option<Segment> {
        take_in(self.cx, packet)
    }
}

/// Creates the probe and the receiver that `config` selects. They draw random numbers from `random` and `receiver`.
pub(super) fn build(
    config: &Config,
    mut random: Random,
    receiver: Random,
    now: Time,
) -> (Box<dyn BandwidthProbe>, Box<dyn ProbeReceiver>) {
    match config.probing {
        Probing::Management | Probing::Vegas => {
            let receiver = management::ManagementReceiver::new(config, receiver);
            (Box::new(Managements::new(config, random)), Box::new(receiver))
        }
        Probing::Epochs => {
            let receiver = epochs::EpochReceiver::new(config, &mut random);
            (Box::new(Epochs::new(config, random, now)), Box::new(receiver))
        }
    }
}

/// Name of the random number stream of a probe: `Random::named` mixes it with the seed.
pub(super) const fn part(probing: Probing) -> &'static str {
    match probing {
        Probing::Management | Probing::Vegas => "sender",
        Probing::Epochs => "epochs",
    }
}
