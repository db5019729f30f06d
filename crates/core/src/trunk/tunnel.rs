//! The tunnel queue of a trunk. A trunk carries user packets between two gateways; here they wait until a management
//! packet has given credit.
//!
//! Source: `trunking`, section 4.2 (a user packet waits until a management packet has given credit).
//! Differs: a packet gets the DS codepoint of the trunk when it departs, not when it arrives. A trunk may carry
//! the packets of an inner trunk. While these wait, their codepoints still distinguish management packets from user
//! packets of the inner trunk. The queue discipline `trunk-fifo` drops management packets first, as routers of the
//! paper do.

use super::Config;
use super::ceiling::Ceiling;
use super::packet::{Frame, network_len};
use crate::ack::{EgressState, Waiting};
use crate::packet::{FlowId, Handover};
use crate::qdisc::{Backlog, Qdisc};
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Rate, Time};

/// The tunnel queue of a trunk, with the ceiling on its egress rate.
pub(super) struct Tunnel {
    waiting: Waiting,
    /// DS codepoint of departing packets.
    dscp: u8,
    /// Frame format of management packets.
    frame: Frame,
    /// `true` if `frame` is fixed by the configuration. Otherwise it follows the latest user packet.
    fixed: bool,
    /// Bytes that encapsulation adds to each user packet.
    overhead: u32,
    ceiling: Option<Ceiling>,
}

impl Tunnel {
    /// A tunnel queue with the queue discipline `queue`. Its packets depart with the codepoint `dscp`.
    pub(super) fn new(queue: Box<dyn Qdisc>, dscp: u8) -> Self {
        let (waiting, frame) = (Waiting::new(queue), Frame::default());
        Self { waiting, dscp, frame, fixed: false, overhead: 0, ceiling: None }
    }

    /// The tunnel queue of the trunk that `config` describes, without its ceiling.
    pub(super) fn of(config: &Config, queue: Box<dyn Qdisc>) -> Self {
        let (frame, overhead) = (config.wire.frame(), config.wire.overhead(config.local));
        let plain = Self::new(queue, config.user_dscp());
        Self { fixed: frame.is_some(), frame: frame.unwrap_or_default(), overhead, ..plain }
    }

    /// The same queue with a `ceiling` from `now` on.
    pub(super) fn under(mut self, ceiling: Option<Rate>, now: Time) -> Self {
        self.hold_to(ceiling, now);
        self
    }

    /// Changes the ceiling from `now` on. `None` removes it.
    pub(super) fn hold_to(&mut self, ceiling: Option<Rate>, now: Time) {
        match (&mut self.ceiling, ceiling) {
            (Some(held), Some(rate)) => held.set(now, rate),
            (held, ceiling) => *held = ceiling.map(|rate| Ceiling::new(rate, now)),
        }
    }

    /// Returns `true` if the ceiling permits a departure now, or if there is no ceiling.
    pub(super) fn is_open(&mut self, now: Time) -> bool {
        self.ceiling.as_mut().is_none_or(|it| it.is_open(now))
    }

    /// Time at which the ceiling permits the next departure. `None` without a ceiling.
    pub(super) fn opens(&self) -> Option<Time> {
        self.ceiling.as_ref().map(Ceiling::opens)
    }

    /// Charges the ceiling with `len` bytes of a departing packet.
    pub(super) fn charge(&mut self, now: Time, len: u64) {
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.charge(now, len);
        }
    }

    /// The smaller of `rate` and the ceiling.
    pub(super) fn at_most(&self, rate: Rate) -> Rate {
        self.ceiling.as_ref().map_or(rate, |it| rate.min(it.rate()))
    }

    /// Queues a user packet.
    pub(super) fn push(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        if !self.fixed {
            self.frame = Frame::of(&cx.pool[&packet]);
        }
        self.waiting.enqueue(cx, packet);
    }

    /// Takes the next user packet to send. Sets its codepoint, and charges the ceiling.
    pub(super) fn pop(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.take_out(cx)?;
        let described = &mut cx.pool[&packet];
        if self.overhead == 0 {
            described.set_dscp(self.dscp);
        } else {
            // The packet will be encapsulated. The codepoint is that of the outer header, and the IP header of the
            // packet stays unchanged.
            described.dscp = self.dscp;
        }
        if self.ceiling.is_some() {
            self.charge(cx.now, self.takes(&cx.pool[&packet]));
        }
        Some(packet)
    }

    /// Takes the next user packet, unchanged. The ceiling is not charged.
    pub(super) fn take_out(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.waiting.dequeue(cx)
    }

    /// Length of `packet` on the path in bytes, from the IP header on. The length includes the encapsulation, and the
    /// headers of all frames of a super-packet.
    #[inline]
    pub(super) fn takes(&self, packet: &Packet) -> u64 {
        let once = network_len(packet) + u64::from(self.overhead);
        if packet.segments <= 1 { once } else { once + self.repeats(packet) }
    }

    /// Bytes of headers and encapsulation of all frames of a super-packet except the first.
    fn repeats(&self, packet: &Packet) -> u64 {
        let header = packet.headers().saturating_sub(u32::from(packet.network_offset));
        u64::from(packet.segments - 1) * u64::from(header + self.overhead)
    }

    /// Frame format of management packets.
    pub(super) const fn frame(&self) -> Frame {
        self.frame
    }

    pub(super) fn is_empty(&self) -> bool {
        self.backlog().packets == 0
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.waiting.backlog()
    }

    pub(super) fn bytes_of(&self, flow: FlowId) -> Bytes {
        self.waiting.bytes_of(flow)
    }

    pub(super) fn end_ack_control(&mut self, pool: &mut PacketPool, flow: FlowId) {
        self.waiting.end_ack_control(pool, flow);
    }

    pub(super) fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        self.waiting.hand_over(pool, what)
    }

    /// Sets the congestion window of the trunk, in bytes of user packets. Queue disciplines may use it.
    pub(super) fn set_window(&mut self, window: Bytes) {
        self.waiting.set_window(window);
    }

    /// State of this queue for ACK control: its backlog, and `rate` as the highest rate of its departures.
    pub(super) fn ahead(&self, rate: Rate) -> EgressState {
        self.waiting.ahead(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{config, queue, user};
    use super::super::{Encapsulation, Wire};
    use super::*;
    use crate::Tally;
    use crate::packet::TcpSegment;
    use crate::random::Random;
    use crate::{PacketPool, Time};

    fn tunnel(wire: Wire) -> Tunnel {
        let queue = queue("'drop-tail'").build(None, Random::new(1, 1));
        Tunnel::of(&Config { wire, ..config() }, queue)
    }

    /// Catches: bytes of encapsulation that are not counted for each frame of a super-packet; TCP/IP headers counted for
    /// the first frame only.
    #[test]
    fn the_length_of_a_super_packet_on_the_path_is_that_of_its_frames() {
        let wire = Wire::Datagrams { vlan: None, encapsulation: Encapsulation::Udp };
        let tcp = TcpSegment { payload: 3 * 1_400, ..TcpSegment::default() };
        let (len, segments) = (14 + 40 + 3 * 1_400, 3);
        let many = Packet { tcp: Some(tcp), segments, network_offset: 14, ..user(len) };
        let one = Packet { network_offset: 14, ..user(1_514) };
        assert_eq!(tunnel(wire).takes(&one), 1_500 + 51);
        assert_eq!(tunnel(wire).takes(&many), 3 * (1_440 + 51));
        assert_eq!(tunnel(Wire::Headers).takes(&one), 1_500);
        assert_eq!(tunnel(Wire::Headers).takes(&many), 3 * 1_440);
    }

    /// Catches: an encapsulated packet whose own IP header gets the codepoint of the trunk.
    #[test]
    fn a_packet_in_a_datagram_keeps_its_codepoint() {
        let (mut pool, mut tally) = (PacketPool::with_capacity(2), Tally::default());
        let mut cx = Cx { now: Time::ZERO, pool: &mut pool, tally: &mut tally };
        for (encapsulation, rewritten) in [(Encapsulation::Udp, false), (Encapsulation::None, true)]
        {
            let mut tunnel = tunnel(Wire::Datagrams { vlan: None, encapsulation });
            let packet = cx.pool.insert(user(100)).unwrap();
            tunnel.push(&mut cx, packet);
            let packet = tunnel.pop(&mut cx).unwrap();
            assert_eq!((cx.pool[&packet].dscp, cx.pool[&packet].rewritten), (10, rewritten));
            cx.pool.release(packet);
        }
    }
}
