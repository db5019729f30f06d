//! Hosts: connection ends process the packets that arrive, and send.
//!
//! Methods of `Engine`, whose fields are in `engine.rs`.

use tidegate_core::packet::TcpSegment;
use tidegate_core::tcp::{Event, Outgoing, Segment};
use tidegate_core::{PacketId, Time};

use super::Engine;
use crate::agenda::Agenda;
use crate::network::Tag;
use crate::routes::index;
use crate::segment;
use crate::stream::{EndId, Reader};

/// Bytes that an endless application writes at a time. It writes when fewer than [`LOW`] unsent
/// bytes remain.
pub(super) const CHUNK: u64 = 1 << 18;

/// Unsent bytes below which an endless application writes more. Larger than any segment.
const LOW: u64 = 1 << 17;

impl<A: Agenda> Engine<'_, A> {
    /// Delivers the packets that have arrived at hosts to connection ends and datagram receivers.
    pub(super) fn receive(&mut self) {
        let mut arrived = std::mem::take(&mut self.arrived);
        for packet in arrived.drain(..) {
            self.counts.ended += 1;
            let tag = self.network.tag(&packet);
            match self.network.pool[&packet].tcp {
                Some(header) => self.receive_segment(packet, header, tag),
                None => self.receive_datagram(packet, tag),
            }
        }
        self.arrived = arrived;
    }

    fn receive_datagram(&mut self, packet: PacketId, tag: Tag) {
        let received = &self.network.pool[&packet];
        let (len, headers) = (received.len, u32::from(received.transport_offset) + UDP_HEADER);
        self.network.pool.release(packet);
        self.count_goodput(tag.end, u64::from(len.saturating_sub(headers)));
        self.count_data(tag.end, len, tag);
    }

    /// The application of `flow` has received another `bytes` bytes.
    fn count_goodput(&mut self, flow: u32, bytes: u64) {
        let flow = &mut self.flows[index(flow)];
        flow.counts.goodput += bytes;
        self.groups[index(flow.group)].goodput += bytes;
    }

    /// A data packet of `flow` has arrived.
    fn count_data(&mut self, flow: u32, len: u32, tag: Tag) {
        let flow = &mut self.flows[index(flow)];
        flow.counts.received.add(len);
        let group = &mut self.groups[index(flow.group)];
        group.received += u64::from(len);
        group.delay.add(self.now.since(tag.sent));
    }

    fn receive_segment(&mut self, packet: PacketId, header: TcpSegment, tag: Tag) {
        let received = &self.network.pool[&packet];
        let (len, ecn) = (received.len, received.ecn);
        let sack = self.network.pool.sack(&packet);
        self.network.pool.release(packet);
        let (end, flow) = (EndId(tag.end), tag.flow);
        if self.network.is_large() {
            self.network.fetch_link(self.flows[index(flow)].first[end.side()]);
        }
        if self.streams.get(end.stream()).life != tag.life {
            return; // The packet belongs to a connection that has ended.
        }
        if header.payload > 0 && end.side() == 1 {
            self.count_data(flow, len, tag);
        }
        let group = index(self.flows[index(flow)].group);
        let (aggregate, shares_rtt) =
            (self.groups[group].aggregate(), self.groups[group].shares_rtt);
        let tcp = &mut self.streams.end_mut(end).tcp;
        if let Some((mean_rtt, connections)) = aggregate {
            tcp.congestion().on_aggregate(mean_rtt, connections);
        }
        tcp.handle_segment(self.now, &Segment { header, sack, ecn });
        if shares_rtt && end.side() == 0 {
            let rtt = tcp.statistics().smoothed_rtt.unwrap_or_default();
            let known = &mut self.streams.get_mut(end.stream()).rtt;
            self.groups[group].learn_rtt(known, rtt);
        }
        self.attend(end);
    }

    /// Does all work that is possible now at one end of a connection: handles events, forwards
    /// data, and sends segments.
    pub(super) fn attend(&mut self, end: EndId) {
        self.notice(end);
        if self.streams.end_mut(end).awaits_acks {
            self.look_for_acks(end);
        }
        match self.streams.end_mut(end).reader {
            Reader::Host | Reader::Aggregate | Reader::Sink => {}
            Reader::Relay => self.hand_on(end),
            Reader::Gateway => self.take_in(end),
        }
        self.send_what_may(end);
    }

    /// Sends the segments that an end may send now. Then schedules the next call of the end, or
    /// completes its close.
    pub(super) fn send_what_may(&mut self, end: EndId) {
        let reader = self.streams.end_mut(end).reader;
        match reader {
            Reader::Aggregate => self.transmit_aggregate(end),
            Reader::Gateway if self.withholds(end) => return,
            _ => self.transmit(end),
        }
        self.arm_end(end);
        if self.streams.end_mut(end).tcp.is_closed() {
            // TCP gives a connection up at the moment when it would send the next retransmission.
            self.notice(end);
            self.closed(end.stream());
        }
    }

    fn notice(&mut self, end: EndId) {
        while let Some(event) = self.streams.end_mut(end).tcp.poll_event() {
            self.happened(end, event);
        }
    }

    fn happened(&mut self, id: EndId, event: Event) {
        let end = self.streams.end_mut(id);
        match event {
            // Relays and gateways read only when they have room, in `attend`.
            Event::Readable if end.passes_on() => {}
            Event::Readable => {
                let bytes = end.tcp.readable();
                let is_sink = end.reader == Reader::Sink;
                self.read(id, bytes);
                if is_sink {
                    self.deliver(id, bytes);
                }
            }
            Event::PeerClosed if end.passes_on() => end.ended = true,
            Event::PeerClosed => end.tcp.close(),
            Event::Reset | Event::TimedOut => self.failed(id.stream()),
            Event::Established if end.reader == Reader::Relay => self.extend(id),
            Event::Established | Event::Arrived { .. } | Event::Closed => {}
        }
    }

    /// The application reads `bytes` of the data that the end has received.
    pub(super) fn read(&mut self, id: EndId, bytes: u64) {
        let end = self.streams.end_mut(id);
        end.tcp.read(bytes);
        end.received += bytes;
        if id.side() == 1 {
            let stream = self.streams.get(id.stream());
            let (flow, received) = (stream.flow, stream.ends[1].received);
            self.count_goodput(flow, bytes);
            self.complete_parts(flow, received);
        }
        self.complete_if_whole(id);
    }

    /// If an end has received all the bytes that it expects, continues the application.
    pub(super) fn complete_if_whole(&mut self, id: EndId) {
        let end = self.streams.end_mut(id);
        if end.received >= end.expects {
            end.expects = u64::MAX;
            self.complete(id);
        }
    }

    /// If all written data is acknowledged, continues the application.
    fn look_for_acks(&mut self, id: EndId) {
        let end = self.streams.end_mut(id);
        if end.tcp.statistics().acknowledged >= end.written {
            end.awaits_acks = false;
            self.all_acknowledged(id.stream());
        }
    }

    fn transmit(&mut self, id: EndId) {
        loop {
            let end = self.streams.end_mut(id);
            let Some(outgoing) = end.tcp.poll_transmit(self.now) else { break };
            let reached = outgoing.offset + u64::from(outgoing.segment.header.payload);
            if end.endless && end.written.saturating_sub(reached) < LOW {
                end.write(CHUNK);
            }
            self.send_segment(id, &outgoing);
        }
    }

    pub(super) fn send_segment(&mut self, id: EndId, outgoing: &Outgoing) {
        let (side, stream) = (id.side(), self.streams.get(id.stream()));
        let flow = &mut self.flows[index(stream.flow)];
        let key = if side == 0 { stream.key } else { stream.key.reverse() };
        let dscp = self.groups[index(flow.group)].traffic.dscp;
        let segment = &outgoing.segment;
        let packet = segment::packet(key, segment, self.run.link_header, dscp);
        if segment.header.payload > 0 && side == 0 {
            flow.counts.sent.add(packet.len);
        }
        let (host, way) = (flow.hosts[1 - side], flow.first[side]);
        let (sent, end) = (self.now, id.peer().0);
        let tag = Tag { sent, host, end, flow: stream.flow, life: stream.life, ..Tag::default() };
        self.counts.created += 1;
        let packet = self.network.insert(packet, tag);
        if segment.header.has_sack {
            self.network.pool.set_sack(&packet, segment.sack);
        }
        self.network.send(&mut self.agenda, self.now, way, packet);
    }

    /// Schedules the next call of an end, unless an earlier call is already scheduled. When the
    /// timeout moves later, the old entry stays, and the early call schedules a new one.
    fn arm_end(&mut self, id: EndId) {
        let end = self.streams.end_mut(id);
        if let Some(at) = end.tcp.poll_timeout()
            && at < end.armed
        {
            end.armed = at;
            self.agenda.set(self.parts.ends + id.0, at);
        }
    }

    /// The timer of an end has expired.
    pub(super) fn end_due(&mut self, id: EndId) {
        let now = self.now;
        let end = self.streams.end_mut(id);
        end.armed = Time::MAX;
        match end.tcp.poll_timeout() {
            Some(at) if at > now => self.arm_end(id),
            Some(_) => self.attend(id),
            None => {}
        }
    }
}

/// Length of a UDP header in bytes (RFC 768).
const UDP_HEADER: u32 = 8;
