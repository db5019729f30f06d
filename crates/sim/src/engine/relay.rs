//! Relays: forward the data of one connection to another through a bounded buffer, as a proxy does.
//!
//! Methods of `Engine`, whose fields are in `engine.rs`.

use super::Engine;
use crate::agenda::Agenda;
use crate::flow::{Chain, Flow};
use crate::routes::index;
use crate::scenario::Kind;
use crate::stream::{EndId, Reader, Stream};

impl<A: Agenda> Engine<'_, A> {
    /// Opens the second connection of a relay. Its length is unknown until the first connection
    /// ends.
    pub(super) fn open_relay(&mut self, flow: u32) {
        if matches!(self.chain(flow), Chain::Each | Chain::Asks) {
            return; // Such relays open a connection for each incoming one.
        }
        let stream = self.open(flow, 0);
        self.streams.get_mut(stream).size = u64::MAX;
        self.attend(EndId::new(stream, 0));
    }

    /// Handles an event at one of the two connection ends at a relay. The relay reads the data that
    /// fits into its buffer, and writes it to the other connection. After the last byte it closes
    /// both ends.
    pub(super) fn hand_on(&mut self, id: EndId) {
        let Some(other) = self.other_half(id) else { return self.refuse_if_late(id) };
        let (from, to) = if id.side() == 1 { (id, other) } else { (other, id) };
        let mut bytes = self.pass(from, to);
        if self.chain(self.streams.get(id.stream()).flow) == Chain::Asks {
            bytes += self.pass(to, from);
        }
        let first = self.streams.end_mut(from);
        let over = first.ended && first.tcp.readable() == 0;
        if over {
            self.hand_on_end(from, to);
        }
        if bytes > 0 || over {
            self.send_what_may(other);
        }
    }

    /// Forwards as many bytes as the buffer of `to` has room for. Returns their number.
    fn pass(&mut self, from: EndId, to: EndId) -> u64 {
        let room = self.buffer(from, to).saturating_sub(self.waiting(to));
        let bytes = self.streams.end_mut(from).tcp.readable().min(room);
        if bytes > 0 {
            self.read(from, bytes);
            self.streams.end_mut(to).write(bytes);
        }
        bytes
    }

    /// The first connection has ended and all its data is forwarded. Sets the length of the
    /// transfer on the second connection, and closes both ends.
    fn hand_on_end(&mut self, from: EndId, to: EndId) {
        for id in [from, to] {
            let end = self.streams.end_mut(id);
            end.reader = Reader::Host;
            end.tcp.close();
        }
        let first = self.streams.get(from.stream());
        let (began, chain) = (first.began, self.chain(first.flow));
        if !matches!(chain, Chain::Single | Chain::Each) {
            return; // `promise_on` or `ask` has already recorded these transfers.
        }
        let second = self.streams.get_mut(to.stream());
        let size = second.ends[0].written;
        (second.began, second.size, second.ends[1].expects) = (began, size, size);
        self.complete_if_whole(to.peer());
    }

    /// A connection has failed. Resets the connections before and after it in the chain.
    pub(super) fn break_off(&mut self, stream: u32) {
        for id in [0, 1].map(|side| EndId::new(stream, side)) {
            let Some(other) = self.other_half(id) else { continue };
            if self.chain(self.streams.get(stream).flow) == Chain::Asks && id.side() == 1 {
                // A client of `web` only waits for an answer. It would never notice a lost reset,
                // so the simulator reports the failure directly.
                self.streams.end_mut(id).reader = Reader::Host;
                self.failed(other.stream());
            }
            for id in [id, other] {
                self.streams.end_mut(id).reader = Reader::Host;
            }
            self.streams.end_mut(other).tcp.abort();
            self.send_what_may(other);
        }
    }

    /// Resets the first connection when more data arrives although the second connection has
    /// failed. Data that arrives before the second connection opens must wait.
    fn refuse_if_late(&mut self, id: EndId) {
        if self.streams.end_mut(id).reader != Reader::Relay {
            return;
        }
        let began = |it: &Flow| it.start < self.now;
        if id.side() == 1 && self.other_flow(id).is_some_and(began) {
            let end = self.streams.end_mut(id);
            if end.tcp.readable() > 0 || end.ended {
                end.reader = Reader::Host;
                end.tcp.abort();
            }
        }
    }

    /// The end of the other connection at the same relay; `None` if the relay has stopped
    /// forwarding.
    fn other_half(&self, id: EndId) -> Option<EndId> {
        let stream = self.streams.get(id.stream());
        if stream.ends[id.side()].reader != Reader::Relay {
            return None;
        }
        let other = match self.chain(stream.flow) {
            Chain::Single | Chain::Parts => self.other_flow(id)?.app.stream,
            Chain::Each | Chain::Asks => stream.other[id.side()],
        };
        Some(EndId::new(other?, 1 - id.side()))
    }

    fn other_flow(&self, id: EndId) -> Option<&Flow> {
        let stream = self.streams.get(id.stream());
        let group = &self.groups[index(self.flows[index(stream.flow)].group)];
        let other = &self.groups[index(group.relay[id.side()]?)];
        Some(&self.flows[index(stream.flow - group.flows.start + other.flows.start)])
    }

    /// Bytes in the relay's buffer: written to the second connection and not acknowledged.
    fn waiting(&self, to: EndId) -> u64 {
        let end = &self.streams.get(to.stream()).ends[to.side()];
        end.written - end.tcp.progress().acknowledged
    }

    /// Size in bytes of the relay's buffer between these two ends.
    fn buffer(&self, from: EndId, to: EndId) -> u64 {
        let second = if to.side() == 0 { to } else { from };
        let flow = &self.flows[index(self.streams.get(second.stream()).flow)];
        match &self.groups[index(flow.group)].traffic.kind {
            Kind::Relay { buffer, .. } => buffer.0,
            _ => 0,
        }
    }

    /// Checks that a relay has forwarded all bytes that it has read, and that its buffer is within
    /// its limit.
    ///
    /// # Panics
    ///
    /// Panics if bytes are missing or the buffer is too full, which is an error of the relay.
    pub(super) fn check_relay(&self, stream: &Stream) {
        if matches!(self.chain(stream.flow), Chain::Each | Chain::Asks) {
            return self.check_link(stream);
        }
        let Some(second) = self.flows[index(stream.flow)].app.stream else { return };
        let to = EndId::new(second, 0);
        let Some(from) = self.other_half(to) else { return };
        let (read, written) = (
            self.streams.get(from.stream()).ends[1].received,
            self.streams.get(second).ends[0].written,
        );
        assert_eq!(read, written, "flow {}: read and handed on by its relay", stream.flow);
        let (waiting, buffer) = (self.waiting(to), self.buffer(from, to));
        assert!(waiting <= buffer, "flow {}: {waiting} bytes wait of {buffer}", stream.flow);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use std::time::Duration;

    use tidegate_core::link::Loss;
    use tidegate_core::tcp::Config;
    use tidegate_core::wheel::TimerWheel;
    use tidegate_core::{Bytes, Chance};

    use super::*;
    use crate::engine::apps::check_bytes;
    use crate::results::Results;
    use crate::scenario::{Distribution, Scenario, Start};
    use crate::testing::relayed;

    const BUFFER: Bytes = Bytes(30_000);

    /// Receive window at the relay.
    const WINDOW: u64 = 60_000;

    fn file(bytes: u64) -> Kind {
        Kind::File { size: Distribution::Constant(Bytes(bytes)) }
    }

    /// A relay of flows of `kind` whose second connection is the slower one.
    fn slower(pairs: usize, kind: Kind) -> Scenario {
        let mut scenario = relayed(pairs, kind, BUFFER);
        scenario.run.duration = Duration::from_secs(10);
        let tcp = Config { receive_window: Bytes(WINDOW), ..Config::default() };
        scenario.traffic[0].tcp = Some(tcp);
        scenario
    }

    /// Makes the link from router `from` to router `to` lose `percent` of its packets.
    fn lossy(scenario: &mut Scenario, from: &str, to: &str, percent: u32) {
        let link = scenario.links.iter_mut().find(|it| it.a.node == from && it.b.node == to);
        let there = link.and_then(|it| it.forward.as_mut()).unwrap();
        Arc::make_mut(there).loss = Loss::Bernoulli(Chance::from_ppb(percent * 10_000_000));
    }

    fn play(scenario: &Scenario) -> Engine<'_, TimerWheel> {
        assert_eq!(scenario.check(), []);
        let mut engine = Engine::new(scenario);
        assert!(engine.play(|_| ControlFlow::Continue(())).is_continue());
        engine.check_conservation();
        engine
    }

    fn results(scenario: &Scenario) -> Results {
        Results::new(scenario, play(scenario))
    }

    /// Catches: bytes that are read but not written; a second connection that is never closed; a
    /// first connection closed before its last byte is read; a transfer time that starts at the
    /// relay.
    #[test]
    fn files_arrive_whole_and_both_connections_close() {
        for percent in [0, 5] {
            let mut scenario = slower(3, file(400_000));
            lossy(&mut scenario, "r", "q", percent);
            let engine = play(&scenario);
            assert_eq!(engine.streams.iter().count(), 0);
            let results = Results::new(&scenario, engine);
            let flows = results.table("flows").unwrap();
            assert_eq!(flows.whole("goodput_bytes"), [400_000; 6]);
            assert_eq!(flows.whole("acknowledged_bytes"), [400_000; 6]);
            let transfers = results.table("transfers").unwrap();
            assert_eq!(transfers.whole("bytes"), [400_000; 6]);
            assert_eq!(results.table("groups").unwrap().whole("failed_transfers"), [0, 0]);
            // The times of the second group start with the first connection too, so they are
            // longer.
            let flow = transfers.whole("flow");
            for number in 0..3 {
                let row = |flow_number| flow.iter().position(|it| *it == flow_number).unwrap();
                let [half, all] = [row(number), row(number + 3)];
                let (began, took) =
                    (transfers.real("began_seconds"), transfers.real("took_seconds"));
                assert_eq!(began[half].to_bits(), began[all].to_bits());
                assert!(took[all] > took[half] + 0.01, "{took:?}");
            }
        }
    }

    /// The sender sees at most this many bytes acknowledged: the delivered bytes, plus the relay's
    /// buffer and its receive window. Without losses, it sees nearly as many.
    ///
    /// Catches: a relay that reads without a limit; a relay that reads all received data as soon as
    /// its buffer has any room.
    #[test]
    fn a_relay_holds_no_more_than_its_buffers() {
        for percent in [0, 2] {
            let mut scenario = slower(1, Kind::Greedy);
            lossy(&mut scenario, "r", "q", percent);
            let engine = play(&scenario);
            for stream in engine.streams.iter() {
                engine.check_relay(stream);
                check_bytes(stream);
            }
            let results = Results::new(&scenario, engine);
            let flows = results.table("flows").unwrap();
            let acknowledged = flows.whole("acknowledged_bytes")[0];
            let there = flows.whole("goodput_bytes")[1];
            assert!(
                acknowledged <= there + BUFFER.0 + WINDOW,
                "{percent}: {acknowledged} of {there}"
            );
            assert!(acknowledged > there + BUFFER.0 / 2, "{percent}: {acknowledged} of {there}");
        }
    }

    /// Links of 20 and 10 Mbit/s in a row: the second one is always busy.
    ///
    /// Catches: a relay that does not continue when the second connection has room again.
    #[test]
    fn the_slower_connection_fills_its_link() {
        let mut scenario = relayed(2, Kind::Greedy, Bytes(60_000));
        scenario.run.duration = Duration::from_secs(10);
        scenario.run.warmup = Duration::from_secs(2);
        let results = results(&scenario);
        let goodput = results.table("groups").unwrap().real("goodput_bps");
        assert!((0.92e7..0.97e7).contains(&goodput[1]), "{goodput:?}");
        assert!((goodput[0] / goodput[1] - 1.0).abs() < 0.01, "{goodput:?}");
    }

    /// Catches: a relay that discards data that arrives before its second connection opens.
    #[test]
    fn a_relay_that_begins_later_forwards_all_data() {
        for bytes in [1_000, WINDOW, 100_000] {
            let mut scenario = slower(1, file(bytes));
            scenario.traffic[1].start = Start::At(Duration::from_secs(3));
            let results = results(&scenario);
            assert_eq!(results.table("flows").unwrap().whole("goodput_bytes"), [bytes; 2]);
            assert_eq!(results.table("transfers").unwrap().whole("bytes"), [bytes; 2]);
        }
    }

    #[test]
    fn two_relays_in_a_row_forward_all_data() {
        let mut scenario = slower(1, file(300_000));
        let mut back = scenario.traffic[1].clone();
        back.name = "back".into();
        back.kind = Kind::Relay { of: "onward".into(), buffer: BUFFER };
        back.pairs[0] = scenario.traffic[1].pairs[0].clone();
        let pair = &mut back.pairs[0];
        std::mem::swap(&mut pair.from, &mut pair.to);
        scenario.traffic.push(back);
        let engine = play(&scenario);
        assert_eq!(engine.streams.iter().count(), 0);
        let results = Results::new(&scenario, engine);
        assert_eq!(results.table("flows").unwrap().whole("goodput_bytes"), [300_000; 3]);
    }

    /// Catches: a connection that continues alone; a failure that is counted for only one of the
    /// two groups.
    #[test]
    fn when_one_connection_fails_the_other_is_reset() {
        let mut scenario = slower(1, file(50_000_000));
        // The link loses every packet, so the second connection gives up its SYNs.
        lossy(&mut scenario, "r", "q", 100);
        scenario.run.duration = Duration::from_secs(300);
        let engine = play(&scenario);
        assert_eq!(engine.streams.iter().count(), 0);
        let results = Results::new(&scenario, engine);
        assert_eq!(results.table("groups").unwrap().whole("failed_transfers"), [1, 1]);
        let flows = results.table("flows").unwrap();
        assert_eq!(flows.whole("goodput_bytes"), [BUFFER.0, 0]);
        let acknowledged = flows.whole("acknowledged_bytes")[0];
        assert!(
            (BUFFER.0 + WINDOW - 1_500..=BUFFER.0 + WINDOW).contains(&acknowledged),
            "{acknowledged}"
        );
    }

    /// Catches: a first connection that stays open, but is never read, after the second connection
    /// has failed.
    #[test]
    fn data_after_the_failure_of_the_second_connection_is_refused() {
        let mut scenario = slower(1, file(50_000_000));
        lossy(&mut scenario, "r", "q", 100);
        scenario.traffic[0].start = Start::At(Duration::from_secs(200));
        scenario.run.duration = Duration::from_secs(300);
        let engine = play(&scenario);
        assert_eq!(engine.streams.iter().count(), 0);
        let results = Results::new(&scenario, engine);
        assert_eq!(results.table("groups").unwrap().whole("failed_transfers"), [1, 1]);
    }

    /// Catches: a second connection that waits for ever after the first connection has failed.
    #[test]
    fn a_failed_first_connection_resets_the_second() {
        let mut scenario = slower(1, file(50_000_000));
        lossy(&mut scenario, "l", "r", 100);
        scenario.run.duration = Duration::from_secs(300);
        let engine = play(&scenario);
        assert_eq!(engine.streams.iter().count(), 0);
        let results = Results::new(&scenario, engine);
        assert_eq!(results.table("groups").unwrap().whole("failed_transfers"), [1, 1]);
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let mut scenario = slower(3, Kind::Greedy);
        lossy(&mut scenario, "r", "q", 1);
        assert!(results(&scenario) == results(&scenario));
    }
}
