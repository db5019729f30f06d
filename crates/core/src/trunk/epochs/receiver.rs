//! The receiving gateway of a trunk with epochs. *Boundaries* are the user packets that both
//! gateways select by a hash. The receiving gateway reports the arrival of each boundary with a
//! *congestion ACK*. The *spacing* is the mean number of packets from one boundary to the next.

use super::boundary::{Spacing, boundary, frames};
use super::message::{CongestionAck, micros};
use crate::packet::{FlowKey, TcpSegment};
use crate::random::Random;
use crate::trunk::Config;
use crate::trunk::packet::{Frame, describe, network_len};
use crate::trunk::probe::{self, TrunkOutput};
use crate::{Packet, PacketId, Time};

/// The receiving end of a trunk with epochs, at one gateway.
pub(in crate::trunk) struct EpochReceiver {
    /// Flow key of congestion ACKs.
    key: FlowKey,
    /// DS codepoint of congestion ACKs.
    dscp: u8,
    /// Frame format of congestion ACKs. `None`: each congestion ACK gets the format of the user
    /// packet that it acknowledges.
    frame: Option<Frame>,
    spacing: Spacing,
    /// User bytes that have arrived.
    received: u64,
    /// Random number that identifies this receiver. A restarted receiver has another number. So the sender
    /// does not compare counters of different receivers.
    life: u32,
}

impl EpochReceiver {
    /// Creates the receiver of the trunk that `config` describes. Draws one number from `random`.
    pub(in crate::trunk) fn new(config: &Config, random: &mut Random) -> Self {
        let life = u32::try_from(random.below(1 << 32)).unwrap_or(0);
        Self {
            key: config.key_from_peer(0).reverse(),
            dscp: config.user_dscp(),
            frame: config.wire.frame(),
            spacing: Spacing::default(),
            received: 0,
            life,
        }
    }

    /// Counts a user packet. Returns a congestion ACK if the packet is a boundary.
    fn count(&mut self, now: Time, packet: &Packet) -> Option<CongestionAck> {
        self.received = self.received.wrapping_add(network_len(packet));
        let name = boundary(packet, self.spacing)?;
        let received = u32::try_from(self.received & u64::from(u32::MAX)).unwrap_or(0);
        let (micros, life, spacing) = (micros(now), self.life, self.spacing);
        Some(CongestionAck { name, received, micros, life, spacing })
    }

    /// Applies the spacing request in `header`.
    fn set_spacing(&mut self, header: &TcpSegment) {
        self.spacing = Spacing::of_power(header.window);
    }
}

impl probe::ProbeReceiver for EpochReceiver {
    fn handle(&mut self, to: &mut TrunkOutput<'_, '_>, _number: u16, packet: PacketId) {
        if let Some(segment) = to.take_in(packet) {
            self.set_spacing(&segment.header);
        }
    }

    fn watch(&mut self, to: &mut TrunkOutput<'_, '_>, packet: &PacketId) {
        let packet = to.cx.pool[packet];
        for frame in frames(&packet) {
            if let Some(ack) = self.count(to.cx.now, &frame) {
                let format = self.frame.unwrap_or_else(|| Frame::of(&packet));
                let segment = ack.segment();
                to.make(describe(self.key, &segment, format, self.dscp), &segment);
            }
        }
    }
}
