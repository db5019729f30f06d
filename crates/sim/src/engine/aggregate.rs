//! Aggregate gateways in the event loop: many local connections come in, one aggregate connection
//! goes out.
//!
//! Methods of `Engine`, whose fields are in `engine.rs`.

use tidegate_core::itcp::GatewayLoad;
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Factor};

use super::Engine;
use crate::agenda::Agenda;
use crate::aggregate::{PayloadTotals, SAMPLE_EVERY};
use crate::draw::stream;
use crate::flow::Group;
use crate::routes::{index, number};
use crate::stream::{EndId, Reader};

impl<A: Agenda> Engine<'_, A> {
    /// Opens the aggregate connection of `flow`. The connection stays open to the end of the run.
    pub(super) fn open_aggregate(&mut self, flow: u32) {
        let Some(gateway) = self.group_of(flow).gateway else { return };
        let stream = self.open(flow, 0);
        let ends = &mut self.streams.get_mut(stream).ends;
        (ends[0].reader, ends[1].reader) = (Reader::Aggregate, Reader::Sink);
        self.aggregates[index(gateway)].stream = Some(stream);
        self.begin_adjuster(gateway);
        self.attend(EndId::new(stream, 0));
    }

    fn group_of(&self, flow: u32) -> &Group<'_> {
        &self.groups[index(self.flows[index(flow)].group)]
    }

    /// The gateway that sends the aggregate connection `stream`.
    fn gateway_of(&self, stream: u32) -> Option<usize> {
        self.group_of(self.streams.get(stream).flow).gateway.map(index)
    }

    /// The gateway that receives the local connection `stream`, and the connection's file there.
    fn file_of(&self, stream: u32) -> Option<(usize, u32)> {
        let it = self.streams.get(stream);
        Some((index(self.group_of(it.flow).carrier?), it.file?))
    }

    /// The gateway reads as many bytes of a local connection as fit. After the last byte it closes
    /// its end.
    pub(super) fn take_in(&mut self, id: EndId) {
        let Some((gateway, file)) = self.file_of(id.stream()) else { return };
        let end = self.streams.end_mut(id);
        let readable = end.tcp.readable();
        if self.aggregates[gateway].failed {
            // A client that has not completed its handshake would ignore the reset.
            if readable > 0 || end.ended {
                end.reader = Reader::Host;
                end.tcp.abort();
            }
            return;
        }
        let bytes = if readable > 0 { self.aggregates[gateway].admit(file, readable) } else { 0 };
        if bytes > 0 {
            self.read(id, bytes);
        }
        self.close_if_empty(id);
        if readable > 0 {
            self.attend_aggregate(gateway);
        }
    }

    fn close_if_empty(&mut self, id: EndId) {
        let end = self.streams.end_mut(id);
        if end.ended && end.tcp.readable() == 0 {
            end.tcp.close();
        }
    }

    /// The queue of a gateway has changed, so its aggregate connection may have data to send.
    fn attend_aggregate(&mut self, gateway: usize) {
        match self.aggregates[gateway].stream {
            Some(stream) => self.send_what_may(EndId::new(stream, 0)),
            None => self.aggregates[gateway].note(self.now, &mut self.sinks),
        }
    }

    /// Sends the segments that the windows of the aggregate connection permit, taken from the files
    /// in round robin. Reads stopped files as room appears, and sends the resulting ACKs to their
    /// clients afterwards.
    pub(super) fn transmit_aggregate(&mut self, id: EndId) {
        let Some(gateway) = self.gateway_of(id.stream()) else { return };
        let mut resumed = Vec::new();
        loop {
            self.fill(gateway, id, &mut resumed);
            let end = self.streams.end_mut(id);
            let Some(outgoing) = end.tcp.poll_transmit(self.now) else { break };
            let reached = outgoing.offset + u64::from(outgoing.segment.header.payload);
            if outgoing.segment.header.payload > 0 {
                self.aggregates[gateway].count_sent(reached, &self.sinks);
            }
            self.send_segment(id, &outgoing);
        }
        self.aggregates[gateway].note(self.now, &mut self.sinks);
        for id in resumed {
            self.close_if_empty(id);
            self.send_what_may(id);
        }
    }

    /// Writes segments to the aggregate connection until its sender holds
    /// [`AHEAD`](crate::aggregate::AHEAD) unsent ones.
    fn fill(&mut self, gateway: usize, id: EndId, resumed: &mut Vec<EndId>) {
        loop {
            self.resume(gateway, resumed);
            if !self.aggregates[gateway].lacks() {
                return;
            }
            let Some(bytes) = self.aggregates[gateway].next() else { return };
            self.streams.end_mut(id).write(bytes);
        }
    }

    /// Reads one segment of each file in `stopped`, in round robin, while the queue has room.
    fn resume(&mut self, gateway: usize, resumed: &mut Vec<EndId>) {
        while let Some((file, stream, room)) = self.aggregates[gateway].resume() {
            let id = EndId::new(stream, 1);
            let readable = self.streams.end_mut(id).tcp.readable();
            let bytes = readable.min(room);
            self.aggregates[gateway].resumed(file, bytes, readable - bytes);
            if bytes > 0 {
                self.read(id, bytes);
                if !resumed.contains(&id) {
                    resumed.push(id);
                }
            }
        }
    }

    /// The sink of an aggregate connection has read `bytes`.
    pub(super) fn deliver(&mut self, id: EndId, bytes: u64) {
        let Some(gateway) = self.gateway_of(id.stream()) else { return };
        self.aggregates[gateway].deliver(self.now, bytes, &mut self.transfers);
    }

    /// Returns `true` if the gateway withholds the ACKs of this end of a local connection now. ACKs
    /// of handshakes are never withheld.
    pub(super) fn withholds(&mut self, id: EndId) -> bool {
        let Some((gateway, _)) = self.file_of(id.stream()) else { return false };
        let withheld = &mut self.aggregates[gateway].withheld;
        let has_data = self.streams.get(id.stream()).ends[id.side()].received > 0;
        let is_kept = withheld.is_on && has_data;
        if is_kept && !withheld.streams.contains(&id.stream()) {
            withheld.streams.push(id.stream());
        }
        is_kept
    }

    /// A gateway's timer has expired: samples its queue, and calls its rate adjuster.
    pub(super) fn gateway_due(&mut self, gateway: u32) {
        if self.aggregates[index(gateway)].sample_due <= self.now {
            self.aggregates[index(gateway)].sample_due = self.now + SAMPLE_EVERY;
            for stream in self.aggregates[index(gateway)].average() {
                self.send_what_may(EndId::new(stream, 1));
            }
            let it = &mut self.aggregates[index(gateway)];
            it.note(self.now, &mut self.sinks);
        }
        self.adjust(gateway);
        self.arm_gateway(gateway);
    }

    /// The aggregate connection is open, so the rate adjuster starts to measure.
    fn begin_adjuster(&mut self, gateway: u32) {
        let it = &mut self.aggregates[index(gateway)];
        let name = &self.groups[index(self.flows[index(it.flow)].group)].traffic.name;
        let random = Random::new(self.run.seed, stream("weight", name, 0));
        if let Some(adjuster) = &mut it.adjuster {
            let weight = adjuster.begin(random, self.now);
            self.set_weight(gateway, weight);
            self.arm_gateway(gateway);
        }
    }

    /// Calls the rate adjuster with the current state of the gateway.
    fn adjust(&mut self, gateway: u32) {
        let it = &self.aggregates[index(gateway)];
        let Some(stream) = it.stream.filter(|_| it.adjuster.is_some() && !it.failed) else {
            return;
        };
        let sender = self.streams.get(stream).ends[0].tcp.statistics();
        let seen = GatewayLoad {
            queue: Bytes(it.queue()),
            arrived: it.totals.arrived,
            sent: it.totals.sent,
            sent_busy: it.totals.busy_sent,
            busy: it.busy(self.now),
            blocked: it.is_blocked(),
            window: Bytes(sender.congestion_window),
            least_rtt: sender.least_rtt,
            connections: number(it.connections()),
        };
        let adjuster = self.aggregates[index(gateway)].adjuster.as_mut();
        if let Some(weight) = adjuster.and_then(|adjuster| adjuster.call(self.now, &seen)) {
            self.set_weight(gateway, weight);
        }
    }

    fn set_weight(&mut self, gateway: u32, weight: Factor) {
        let it = &mut self.aggregates[index(gateway)];
        it.weight = weight;
        if let Some(stream) = it.stream {
            self.streams.end_mut(EndId::new(stream, 0)).tcp.set_weight(weight);
        }
    }

    /// Schedules the next call of a gateway.
    pub(super) fn arm_gateway(&mut self, gateway: u32) {
        let it = &self.aggregates[index(gateway)];
        let adjuster = it.adjuster.as_ref().and_then(|adjuster| adjuster.due(self.now));
        let sample = it.samples().then_some(it.sample_due);
        if let Some(at) = adjuster.into_iter().chain(sample).min() {
            self.agenda.set(self.parts.gateways + gateway, at);
        }
    }

    /// An aggregate connection has failed. Resets its local connections, and counts the lost
    /// transfers.
    pub(super) fn break_off_aggregate(&mut self, stream: u32) {
        let Some(gateway) = self.gateway_of(stream) else { return };
        let (open, lost) = self.aggregates[gateway].break_off();
        for flow in lost {
            let group = self.flows[index(flow)].group;
            self.groups[index(group)].failed += 1;
        }
        for stream in open {
            let id = EndId::new(stream, 1);
            self.streams.end_mut(id).reader = Reader::Host;
            self.streams.end_mut(id).tcp.abort();
            self.send_what_may(id);
        }
    }

    /// A connection has failed. If it is a local connection, its gateway still carries the bytes
    /// that it has read. Returns `true` if a transfer is lost.
    pub(super) fn loses(&mut self, stream: u32) -> bool {
        let Some((gateway, file)) = self.file_of(stream) else { return true };
        let it = self.streams.get_mut(stream);
        (it.file, it.ends[1].reader) = (None, Reader::Host);
        self.aggregates[gateway].fail(file)
    }

    /// Checks that gateways forward all bytes that they read, and that the sinks receive them.
    ///
    /// # Panics
    ///
    /// Panics if bytes are missing.
    pub(super) fn check_aggregates(&self) {
        for aggregate in &self.aggregates {
            aggregate.check();
            let Some(stream) = aggregate.stream.filter(|_| !aggregate.failed) else { continue };
            let ends = &self.streams.get(stream).ends;
            let counts = (ends[0].written, ends[1].received);
            let PayloadTotals { written, delivered, .. } = aggregate.totals;
            assert_eq!(counts, (written, delivered), "flow {}: written and read", aggregate.flow);
        }
        for stream in self.streams.iter() {
            let group = self.group_of(stream.flow);
            if let (Some(gateway), Some(file)) = (group.carrier, stream.file) {
                let read = self.aggregates[index(gateway)].read(file);
                assert_eq!(read, stream.ends[1].received, "flow {}: file", stream.flow);
            }
        }
    }

    /// Schedules the first call of every aggregate gateway.
    pub(super) fn begin_gateways(&mut self) {
        for gateway in 0..number(self.aggregates.len()) {
            self.arm_gateway(gateway);
        }
    }
}

#[cfg(test)]
mod tests;
