//! A toy network for tests: bulk senders on one queue. The only part of TCP in it is the window.
//!
//! Every packet is full-sized and acknowledged. A loss is detected when three later packets would
//! have been acknowledged. Lost data is simply sent again as new data. The long run therefore shows
//! the law of a congestion control without details of a sender.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use tidegate_base::{Bytes, Rate, Time};

use super::testing::{SEGMENT, real};
use super::{Ack, CongestionControl, Delivery, Signal, Window};

/// The shared link and its queue.
#[derive(Clone, Copy)]
pub(super) struct Bottleneck {
    pub rate: Rate,
    /// Size of the queue in bytes.
    pub buffer: u64,
    /// Packets that find more than this many bytes in the queue are marked.
    pub mark_above: Option<u64>,
    /// Interval of random losses of each sender.
    pub lose_every: Option<Duration>,
    /// Each sender loses one of this many packets, at random.
    pub lose_one_in: Option<u64>,
}

impl Bottleneck {
    pub(super) fn new(rate: Rate, buffer_segments: u64) -> Self {
        Self {
            rate,
            buffer: buffer_segments * SEGMENT,
            mark_above: None,
            lose_every: None,
            lose_one_in: None,
        }
    }
}

/// A sender and its results.
pub(super) struct ToySender {
    pub control: Box<dyn CongestionControl>,
    /// Round-trip time without a queue.
    delay: Duration,
    pub window: Window,
    flight: u64,
    next: u64,
    acknowledged: u64,
    recover: Option<u64>,
    /// Losses below this offset cause no further reduction.
    reduced: u64,
    /// Bytes found lost since the previous ACK.
    lost: u64,
    pub delivered: u64,
    delivered_at: Time,
    smoothed: Duration,
    least: Duration,
    next_loss: Time,
    may_send: Time,
    waking: bool,
    pub signals: u64,
    /// Receive window: the most bytes in flight.
    pub limit: u64,
    /// Departure time of each packet.
    pub sent: Vec<Time>,
    /// The window in segments at every whole round-trip time without a queue.
    pub trace: Vec<(Time, f64)>,
}

struct Packet {
    sender: usize,
    number: u64,
    sent: Time,
    delivered_before: u64,
    delivered_at: Time,
    first_sent: Time,
    marked: bool,
}

enum ToyEvent {
    Acked(Packet),
    Lost(Packet),
    Wake(usize),
    Look(usize),
}

struct Due {
    at: Time,
    order: u64,
    event: ToyEvent,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Due {}

/// A queue and its senders.
pub(super) struct ToyNetwork {
    bottleneck: Bottleneck,
    pub senders: Vec<ToySender>,
    now: Time,
    events: BinaryHeap<Reverse<Due>>,
    count: u64,
    free_at: Time,
    /// Sum of the queues that packets found, in bytes, and the number of packets.
    waiting: (u64, u64),
    sent: u64,
    arrived: u64,
    dropped: u64,
}

impl ToyNetwork {
    pub(super) fn new(bottleneck: Bottleneck) -> Self {
        Self {
            bottleneck,
            senders: Vec::new(),
            now: Time::ZERO,
            events: BinaryHeap::new(),
            count: 0,
            free_at: Time::ZERO,
            waiting: (0, 0),
            sent: 0,
            arrived: 0,
            dropped: 0,
        }
    }

    /// Adds a sender that begins after `start`, with a window of `segments`.
    pub(super) fn add(
        &mut self,
        control: Box<dyn CongestionControl>,
        delay: Duration,
        segments: u64,
        start: Duration,
    ) {
        let start = Time::ZERO + start;
        let window = Window {
            congestion: segments * SEGMENT,
            threshold: u64::MAX,
            segment: SEGMENT,
            floor: 2 * SEGMENT,
        };
        let next_loss = self.bottleneck.lose_every.map_or(Time::MAX, |every| start + every);
        let mut control = control;
        control.on_start(&window, Some(delay));
        self.senders.push(ToySender {
            control,
            delay,
            window,
            flight: 0,
            next: 0,
            acknowledged: 0,
            recover: None,
            reduced: 0,
            lost: 0,
            delivered: 0,
            delivered_at: start,
            smoothed: delay,
            least: Duration::MAX,
            next_loss,
            may_send: start,
            waking: true,
            signals: 0,
            limit: u64::MAX,
            sent: Vec::new(),
            trace: Vec::new(),
        });
        let sender = self.senders.len() - 1;
        self.schedule(start, ToyEvent::Wake(sender));
        self.schedule(start, ToyEvent::Look(sender));
    }

    /// Runs for `span`. Returns the rate of each sender in bit/s, and the mean queue that packets
    /// found, in segments.
    pub(super) fn run(&mut self, span: Duration) -> (Vec<f64>, f64) {
        let end = self.now + span;
        let before: Vec<u64> = self.senders.iter().map(|it| it.delivered).collect();
        self.waiting = (0, 0);
        while self.events.peek().is_some_and(|it| it.0.at <= end) {
            let Reverse(due) = self.events.pop().unwrap();
            self.now = due.at;
            match due.event {
                ToyEvent::Acked(packet) => self.acked(&packet),
                ToyEvent::Lost(packet) => self.lost(&packet),
                ToyEvent::Wake(sender) => {
                    self.senders[sender].waking = false;
                    self.send(sender);
                }
                ToyEvent::Look(sender) => self.look(sender),
            }
        }
        self.now = end;
        self.check();
        let rate = |(it, before): (&ToySender, u64)| {
            real(it.delivered - before) * 8.0 / span.as_secs_f64()
        };
        let rates = self.senders.iter().zip(before).map(rate).collect();
        let queue = real(self.waiting.0) / real(self.waiting.1.max(1)) / real(SEGMENT);
        (rates, queue)
    }

    /// Conservation: every sent packet arrived, was dropped, or is in flight.
    fn check(&self) {
        let flight: u64 = self.senders.iter().map(|it| it.flight).sum();
        assert_eq!(self.sent * SEGMENT, (self.arrived + self.dropped) * SEGMENT + flight);
    }

    fn schedule(&mut self, at: Time, event: ToyEvent) {
        self.count += 1;
        self.events.push(Reverse(Due { at, order: self.count, event }));
    }

    fn look(&mut self, sender: usize) {
        let it = &mut self.senders[sender];
        it.trace.push((self.now, real(it.window.congestion) / real(SEGMENT)));
        let next = self.now + it.delay;
        self.schedule(next, ToyEvent::Look(sender));
    }

    fn send(&mut self, sender: usize) {
        loop {
            let it = &mut self.senders[sender];
            if it.flight + SEGMENT > it.window.congestion.min(it.limit) {
                return;
            }
            if it.may_send > self.now {
                if !it.waking {
                    it.waking = true;
                    let at = it.may_send;
                    self.schedule(at, ToyEvent::Wake(sender));
                }
                return;
            }
            self.send_one(sender);
        }
    }

    fn send_one(&mut self, sender: usize) {
        let now = self.now;
        let it = &mut self.senders[sender];
        if it.flight == 0 {
            it.delivered_at = now;
        }
        if let Some(rate) = it.control.pacing_rate(&it.window) {
            it.may_send = it.may_send.max(now) + rate.time_for(Bytes(SEGMENT));
        }
        let serialization = self.bottleneck.rate.time_for(Bytes(SEGMENT));
        let queued = self.bottleneck.rate.bytes_in(self.free_at.since(now)).0;
        self.waiting = (self.waiting.0 + queued, self.waiting.1 + 1);
        let due = now >= it.next_loss;
        if due {
            it.next_loss += self.bottleneck.lose_every.unwrap();
        }
        let number = it.next / SEGMENT + 1;
        let chosen = due || self.bottleneck.lose_one_in.is_some_and(|n| number.is_multiple_of(n));
        let packet = Packet {
            sender,
            number: it.next,
            sent: now,
            delivered_before: it.delivered,
            delivered_at: it.delivered_at,
            first_sent: now,
            marked: self.bottleneck.mark_above.is_some_and(|most| queued > most),
        };
        it.flight += SEGMENT;
        it.next += SEGMENT;
        it.sent.push(now);
        self.sent += 1;
        let delay = it.delay;
        if chosen || queued + SEGMENT > self.bottleneck.buffer {
            let known = self.free_at.max(now) + delay + serialization * 3;
            self.schedule(known, ToyEvent::Lost(packet));
        } else {
            self.free_at = self.free_at.max(now) + serialization;
            self.schedule(self.free_at + delay, ToyEvent::Acked(packet));
        }
    }

    fn acked(&mut self, packet: &Packet) {
        let now = self.now;
        let it = &mut self.senders[packet.sender];
        let flight_before = it.flight;
        it.flight -= SEGMENT;
        it.delivered += SEGMENT;
        self.arrived += 1;
        it.acknowledged = it.acknowledged.max(packet.number + SEGMENT);
        let rtt = now.since(packet.sent);
        it.smoothed = (it.smoothed * 7 + rtt) / 8;
        it.least = it.least.min(rtt);
        if it.recover.is_some_and(|recover| it.acknowledged > recover) {
            it.recover = None;
        }
        let interval = now.since(packet.delivered_at).max(packet.sent.since(packet.first_sent));
        it.delivered_at = now;
        let bits = u128::from(it.delivered - packet.delivered_before) * 8 * 1_000_000_000;
        let bps = u64::try_from(bits / interval.as_nanos().max(1)).unwrap();
        let ack = Ack {
            now,
            bytes: SEGMENT,
            flight_before,
            flight: it.flight,
            acknowledged: it.acknowledged,
            sent: it.next,
            rtt: Some(rtt),
            smoothed_rtt: it.smoothed,
            least_rtt: it.least,
            echo: packet.marked,
            marked: if packet.marked { SEGMENT } else { 0 },
            may_grow: it.recover.is_none() && !packet.marked,
            in_recovery: it.recover.is_some(),
            lost: std::mem::take(&mut it.lost),
            delivery: Some(Delivery {
                rate: Rate::from_bps(bps),
                delivered: it.delivered,
                delivered_before: packet.delivered_before,
                application_limited: false,
            }),
        };
        it.control.on_ack(&mut it.window, &ack);
        if packet.marked && packet.number >= it.reduced {
            self.signal(packet.sender, Signal::Echo);
        }
        self.send(packet.sender);
    }

    fn lost(&mut self, packet: &Packet) {
        let it = &mut self.senders[packet.sender];
        it.flight -= SEGMENT;
        it.lost += SEGMENT;
        self.dropped += 1;
        if packet.number >= it.reduced {
            it.recover = Some(it.next);
            self.signal(packet.sender, Signal::Loss);
        }
        self.send(packet.sender);
    }

    fn signal(&mut self, sender: usize, signal: Signal) {
        let it = &mut self.senders[sender];
        it.reduced = it.next;
        it.signals += 1;
        let from = it.window.congestion;
        it.control.on_signal(self.now, &mut it.window, from, signal);
        if !it.control.keeps_window() {
            it.window.congestion = it.window.threshold;
        }
    }
}

/// The mean of a trace from time `start` on.
pub(super) fn mean(trace: &[(Time, f64)], start: Time) -> f64 {
    let late: Vec<f64> = trace.iter().filter(|it| it.0 >= start).map(|it| it.1).collect();
    late.iter().sum::<f64>() / f64::from(u32::try_from(late.len()).unwrap())
}
