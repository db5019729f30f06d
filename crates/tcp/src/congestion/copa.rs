//! Copa: a target number of packets in the queue, measured by the delay that they add.
//!
//! Law: the window moves towards `1 / delta` segments in the queue. It moves faster the longer it
//! has moved in one direction (`law.rs`). The pacing rate is one window per standing round-trip
//! time, the least one of the last half round trip (`path.rs`).
//!
//! Source: Copa (NSDI 2018), section 2.1.
//!
//! Differs:
//! - This Copa does not compete with cross traffic that fills the queue (section 2.2).
//! - The pacing rate is one window per standing round-trip time, not two windows. A segment that is
//!   sent earlier would wait on the path.
//! - A loss sets the window to half of the bytes in flight. The window does not change until the
//!   loss is repaired. Routers may drop packets before the queue that Copa measures is long. A
//!   timeout starts slow start.
//! - If segments are further apart than `SELDOM`, the target is at least two segments. A receiver
//!   may delay the ACK of each such segment. With a target of one segment, this delay looks like a
//!   queue of the target length, and keeps the window small.
//!
//! Trunks with epochs use the same law, with other measurements.

mod arrivals;
mod extreme;
mod law;
mod path;

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_base::{Factor, Rate, Time, parameters};

use super::{Ack, CongestionControl, Counting, Signal, Window};

pub use arrivals::Arrived;
pub use law::{Acknowledged, Law, Packets};
pub use path::Path;

parameters! {
    /// Parameters of `copa`.
    pub Config {
        /// Target of segments in the queue, 1 / delta.
        target: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);
        /// Window after a loss or an ECN-Echo, as a part of the bytes in flight.
        after_loss: Factor = Factor::from_millionths(500_000), in ..=Factor::ONE;
    }
}

impl Config {
    pub(super) fn build(&self, _: Counting) -> Copa {
        Copa {
            config: self.clone(),
            path: Path::default(),
            law: None,
            slow_start: true,
            heard: None,
        }
    }
}

pub(super) struct Copa {
    config: Config,
    path: Path,
    /// None before the first round-trip time, and after a timeout.
    law: Option<Law>,
    /// The next law begins with slow start.
    slow_start: bool,
    /// Time of the last ACK.
    heard: Option<Time>,
}

impl CongestionControl for Copa {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        let span = self.heard.replace(ack.now).map(|at| ack.now.since(at));
        let Some(rtt) = ack.rtt else { return };
        // A longer span is a pause of the sender, in which no data could arrive.
        let pause = self.path.srtt().map_or(Duration::MAX, |srtt| 2 * srtt);
        let arrived = span.filter(|span| *span <= pause);
        let arrived = arrived.map(|span| Arrived { bytes: ack.bytes, span });
        self.path.on_boundary(ack.now, rtt, arrived, MEMORY);
        if ack.in_recovery && !ack.may_grow {
            return;
        }
        // One segment has been acknowledged, and pacing may hold the next.
        let near = (window.congestion / 8).max(2 * window.segment);
        let full = ack.may_grow && ack.flight_before + near >= window.congestion;
        let wait = self.wait(window);
        let law = self.law(ack.now, window);
        law.0.wait_for(wait);
        law.0.on_boundary(ack.now, &Acknowledged { rtt, bytes: ack.bytes, full }, law.1);
        window.congestion = law.0.window();
        window.threshold = if law.0.in_slow_start() { u64::MAX } else { window.congestion };
    }

    fn on_signal(&mut self, _: Time, window: &mut Window, flight: u64, signal: Signal) {
        if let Signal::Timeout { .. } = signal {
            (self.law, self.slow_start) = (None, true);
            window.congestion = window.floor;
        } else {
            window.congestion = self.config.after_loss.of(flight).max(window.floor);
        }
        window.threshold = window.congestion;
    }

    fn pacing_rate(&self, window: &Window) -> Option<Rate> {
        let bits = u128::from(window.congestion) * 8_000_000_000;
        let bps = bits.checked_div(self.path.standing().as_nanos())?;
        Some(Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
    }

    fn keeps_window(&self) -> bool {
        true
    }
}

impl Copa {
    /// Target of segments in the queue.
    ///
    /// If each ACK waits for the receiver's timer `d`, the queue seems to be `d` long. The law then
    /// finds a window that sends the target number of segments in each `d`. If the target is at
    /// least two segments, the next segment arrives before the timer expires.
    fn wait(&self, window: &Window) -> u64 {
        let target = u64::from(self.config.target.get());
        // segment / rate > SELDOM, where the rate is window / standing
        let span = u128::from(window.segment) * self.path.standing().as_nanos();
        let seldom = span > u128::from(window.congestion) * SELDOM.as_nanos();
        if seldom { target.max(FOR_ONE_ACK) } else { target }
    }

    /// The law and the path. A new law begins if the window is not the one that the law has set.
    fn law(&mut self, now: Time, window: &Window) -> (&mut Law, &Path) {
        let law = self.law.take().filter(|it| it.window() == window.congestion);
        let packets = Packets { bytes: window.segment, wait: self.wait(window) };
        let slow_start = std::mem::take(&mut self.slow_start);
        let begin = || Law::new(now, packets, window.congestion, slow_start);
        (self.law.insert(law.unwrap_or_else(begin)), &self.path)
    }
}

/// Segments further apart than this may each wait for the receiver's timer: half of the shortest delay of an ACK
/// (Linux 6.12, `TCP_DELACK_MIN`, 40 ms).
const SELDOM: Duration = Duration::from_millis(20);

/// Number of segments that one ACK acknowledges if the receiver delays ACKs (RFC 5681, section
/// 4.2).
const FOR_ONE_ACK: u64 = 2;

/// Time for which the least round-trip time is remembered (Copa, section 2.1).
const MEMORY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use tidegate_base::Bytes;

    use super::super::testing::{SEGMENT, acknowledged, window};
    use super::super::toy_network::{Bottleneck, ToyNetwork};
    use super::*;

    const BASE: Duration = Duration::from_millis(50);

    fn build(target: u32) -> Copa {
        let target = NonZeroU32::new(target).unwrap();
        Config { target, ..Config::default() }.build(Counting::RFC)
    }

    /// Rates and mean queue in segments of `count` senders at 24 Mbit/s, after 20 s.
    fn run(count: u64, target: u32) -> (Vec<f64>, f64) {
        let mut pipe = ToyNetwork::new(Bottleneck::new(Rate::from_mbps(24), 1_000));
        for n in 0..count {
            pipe.add(Box::new(build(target)), BASE, 10, Duration::from_secs(n));
        }
        pipe.run(Duration::from_secs(20));
        pipe.run(Duration::from_secs(20))
    }

    /// Catches: a target without effect; a doubled pacing rate; a window that stays as large as in
    /// slow start.
    #[test]
    fn copa_fills_the_path_and_keeps_its_queue_short() {
        for target in [1, 2, 4] {
            let (rates, queue) = run(1, target);
            let wait = f64::from(target);
            assert!(rates[0] > 0.95 * 24e6, "{target}: {rates:?}");
            assert!(queue < 4.0 * wait, "{target}: {queue}");
        }
    }

    /// Catches: a law that always begins with slow start, because the threshold is ignored.
    #[test]
    fn two_share_the_path() {
        let (rates, queue) = run(2, 2);
        assert!(rates.iter().sum::<f64>() > 0.95 * 24e6, "{rates:?}");
        assert!(rates[0] < 2.0 * rates[1] && rates[1] < 2.0 * rates[0], "{rates:?}");
        assert!(queue < 20.0, "{queue}");
    }

    /// An ACK of a segment at `ms`, in a full window.
    fn ack(ms: u64, rtt: u64) -> Ack {
        let now = Time::from_millis(ms);
        let rtt = Some(Duration::from_millis(rtt));
        Ack { now, rtt, flight_before: 1 << 20, ..acknowledged(SEGMENT) }
    }

    /// Catches: growth while losses are repaired; slow start after a loss; no slow start after a
    /// timeout.
    #[test]
    fn a_loss_halves_the_window_until_it_is_repaired_and_a_timeout_starts_slow_start() {
        let (mut control, mut window) = (build(2), window(100, u64::MAX));
        control.on_ack(&mut window, &ack(50, 50));
        assert_eq!(window.congestion, 101 * SEGMENT);
        control.on_signal(Time::ZERO, &mut window, 100 * SEGMENT, Signal::Loss);
        assert_eq!(window.congestion, 50 * SEGMENT);
        let repairing = Ack { in_recovery: true, may_grow: false, ..ack(60, 50) };
        control.on_ack(&mut window, &repairing);
        assert_eq!(window.congestion, 50 * SEGMENT);
        control.on_ack(&mut window, &ack(70, 50));
        assert!(window.congestion < 51 * SEGMENT && !window.in_slow_start());
        control.on_signal(Time::ZERO, &mut window, 0, Signal::Timeout { again: false });
        assert_eq!(window.congestion, window.floor);
        control.on_ack(&mut window, &ack(80, 50));
        control.on_ack(&mut window, &ack(90, 50));
        assert_eq!(window.congestion, window.floor + 2 * SEGMENT);
    }

    /// Catches: a pause that counts as time in which few bytes arrived.
    #[test]
    fn a_pause_does_not_make_the_path_slow() {
        let (mut control, mut window) = (build(2), window(100, 100 * SEGMENT));
        control.slow_start = false;
        for ms in 1..=200 {
            control.on_ack(&mut window, &ack(50 + ms / 2, 50));
        }
        let before = window.congestion;
        control.on_ack(&mut window, &ack(5_200, 60));
        assert!(window.congestion > before / 2, "{before} to {}", window.congestion);
    }

    /// Milliseconds until the window is 40 segments, after `seldom` ms with a segment every
    /// `delay + 60` ms. The path has an RTT of 50 ms. The receiver answers every second segment, and
    /// a single segment after `delay` ms.
    fn grown_after(target: u32, delay: u64, seldom: u64) -> Option<u64> {
        let (mut control, mut window) = (build(target), window(10, u64::MAX));
        let mut receiver = Delaying { delay, ..Delaying::default() };
        let (mut flight, mut release) = (0, Time::ZERO);
        let until = 1_000 + seldom;
        for ms in 0..20_000 {
            let now = Time::from_millis(ms);
            for (bytes, sent) in receiver.acknowledged(ms) {
                let rtt = Some(Duration::from_millis(ms - sent));
                let ack = Ack { now, rtt, flight_before: flight, ..acknowledged(bytes) };
                flight -= bytes;
                control.on_ack(&mut window, &ack);
            }
            if ms >= until && window.congestion >= 40 * SEGMENT {
                return Some(ms - until);
            }
            let due =
                if (1_000..until).contains(&ms) { ms % (delay + 60) == 0 } else { now >= release };
            if due && flight + SEGMENT <= window.congestion {
                flight += SEGMENT;
                receiver.sent(ms);
                let rate = control.pacing_rate(&window).unwrap_or(Rate::from_mbps(24));
                // The clock has steps of a millisecond. A late send does not delay the next one.
                let late = release.max(Time::from_millis(ms.saturating_sub(1)));
                release = late + rate.time_for(Bytes(SEGMENT));
            }
        }
        None
    }

    /// A receiver at a distance of 25 ms, which delays ACKs.
    #[derive(Default)]
    struct Delaying {
        delay: u64,
        /// Send times of the segments in flight.
        coming: Vec<u64>,
        /// Send times of the received segments whose ACK is delayed.
        waiting: Vec<u64>,
        /// ACKs in flight: time of arrival, bytes, and the send time of the newest segment.
        acks: Vec<(u64, u64, u64)>,
    }

    impl Delaying {
        fn sent(&mut self, ms: u64) {
            self.coming.push(ms);
        }

        fn acknowledged(&mut self, ms: u64) -> Vec<(u64, u64)> {
            let (here, coming) = self.coming.iter().partition(|&&sent| sent + 25 <= ms);
            self.coming = coming;
            let here: Vec<u64> = here;
            for sent in here {
                self.waiting.push(sent);
                self.answer(ms, self.waiting.len() == 2);
            }
            let old = self.waiting.first().is_some_and(|&sent| sent + 25 + self.delay <= ms);
            self.answer(ms, old);
            let (due, later): (Vec<_>, _) = self.acks.iter().partition(|(at, ..)| *at <= ms);
            self.acks = later;
            due.into_iter().map(|(_, bytes, sent)| (bytes, sent)).collect()
        }

        fn answer(&mut self, ms: u64, now: bool) {
            if let Some(&newest) = self.waiting.last().filter(|_| now) {
                let bytes = self.waiting.iter().map(|_| SEGMENT).sum();
                self.acks.push((ms + 25, bytes, newest));
                self.waiting.clear();
            }
        }
    }

    /// Catches: a target of one segment while the receiver delays each ACK. The window then needs 9
    /// s in place of 0.6 s.
    #[test]
    fn delayed_acks_for_single_segments_do_not_keep_the_window_small() {
        for target in [1, 2] {
            for (delay, seldom) in [(40, 1_000), (40, 1_200), (40, 1_700), (100, 1_000)] {
                let grown = grown_after(target, delay, seldom);
                assert!(grown.is_some_and(|ms| ms < 1_000), "{target} {delay} {seldom} {grown:?}");
            }
        }
    }

    /// Catches: a pacing rate computed from a round-trip time that contains the queue of a burst.
    #[test]
    fn the_pacing_rate_is_one_window_per_standing_round_trip_time() {
        let (mut control, mut window) = (build(2), window(10, u64::MAX));
        assert_eq!(control.pacing_rate(&window), None);
        control.on_ack(&mut window, &ack(50, 50));
        control.on_ack(&mut window, &ack(51, 90));
        let bits = window.congestion * 8 * 20;
        assert_eq!(control.pacing_rate(&window), Some(Rate::from_bps(bits)));
    }
}
