//! A connection of two scripted end points through a gateway, in virtual time.

mod end;
mod gateway;

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::gateway::Gateway;
use tidegate_core::packet::TcpFlags;
use tidegate_core::report::Report;
use tidegate_core::{Packet, Time};
use tidegate_wire::describe;

pub(crate) use end::{EcnScript, End, MSS, Script, SegmentFields};
pub(crate) use gateway::Wire;

/// Delay between the gateway and each end point.
const WAYS: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(10)];

/// Packets of the second end point (on the WAN) arrive in bursts at this interval.
const BUNCH: Duration = Duration::from_millis(20);

/// A connection through a gateway. The first end point is on the LAN.
pub(crate) struct Run {
    pub(crate) wire: Wire,
    pub(crate) ends: [End; 2],
    script: Script,
    now: Time,
    /// Frames in transit to the gateway or to an end point, by arrival time and number.
    on_the_way: BTreeMap<(Time, u64), (Hop, Vec<u8>)>,
    count: u64,
    /// Number of data segments that have passed the gateway in each direction.
    crossed: [u32; 2],
}

#[derive(Clone, Copy)]
enum Hop {
    ToGateway(usize),
    ToEnd(usize),
}

impl Run {
    pub(crate) fn new(control: &str, packets: u32, script: Script, bytes: u32) -> Self {
        let back = if script.both_ways { bytes } else { 0 };
        Self {
            wire: Wire::new(control, packets),
            ends: [End::new(script, true, bytes), End::new(script, false, back)],
            script,
            now: Time::ZERO,
            on_the_way: BTreeMap::new(),
            count: 0,
            crossed: [0; 2],
        }
    }

    /// Runs until all data of both end points is acknowledged. Returns the end points and the
    /// gateway's report.
    pub(crate) fn finish(mut self) -> ([End; 2], Report) {
        let syn = self.ends[0].syn(self.now, false);
        self.sends(0, vec![syn]);
        let limit = Time::from_secs(120);
        while !self.ends.iter().all(End::is_done) || !self.on_the_way.is_empty() {
            self.step();
            assert!(self.now < limit, "it does not end: {:?}", self.script);
        }
        // ACKs that are still held depart within two seconds.
        let end = self.now + Duration::from_secs(2);
        while self.now < end {
            self.step();
        }
        let report = self.wire.report();
        assert_eq!(self.wire.in_use(), 0, "{report:?}");
        (self.ends, report)
    }

    /// Advances to the next event.
    fn step(&mut self) {
        let first = self.on_the_way.keys().next().map(|(at, _)| *at);
        let tick = self.now + Duration::from_millis(500);
        let next = [first, self.wire.next(self.now), Some(tick)].into_iter().flatten().min();
        self.now = self.now.max(next.unwrap_or(tick));
        while let Some(entry) = self.on_the_way.first_entry().filter(|it| it.key().0 <= self.now) {
            let (hop, frame) = entry.remove();
            match hop {
                Hop::ToGateway(from) => {
                    let port = [Gateway::LAN, Gateway::WAN][from];
                    self.wire.arrive(self.now, port, frame);
                }
                Hop::ToEnd(to) => self.receives(to, &frame),
            }
        }
        for (port, frame) in self.wire.depart(self.now) {
            let to = usize::from(port == Gateway::WAN);
            self.put(self.now + WAYS[to], Hop::ToEnd(to), frame);
        }
        for end in [0, 1] {
            let again = self.ends[end].time_out(self.now);
            self.sends(end, again);
        }
    }

    fn receives(&mut self, to: usize, frame: &[u8]) {
        let mut packet = Packet::default();
        assert_eq!(describe(frame, u32::try_from(frame.len()).unwrap(), &mut packet), None);
        let tcp = packet.tcp.unwrap();
        let sent = SegmentFields::of(frame, &tcp);
        let data = u32::from(sent.payload > 0 && !tcp.flags.any(TcpFlags::SYN));
        self.crossed[to] += data;
        let loss = self.script.loss;
        if data > 0 && loss > 0 && self.crossed[to] % loss == loss / 2 {
            return self.ends[to].received.push(sent);
        }
        let ce = self.script.ecn != EcnScript::None && data > 0 && self.crossed[to] % 5 == 2;
        let out = self.ends[to].receive(self.now, sent, ce);
        self.sends(to, out);
    }

    fn sends(&mut self, from: usize, frames: Vec<Vec<u8>>) {
        let at = self.now + WAYS[from];
        // Packets from the WAN arrive in bursts, so that every kind of ACK control holds ACKs.
        let at = if from == 1 { at.round_up_to(BUNCH) } else { at };
        for frame in frames {
            self.put(at, Hop::ToGateway(from), frame);
        }
    }

    fn put(&mut self, at: Time, hop: Hop, frame: Vec<u8>) {
        self.count += 1;
        self.on_the_way.insert((at, self.count), (hop, frame));
    }
}
