//! Applications over TCP: when they open connections, and which data they write.
//!
//! Methods of `Engine`, whose fields are in `engine.rs`.

use std::time::Duration;

use tidegate_core::{Bytes, Time};

use super::Engine;
use super::hosts::CHUNK;
use crate::agenda::Agenda;
use crate::aggregate::Part;
use crate::draw::Quantity;
use crate::routes::index;
use crate::scenario::{Distribution, Kind};
use crate::stream::{EndId, Reader, Stream};

/// State of the application of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct App {
    /// The connection in use.
    pub(crate) stream: Option<u32>,
    /// Number of writes of a trace that the application has made.
    written: usize,
}

impl<A: Agenda> Engine<'_, A> {
    /// The timer of the application of a flow has expired.
    pub(super) fn app(&mut self, flow: u32) {
        if self.stops_at(flow).is_some_and(|stop| self.now >= stop) {
            return self.stop(flow);
        }
        let group = self.flows[index(flow)].group;
        match self.groups[index(group)].traffic.kind {
            Kind::Greedy => {
                let stream = self.open(flow, 0);
                self.sender(stream).endless = true;
                self.hand_over(flow, stream, CHUNK, false);
                self.wake(flow, Time::MAX);
            }
            Kind::File { size } => {
                let stream = self.open(flow, 0);
                self.send_file(flow, stream, size);
            }
            Kind::OnOff { burst, reconnect, .. } => self.burst(flow, burst, reconnect),
            Kind::Web { request, answer, .. } => self.ask(flow, request, answer),
            Kind::Arrivals { every, size } => {
                let stream = self.open(flow, 0);
                self.send_file(flow, stream, size);
                let gap = self.draw(flow, Distribution::Exponential(every));
                self.wake(flow, self.now + gap);
            }
            Kind::Trace { .. } => self.next_writes(flow),
            Kind::Relay { .. } => self.open_relay(flow),
            Kind::Aggregate { .. } => self.open_aggregate(flow),
            Kind::Constant { .. } | Kind::Bursts { .. } | Kind::Packets { .. } => {}
        }
    }

    fn draw<T: Quantity>(&mut self, flow: u32, distribution: Distribution<T>) -> T {
        distribution.draw(&mut self.flows[index(flow)].random)
    }

    fn stops_at(&self, flow: u32) -> Option<Time> {
        let group = &self.groups[index(self.flows[index(flow)].group)];
        group.traffic.stop.map(|stop| Time::ZERO + stop)
    }

    /// Schedules the application of `flow` at `at`, or at its stop time if that is earlier.
    fn wake(&mut self, flow: u32, at: Time) {
        let at = self.stops_at(flow).map_or(at, |stop| at.min(stop));
        if at < Time::MAX {
            self.agenda.set(self.parts.flows + flow, at);
        }
    }

    /// The application offers no more data. TCP still sends the data offered earlier.
    fn stop(&mut self, flow: u32) {
        let Some(stream) = self.flows[index(flow)].app.stream else { return };
        let end = self.sender(stream);
        end.endless = false;
        end.tcp.close();
        self.attend(EndId::new(stream, 0));
    }

    fn sender(&mut self, stream: u32) -> &mut crate::stream::StreamEnd {
        self.streams.end_mut(EndId::new(stream, 0))
    }

    /// Opens a connection for `flow`. Side `opener` (0 sender, 1 receiver) sends the SYN.
    pub(super) fn open(&mut self, flow: u32, opener: usize) -> u32 {
        let it = &mut self.flows[index(flow)];
        let isns = [(); 2].map(|()| low(it.random.below(1 << 32)));
        let key = self.hosts.key(it.hosts, opener, self.groups[index(it.group)].traffic);
        let configs = it.configs.map(|config| &self.configs[index(config)]);
        let stream = self.streams.open(self.now, flow, key, opener, configs, isns);
        it.app.stream = Some(stream);
        let group = &self.groups[index(it.group)];
        let (relay, carrier) = (group.relay, group.carrier);
        let opened = self.streams.get_mut(stream);
        for (end, group) in opened.ends.iter_mut().zip(relay) {
            if group.is_some() {
                end.reader = Reader::Relay;
            }
        }
        if let Some(carrier) = carrier {
            opened.ends[1].reader = Reader::Gateway;
            opened.file = Some(self.aggregates[index(carrier)].open(flow, stream));
        }
        stream
    }

    /// Writes `bytes` at side 0 as one transfer. With `last`, closes the connection after these
    /// bytes.
    fn hand_over(&mut self, flow: u32, stream: u32, bytes: u64, last: bool) {
        let now = self.now;
        let carrier = self.groups[index(self.flows[index(flow)].group)].carrier;
        let it = self.streams.get_mut(stream);
        (it.began, it.size) = (now, bytes);
        it.ends[0].write(bytes);
        it.ends[1].expects = match it.file {
            None => it.ends[0].written,
            Some(_) => u64::MAX,
        };
        if last {
            it.ends[0].tcp.close();
        }
        if it.ends[0].endless {
            it.ends[1].expects = u64::MAX;
        } else if let (Some(file), Some(carrier)) = (it.file, carrier) {
            let at = it.ends[0].written;
            self.aggregates[index(carrier)].promise(file, Part { at, began: now, bytes });
        } else {
            let at = it.ends[0].written;
            self.promise_on(flow, Part { at, began: now, bytes });
        }
        debug_assert_eq!(self.streams.get(stream).flow, flow);
        self.attend(EndId::new(stream, 0));
    }

    fn send_file(&mut self, flow: u32, stream: u32, size: Distribution<Bytes>) {
        let size = self.draw(flow, size).0;
        self.hand_over(flow, stream, size, true);
    }

    fn burst(&mut self, flow: u32, burst: Distribution<Bytes>, reconnect: bool) {
        let stream = match self.flows[index(flow)].app.stream {
            Some(stream) if !reconnect => stream,
            _ => self.open(flow, 0),
        };
        let size = self.draw(flow, burst).0;
        self.sender(stream).awaits_acks = true;
        self.hand_over(flow, stream, size, reconnect);
        self.wake(flow, Time::MAX);
    }

    /// A client opens a connection and sends a request, whose answer has the drawn length.
    fn ask(&mut self, flow: u32, request: Distribution<Bytes>, answer: Distribution<Bytes>) {
        let (request, answer) = (self.draw(flow, request).0, self.draw(flow, answer).0);
        // If relays forward the answer, the client is the receiver of the chain's last connection.
        let last = self.last_of(flow);
        let stream = self.open(last, 1);
        let it = self.streams.get_mut(stream);
        it.size = answer;
        if last == flow {
            it.ends[0].expects = request;
        }
        it.ends[1].expects = answer;
        it.ends[1].write(request);
        self.attend(EndId::new(stream, 1));
        self.wake(flow, Time::MAX);
    }

    /// Makes the writes of a trace that are due.
    fn next_writes(&mut self, flow: u32) {
        let stream = match self.flows[index(flow)].app.stream {
            Some(stream) => stream,
            None if self.flows[index(flow)].app.written == 0 => self.open(flow, 0),
            None => return, // the connection has failed
        };
        let it = &mut self.flows[index(flow)];
        let Kind::Trace { writes } = &self.groups[index(it.group)].traffic.kind else { return };
        let left = &writes[it.app.written..];
        let due = left.iter().take_while(|(after, _)| it.start + *after <= self.now).count();
        let bytes = left[..due].iter().map(|(_, bytes)| bytes.0).sum();
        it.app.written += due;
        let next = left.get(due).map(|(after, _)| it.start + *after);
        self.hand_over(flow, stream, bytes, next.is_none());
        if let Some(next) = next {
            self.wake(flow, next);
        }
    }

    /// An end has received all the bytes that it expects: a request, or a whole transfer.
    pub(super) fn complete(&mut self, id: EndId) {
        let (flow, size) = (self.streams.get(id.stream()).flow, self.streams.get(id.stream()).size);
        let asker = self.first_of(flow);
        let kind = &self.groups[index(self.flows[index(asker)].group)].traffic.kind;
        let is_last = self.groups[index(self.flows[index(flow)].group)].relay[1].is_none();
        let stream = self.streams.get_mut(id.stream());
        let think = match kind {
            Kind::Web { .. } if id.side() == 0 => {
                stream.ends[0].write(size);
                stream.ends[0].tcp.close();
                return;
            }
            Kind::Web { think, .. } if is_last => Some(*think),
            _ => None,
        };
        self.transfers.push(flow, stream.began, self.now, size);
        stream.size = 0;
        if let Some(think) = think {
            stream.ends[1].tcp.close();
            self.pause(asker, think);
        }
    }

    fn pause(&mut self, flow: u32, pause: Distribution<Duration>) {
        let pause = self.draw(flow, pause);
        self.wake(flow, self.now + pause);
    }

    /// All data that side 0 has written is acknowledged.
    pub(super) fn all_acknowledged(&mut self, stream: u32) {
        let flow = self.streams.get(stream).flow;
        let group = self.flows[index(flow)].group;
        if let Kind::OnOff { pause, .. } = self.groups[index(group)].traffic.kind {
            self.pause(flow, pause);
        }
    }

    /// A connection has failed before its transfer was complete.
    pub(super) fn failed(&mut self, number: u32) {
        if std::mem::replace(&mut self.streams.get_mut(number).failed, true) {
            return;
        }
        self.break_off(number);
        self.break_off_aggregate(number);
        let loses = self.loses(number);
        let stream = self.streams.get_mut(number);
        let flow = stream.flow;
        if stream.size == 0 {
            return;
        }
        stream.ends.iter_mut().for_each(|end| (end.awaits_acks, end.expects) = (false, u64::MAX));
        let asker = self.first_of(flow);
        let kind = &self.groups[index(self.flows[index(asker)].group)].traffic.kind;
        let it = &mut self.flows[index(flow)];
        let group = &mut self.groups[index(it.group)];
        group.failed += u64::from(loses);
        let is_last = group.relay[1].is_none();
        if it.app.stream != Some(number) {
            return;
        }
        it.app.stream = None;
        match *kind {
            Kind::OnOff { pause, .. } if asker == flow => self.pause(flow, pause),
            Kind::Web { think, .. } if is_last => self.pause(asker, think),
            _ => {}
        }
    }

    /// One end of a connection has closed. When both ends have closed, the number of the connection
    /// becomes free.
    pub(super) fn closed(&mut self, number: u32) {
        let stream = self.streams.get_mut(number);
        // A side that never received a segment does not learn by TCP that the connection has ended,
        // so the simulator closes it.
        for end in &mut stream.ends {
            end.endless = false;
            end.tcp.close();
        }
        if !stream.ends.iter().all(|end| end.tcp.is_closed()) {
            return;
        }
        let flow = &mut self.flows[index(stream.flow)];
        flow.past.get_or_insert_default().add(&stream.ends[0].tcp.statistics());
        if flow.app.stream == Some(number) {
            flow.app.stream = None;
        }
        self.groups[index(flow.group)].forget_rtt(stream.rtt);
        check_bytes(stream);
        if let (Some(file), Some(carrier)) = (stream.file, self.groups[index(flow.group)].carrier) {
            self.aggregates[index(carrier)].end(file);
        }
        self.unlink(number);
        for side in [0, 1] {
            self.agenda.cancel(self.parts.ends + EndId::new(number, side).0);
        }
        self.streams.release(number);
    }
}

/// Checks the byte counts of a stream: acknowledged <= received <= written, and the counts of the
/// application equal those of TCP. A receiver with optimistic ACKs may have acknowledged a few
/// bytes before they arrived.
///
/// # Panics
///
/// Panics if the counts are inconsistent, which is an error of a TCP end point.
pub(super) fn check_bytes(stream: &Stream) {
    for side in [0, 1] {
        let (from, to) = (&stream.ends[side], &stream.ends[1 - side]);
        let (sent, there) = (from.tcp.statistics(), to.tcp.statistics());
        assert!(
            sent.acknowledged <= there.received + to.tcp.acks_ahead()
                && there.received <= sent.written,
            "flow {}: {} bytes acknowledged, {} received, {} written",
            stream.flow,
            sent.acknowledged,
            there.received,
            sent.written
        );
        let read = there.received - to.tcp.readable();
        assert_eq!((to.received, from.written), (read, sent.written));
    }
}

/// The lower 32 bits.
fn low(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0)
}
