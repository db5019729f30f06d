//! A first-in first-out queue with a marking, for tests. A marking marks packets before the queue
//! overflows.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Decision, Marking, Observed, Outcome, Target};
use crate::packet::{Direction, Ecn, Endpoint, FlowId, FlowKey, Protocol, QueueIndex, TcpFlags};
use crate::packet::{Packet, TcpSegment};
use crate::{Bytes, Rate, Time};

/// The queue, its marking, and the flows that were marked.
pub(super) struct TestQueue<M> {
    pub(super) marking: M,
    pub(super) now: Time,
    pub(super) rate: Rate,
    pub(super) limit: Bytes,
    pub(super) queue: VecDeque<Packet>,
    /// Sequence number of the next packet of each flow.
    next: Vec<u32>,
    /// Flows that were marked, in the order of the decisions.
    pub(super) marked: Vec<FlowId>,
    pub(super) dropped: u32,
}

impl<M: Marking> TestQueue<M> {
    pub(super) fn new(marking: M, rate: Rate, limit: Bytes) -> Self {
        let (queue, next, marked) = (VecDeque::new(), vec![0; 10_000], Vec::new());
        Self { marking, now: Time::ZERO, rate, limit, queue, next, marked, dropped: 0 }
    }

    pub(super) fn pass(&mut self, span: Duration) {
        self.now += span;
    }

    fn seen(&self) -> Observed<'static> {
        let backlog = Bytes(self.queue.iter().map(|packet| u64::from(packet.len)).sum());
        Observed { backlog, ..Observed::empty(self.now, Direction::Up, self.rate, self.limit) }
    }

    /// A data segment of a TCP flow.
    pub(super) fn segment(&mut self, flow: u32, len: u32) -> Packet {
        let seq = &mut self.next[usize::try_from(flow).unwrap()];
        let payload = len - 54;
        let flags = TcpFlags(TcpFlags::ACK);
        let tcp = TcpSegment { seq: *seq, payload, flags, ..TcpSegment::default() };
        *seq += payload;
        let protocol = Protocol::TCP;
        Packet { tcp: Some(tcp), ecn: Ecn::Ect0, ..self.datagram(flow, len, protocol) }
    }

    /// A packet without a TCP header.
    pub(super) fn datagram(&self, flow: u32, len: u32, protocol: Protocol) -> Packet {
        let [a, b, c, d] = flow.to_be_bytes();
        let (src, dst) = (Endpoint::v4([a, b, c, d], 9), Endpoint::v4([192, 0, 2, 1], 80));
        let key = FlowKey { src, dst, protocol };
        let (flow, queue_index) = (FlowId(flow), QueueIndex(flow));
        Packet { len, key, flow, queue_index, segments: 1, arrived: self.now, ..Packet::default() }
    }

    /// A packet arrives. Packets are marked and dropped as by [`Marker`](super::Marker).
    pub(super) fn arrive(&mut self, packet: Packet) {
        self.marking.arrived(&self.seen(), &packet);
        loop {
            let mut seen = self.seen();
            seen.backlog += packet.frame_len();
            match self.marking.decide(&seen, &packet) {
                Decision::Pass => return self.queue.push_back(packet),
                Decision::MarkArrival => {
                    self.marked.push(packet.flow);
                    return self.queue.push_back(packet);
                }
                Decision::Drop => {
                    let target = Target { flow: packet.flow, queue_index: packet.queue_index };
                    self.marking.done(self.now, target, Outcome::Dropped);
                    return self.dropped += 1;
                }
                Decision::Mark(target) => {
                    let waits = self.queue.iter().any(|other| other.flow == target.flow);
                    let found = waits || packet.flow == target.flow;
                    let outcome = if found { Outcome::Marked } else { Outcome::NoPacket };
                    self.marking.done(self.now, target, outcome);
                    if found {
                        self.marked.push(target.flow);
                    }
                }
            }
        }
    }

    /// The oldest packet departs from the queue.
    pub(super) fn depart(&mut self) {
        if let Some(packet) = self.queue.pop_front() {
            self.marking.departed(&packet);
        }
    }

    /// `count` segments of a TCP flow arrive. After each segment, the oldest packet departs.
    pub(super) fn send(&mut self, flow: u32, len: u32, count: u32) {
        for _ in 0..count {
            let packet = self.segment(flow, len);
            self.arrive(packet);
            self.depart();
        }
    }
}
