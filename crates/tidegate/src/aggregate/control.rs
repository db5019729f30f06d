//! The congestion control of the *aggregate connection*, the QUIC connection to the peer gateway
//! that carries the TCP connections of all users. The congestion control is the weighted Vegas of
//! the core crate, driven by the events of quinn, the QUIC library.
//!
//! Source: `itcp`, section 3; RFC 9002, section 7 (the events of QUIC's congestion control).
//!
//! Differs: QUIC numbers packets instead of bytes. In place of acknowledged bytes, the core gets
//! the bytes of all packets that were acknowledged or lost, headers included. quinn paces packets
//! at 1.25 windows per round trip.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerFactory};
use quinn_proto::RttEstimator;
use serde::Deserialize;
use serde::de::value::{Error as ReadError, StrDeserializer};
use tidegate_core::tcp::congestion::{
    Ack, CongestionControl, CongestionSpec, Counting, Signal, Window,
};
use tidegate_core::{Factor, Time};

use super::queue::Queue;

/// Name of the core's congestion control in scenarios.
const CONTROL: &str = "weighted-vegas";

/// Initial window, and the smallest window after a reduction, in packets (RFC 9002, section 7.2).
const INITIAL: u64 = 10;
const LEAST: u64 = 2;

/// Bytes of a full packet that are not user payload: packet header (1 + 8 + 4), authentication tag
/// (16), and the header of a STREAM frame (1 + 4 + 4 + 2). Source: RFC 9000, sections 17.3.1 and
/// 19.8; RFC 9001, section 5.3.
const OVERHEAD: u64 = 40;

/// After this time without user bytes, the minimum round-trip time is measured again, because the
/// path may have changed meanwhile.
const IDLE: Duration = Duration::from_secs(1);

/// State that the gateway and the congestion control of its connections share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The instant that is time zero for the core.
    epoch: Instant,
    queue: Arc<Queue>,
    /// The weight of the aggregate connection, in millionths.
    weight: AtomicU64,
    window: AtomicU64,
    /// Bytes of packets in flight.
    in_flight: AtomicU64,
    /// After the last ACK, bytes were waiting because the congestion window was full.
    waits: AtomicBool,
    /// Total time in which bytes waited for the congestion window, in nanoseconds.
    busy: AtomicU64,
    /// Payload that arrived at the peer while bytes waited for the window, in bytes.
    sent_busy: AtomicU64,
    /// Payload that arrived at the peer, in bytes. `queue` corrects its estimate in both
    /// directions; this count never decreases.
    sent: AtomicU64,
}

/// The values of [`Shared`] at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Observed {
    pub(super) window: u64,
    /// Payload in flight, in bytes; an estimate.
    pub(super) in_flight: u64,
    pub(super) waits: bool,
    pub(super) busy: Duration,
    pub(super) sent_busy: u64,
    pub(super) sent: u64,
}

impl Shared {
    /// The state of a gateway whose user bytes `queue` counts.
    pub(super) fn new(queue: Arc<Queue>, weight: Factor, epoch: Instant) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            epoch,
            queue,
            weight: AtomicU64::new(weight.millionths()),
            window: zero(),
            in_flight: zero(),
            waits: AtomicBool::new(false),
            busy: zero(),
            sent_busy: zero(),
            sent: zero(),
        }
    }

    /// Sets the weight of the aggregate connection.
    pub(super) fn set_weight(&self, weight: Factor) {
        self.weight.store(weight.millionths(), Ordering::Relaxed);
    }

    /// The weight of the aggregate connection.
    pub(super) fn weight(&self) -> Factor {
        Factor::from_millionths(self.weight.load(Ordering::Relaxed))
    }

    /// The measurements of the congestion control.
    pub(super) fn observed(&self) -> Observed {
        let get = |it: &AtomicU64| it.load(Ordering::Relaxed);
        Observed {
            window: get(&self.window),
            in_flight: get(&self.in_flight),
            waits: self.waits.load(Ordering::Relaxed),
            busy: Duration::from_nanos(get(&self.busy)),
            sent_busy: get(&self.sent_busy),
            sent: get(&self.sent),
        }
    }

    fn time(&self, now: Instant) -> Time {
        Time::ZERO + now.saturating_duration_since(self.epoch)
    }

    fn ended(&self, batch: &Batch, payload: u64, interval: Duration, in_flight: u64) {
        if batch.is_limited_by_users {
            self.queue.drained(in_flight);
        } else {
            self.queue.arrived(payload);
            let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
            self.busy.fetch_add(nanos, Ordering::Relaxed);
            self.sent_busy.fetch_add(payload, Ordering::Relaxed);
        }
        self.in_flight.store(in_flight, Ordering::Relaxed);
        self.waits.store(!batch.is_limited_by_users, Ordering::Relaxed);
        let settled = self.queue.written().saturating_sub(self.queue.held());
        self.sent.fetch_max(settled, Ordering::Relaxed);
    }
}

/// Creates the congestion control of each aggregate connection.
#[derive(Debug)]
pub(super) struct Factory(pub(super) Arc<Shared>);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(QuinnControl::new(self.0.clone(), now, current_mtu.into()))
    }
}

/// The packets that one ACK frame acknowledges.
#[derive(Debug, Default)]
struct Batch {
    bytes: u64,
    /// The time at which the newest of these packets was sent.
    newest: Option<Instant>,
    is_limited_by_users: bool,
}

/// The core's congestion control behind quinn's interface.
pub(super) struct QuinnControl {
    shared: Arc<Shared>,
    /// A mutex, because quinn shares the controller between threads and the core's control is not
    /// thread-safe.
    control: Mutex<Box<dyn CongestionControl>>,
    weight: Factor,
    window: Window,
    /// Bytes of packets that were acknowledged or lost. `lost` counts only the bytes lost since the
    /// last ACK frame.
    settled: u64,
    lost: u64,
    in_flight: u64,
    batch: Batch,
    rtts: Option<(Duration, Duration)>,
    /// Time of the last reduction of the window. Losses of packets sent before this time cause no
    /// further reduction (RFC 9002, section 7.3.2).
    recovery: Option<Instant>,
    /// Time of the last ACK frame. `last_data` is the last time at which the gateway held user
    /// bytes.
    last: Instant,
    last_data: Instant,
}

impl QuinnControl {
    fn new(shared: Arc<Shared>, now: Instant, mtu: u64) -> Self {
        let window = Window {
            congestion: INITIAL * mtu,
            threshold: u64::MAX,
            segment: mtu,
            floor: LEAST * mtu,
        };
        let mut control = core_control();
        control.on_start(&window, None);
        let weight = shared.weight();
        control.set_weight(weight);
        Self {
            shared,
            control: Mutex::new(control),
            weight,
            window,
            settled: 0,
            lost: 0,
            in_flight: 0,
            batch: Batch::default(),
            rtts: None,
            recovery: None,
            last: now,
            last_data: now,
        }
    }

    fn control(&mut self) -> &mut Box<dyn CongestionControl> {
        self.control.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user payload in packets of `bytes` bytes, estimated.
    fn payload(&self, bytes: u64) -> u64 {
        let full = self.window.segment.saturating_sub(OVERHEAD);
        let product = u128::from(bytes) * u128::from(full);
        u64::try_from(product / u128::from(self.window.segment.max(1))).unwrap_or(u64::MAX)
    }

    fn acknowledged(&mut self, now: Instant, in_flight: u64) {
        let batch = std::mem::take(&mut self.batch);
        let payload = self.payload(batch.bytes);
        let interval = now.saturating_duration_since(self.last);
        self.shared.ended(&batch, payload, interval, self.payload(in_flight));
        self.last = now;
        let newest = batch.newest;
        let rtt = newest.map(|sent| now.saturating_duration_since(sent));
        let in_recovery = self.recovery.is_some_and(|end| newest.is_some_and(|sent| sent <= end));
        let (smoothed_rtt, least_rtt) = self.rtts.unwrap_or_default();
        self.settled = self.settled.saturating_add(batch.bytes);
        let ack = Ack {
            now: self.shared.time(now),
            bytes: batch.bytes,
            flight_before: self.in_flight,
            flight: in_flight,
            acknowledged: self.settled,
            sent: self.settled.saturating_add(in_flight),
            rtt,
            smoothed_rtt,
            least_rtt,
            echo: false,
            marked: 0,
            may_grow: !batch.is_limited_by_users && !in_recovery,
            in_recovery,
            lost: std::mem::take(&mut self.lost),
            delivery: None,
        };
        self.in_flight = in_flight;
        self.follow_weight();
        let mut window = self.window;
        self.control().on_ack(&mut window, &ack);
        self.set_window(window);
    }

    fn follow_weight(&mut self) {
        let weight = self.shared.weight();
        if weight != self.weight {
            self.weight = weight;
            self.control().set_weight(weight);
        }
    }

    fn set_window(&mut self, window: Window) {
        self.window = window;
        self.window.congestion = window.congestion.max(window.floor);
        self.shared.window.store(self.window.congestion, Ordering::Relaxed);
    }

    /// After an idle period, lets the core measure the path again.
    fn resume(&mut self, now: Instant) {
        if self.shared.queue.held() == 0 {
            return;
        }
        let idle = now.saturating_duration_since(self.last_data);
        self.last_data = now;
        if idle > IDLE {
            let (time, mut window) = (self.shared.time(now), self.window);
            self.control().on_idle(time, &mut window, idle);
            self.set_window(window);
        }
    }
}

/// Creates the core's congestion control named [`CONTROL`].
fn core_control() -> Box<dyn CongestionControl> {
    let name: StrDeserializer<'_, ReadError> = StrDeserializer::new(CONTROL);
    let spec = CongestionSpec::deserialize(name).expect("the core has a control of this name");
    spec.build(Counting::LINUX)
}

impl Controller for QuinnControl {
    fn on_sent(&mut self, now: Instant, _bytes: u64, _last_packet_number: u64) {
        self.resume(now);
    }

    fn on_ack(
        &mut self,
        _now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.batch.bytes = self.batch.bytes.saturating_add(bytes);
        self.batch.newest = self.batch.newest.max(Some(sent));
        self.batch.is_limited_by_users = app_limited;
        self.rtts = Some((rtt.get(), rtt.min()));
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        self.batch.is_limited_by_users = app_limited;
        self.acknowledged(now, in_flight);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.settled = self.settled.saturating_add(lost_bytes);
        self.lost = self.lost.saturating_add(lost_bytes);
        if self.recovery.is_some_and(|end| sent <= end) && !is_persistent_congestion {
            return;
        }
        let signal = match (is_persistent_congestion, lost_bytes) {
            (true, _) => Signal::Timeout { again: false },
            (false, 0) => Signal::Echo,
            (false, _) => Signal::Loss,
        };
        self.recovery = Some(now);
        let (time, mut window) = (self.shared.time(now), self.window);
        // A reduction is computed from the current window, not from the bytes in flight (RFC 9002,
        // section 7.3.2).
        let from = window.congestion;
        self.control().on_signal(time, &mut window, from, signal);
        window.congestion = match signal {
            Signal::Timeout { .. } => window.floor,
            Signal::Loss | Signal::Echo => window.threshold.min(window.congestion),
        };
        self.set_window(window);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        let mtu = u64::from(new_mtu);
        self.window.segment = mtu;
        self.window.floor = LEAST * mtu;
        self.set_window(self.window);
    }

    fn window(&self) -> u64 {
        self.window.congestion
    }

    /// quinn clones the controller when the path changes. The clone measures the new path from the
    /// start.
    fn clone_box(&self) -> Box<dyn Controller> {
        let mut copy = Self::new(self.shared.clone(), self.last, self.window.segment);
        copy.window.congestion = self.window.congestion;
        Box::new(copy)
    }

    fn initial_window(&self) -> u64 {
        INITIAL * self.window.segment
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1_200;
    const BASE: Duration = Duration::from_millis(100);

    fn control(weight: u32) -> (QuinnControl, Arc<Shared>, Instant) {
        let now = tokio::time::Instant::now().into_std();
        let queue = Arc::new(Queue::new(1 << 30));
        let shared = Arc::new(Shared::new(queue, Factor::whole(weight), now));
        (QuinnControl::new(shared.clone(), now, MTU), shared, now)
    }

    /// An ACK for a packet that was sent one round-trip time ago.
    fn ack(control: &mut QuinnControl, now: Instant, rtt: Duration, in_flight: u64, limited: bool) {
        let newest = Some(now.checked_sub(rtt).unwrap());
        control.batch = Batch { bytes: MTU, newest, is_limited_by_users: limited };
        control.rtts = Some((rtt, BASE));
        control.acknowledged(now, in_flight);
    }

    /// Simulates one round trip over a bottleneck. The bottleneck carries `capacity` packets per
    /// round trip without a queue. Returns the time at its end.
    fn round(control: &mut QuinnControl, start: Instant, capacity: u64) -> Instant {
        let packets = control.window() / MTU;
        let queued = u32::try_from(packets.saturating_sub(capacity)).unwrap();
        let rtt = BASE + BASE * queued / u32::try_from(capacity).unwrap();
        let end = start + rtt;
        for _ in 0..packets {
            let in_flight = control.window().saturating_sub(MTU);
            ack(control, end, rtt, in_flight, false);
        }
        end
    }

    /// Number of packets that the control keeps in the bottleneck's queue after 200 round trips.
    fn queued(control: &mut QuinnControl, mut now: Instant) -> (u64, Instant) {
        for _ in 0..200 {
            now = round(control, now, 50);
        }
        ((control.window() / MTU).saturating_sub(50), now)
    }

    /// Catches: a weight that is ignored, or used only for new connections; a window counted in
    /// bytes where the core expects packets.
    #[test]
    fn the_control_keeps_two_packets_in_the_queue_for_each_unit_of_weight() {
        let (mut it, shared, now) = control(1);
        let (one, now) = queued(&mut it, now);
        shared.set_weight(Factor::whole(5));
        let (five, now) = queued(&mut it, now);
        shared.set_weight(Factor::whole(2));
        let (two, _) = queued(&mut it, now);
        assert!((1..=3).contains(&one) && (9..=11).contains(&five), "{one} {five}");
        assert!((3..=5).contains(&two), "{two}");
        assert_eq!(shared.observed().window, it.window());
    }

    /// Catches: one reduction for each packet lost in a round trip; no reduction; a congestion mark
    /// (ECN) treated as a timeout.
    #[test]
    fn all_losses_of_a_round_trip_cause_one_reduction() {
        let (mut it, _, start) = control(1);
        let (_, now) = queued(&mut it, start);
        let before = it.window();
        let sent = now.checked_sub(BASE).unwrap();
        it.on_congestion_event(now, sent, false, MTU);
        let after = it.window();
        assert!(after < before && after >= before / 4, "{before} {after}");
        it.on_congestion_event(now + BASE / 2, sent, false, MTU);
        assert_eq!(it.window(), after);
        it.on_congestion_event(now + BASE * 2, now + BASE, false, 0);
        assert!(it.window() < after);
        it.on_congestion_event(now + BASE * 4, now + BASE * 3, true, MTU);
        assert_eq!(it.window(), LEAST * MTU);
    }

    /// Catches: time counted as busy although no bytes waited; an estimate of the queue that is
    /// never corrected.
    #[test]
    fn only_time_with_waiting_bytes_is_busy_and_otherwise_the_queue_equals_the_bytes_in_flight() {
        let (mut it, shared, now) = control(1);
        shared_queue(&shared).put(100 * MTU);
        let later = now + BASE;
        ack(&mut it, later, BASE, 9 * MTU, false);
        let seen = shared.observed();
        assert_eq!((seen.busy, seen.waits), (BASE, true));
        assert_eq!(seen.sent_busy, MTU - OVERHEAD);
        assert_eq!(shared_queue(&shared).held(), 100 * MTU - seen.sent_busy);
        ack(&mut it, later + BASE, BASE, 2 * MTU, true);
        let seen = shared.observed();
        assert_eq!((seen.busy, seen.waits), (BASE, false));
        assert_eq!(shared_queue(&shared).held(), 2 * (MTU - OVERHEAD));
        assert_eq!(seen.sent, 100 * MTU - 2 * (MTU - OVERHEAD));
    }

    fn shared_queue(shared: &Shared) -> &Queue {
        &shared.queue
    }
}
