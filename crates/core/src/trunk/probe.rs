//! The seam between a trunk and the probe that finds its share of the path.
//!
//! A [`Trunk`](super::Trunk) owns the tunnel queue, the guarantee and the ceiling. Its [`BandwidthProbe`] decides when the
//! next user packet may depart for the trunk's share, and learns about the path from the feedback of the other end.
//! The [`ProbeReceiver`] sends that feedback.

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

/// Finds the share of a trunk. One call of [`Trunk::pump`](super::Trunk) uses it in this order:
/// [`handle_timeout`](Self::handle_timeout), [`start`](Self::start), then in turns
/// [`may_send`](Self::may_send) with [`on_sent`](Self::on_sent) and [`transmit`](Self::transmit), and
/// [`settle`](Self::settle).
pub(super) trait BandwidthProbe: Send {
    /// A user packet arrives. Returns whether the trunk must be pumped now.
    fn on_arrival(&mut self, now: Time, packet: &Packet, arrival: TunnelArrival) -> bool;

    /// Looks for timeouts. `backlogged`: user packets wait.
    fn handle_timeout(&mut self, _now: Time, _backlogged: bool) {}

    /// The pump begins to serve the trunk's share. The guarantee has been served.
    fn start(&mut self, _now: Time, _tunnel: &mut Tunnel) {}

    /// Returns `true` if the next user packet may depart now, as far as the share allows. The
    /// ceiling is the trunk's to check.
    fn may_send(&self, now: Time) -> bool;

    /// A user packet departs, which takes `takes` bytes of the path.
    fn on_sent(&mut self, now: Time, packet: &Packet, takes: u64, reason: Reason);

    /// Sends at most one packet of the probe itself. Returns whether to ask [`may_send`](Self::may_send) again.
    fn transmit(&mut self, to: &mut TrunkOutput<'_, '_>, tunnel: &mut Tunnel) -> bool;

    /// The pump has ended.
    fn settle(&mut self, _now: Time, _tunnel: &mut Tunnel) {}

    /// Feedback of the other end about connection `number`. A keepalive has no segment. Returns the window in bytes
    /// if it may have changed.
    fn on_feedback(
        &mut self,
        now: Time,
        number: u16,
        segment: Option<&Segment>,
        counts: &mut TrunkCounters,
    ) -> Option<Bytes>;

    /// The trunk's share in bits per second, without its guarantee.
    fn rate(&self) -> u64;

    /// Latest time for the next pump.
    fn poll_timeout(&self, tunnel: &Tunnel) -> Option<Time>;

    /// Window, round-trip time, credit and silent connections.
    fn state(&self) -> TrunkState;

    /// Returns `true` if the other end is considered dead, so that the fallback applies.
    fn peer_is_dead(&self) -> bool {
        false
    }

    /// Returns `true` if the other end has ever answered.
    fn has_met_peer(&self) -> bool {
        false
    }

    /// The other end has answered the predecessor of this probe.
    fn remember_peer(&mut self) {}

    /// Follows a new configuration that differs in VMSS and fallback at most.
    fn follow(&mut self, _config: &Config) {}

    /// Changes the weight of the trunk's share.
    fn set_weight(&mut self, _weight: Factor) {}

    /// Bytes that may be in flight, and the least round-trip time. `None` if they are not known.
    fn path(&self) -> (Bytes, Option<Duration>) {
        (Bytes::ZERO, None)
    }
}

/// The place of a user packet that arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TunnelArrival {
    /// The only packet of the tunnel queue.
    First,
    /// Other packets wait in the tunnel queue.
    Queued,
    /// The packet bypasses the trunk.
    Past,
}

/// The reason why a user packet departs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reason {
    /// The share of the trunk, which the probe finds.
    Share,
    /// The guaranteed minimum bandwidth.
    Guarantee,
}

/// Answers the probe of the other end.
pub(super) trait ProbeReceiver: Send {
    /// A packet of connection `number` from the other end.
    fn handle(&mut self, to: &mut TrunkOutput<'_, '_>, number: u16, packet: PacketId);

    /// A user packet from the other end passes this gateway.
    fn watch(&mut self, _to: &mut TrunkOutput<'_, '_>, _packet: &PacketId) {}

    /// Sends answers whose time has come.
    fn turn(&mut self, _to: &mut TrunkOutput<'_, '_>) {}

    /// Latest time for the next call of [`turn`](Self::turn).
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

/// Destination of departing packets, with its counters.
pub(super) struct TrunkOutput<'a, 'b> {
    pub(super) cx: &'a mut Cx<'b>,
    pub(super) counts: &'a mut TrunkCounters,
    pub(super) out: &'a mut Fifo,
}

impl TrunkOutput<'_, '_> {
    /// Sends a packet that this end made. Returns false if the packet pool is full.
    pub(super) fn make(&mut self, packet: Packet, segment: &Segment) -> bool {
        let Some(id) = self.cx.pool.insert(packet) else { return false };
        if segment.header.has_sack {
            self.cx.pool.set_sack(&id, segment.sack);
        }
        self.counts.made += 1;
        self.out.push(self.cx.pool, id);
        true
    }

    /// Terminates `packet`. Returns the segment that it carried.
    pub(super) fn take_in(&mut self, packet: PacketId) -> Option<Segment> {
        take_in(self.cx, packet)
    }
}

/// The probe and the receiver that `config` names. The tunnel queue takes the first number of `random`, which is of
/// the part of [`part`].
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

/// Name of the random numbers of a probe.
pub(super) const fn part(probing: Probing) -> &'static str {
    match probing {
        Probing::Management | Probing::Vegas => "sender",
        Probing::Epochs => "epochs",
    }
}
