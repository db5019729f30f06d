//! Copa: so few packets in the queue, found by the delay that they add.
//!
//! Law: the window moves towards `1 / delta` segments in the queue, faster the longer it has moved the same
//! way ([`law`]); it is paced at the window in a standing round-trip time ([`path`]).
//!
//! Source: Copa (NSDI 2018), section 2.1.
//! Differs: no competition with others who fill the queue (section 2.2). Paced at once, not twice, the window
//! in a standing round-trip time: what is sent ahead of it would wait on the path. A loss leaves half of what is in
//! flight, and the window stays so until what was lost is repaired: what a router tells by losses is obeyed, as
//! queues may be shorter than what is seen of them. A timeout begins anew. Trunks with epochs go by the
//! same [`law`].

mod arrivals;
mod extreme;
mod law;
mod path;

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;

use super::{Ack, CongestionControl, Counting, Signal, Window, part};
use crate::{Factor, Rate, Time};

pub(crate) use arrivals::Arrived;
pub(crate) use law::{Acknowledged, Law, Packets};
pub(crate) use path::{Path, nanos};

/// How much may be queued, and what a loss leaves.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Segments that are meant to wait, 1 / delta: 2.
    pub target: NonZeroU32,
    /// What is left of what is in flight after a loss or an echo: 0.5.
    #[serde(deserialize_with = "part")]
    pub after_loss: Factor,
}

impl Default for Config {
    fn default() -> Self {
        let target = NonZeroU32::MIN.saturating_add(1);
        Self { target, after_loss: Factor::from_millionths(500_000) }
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
    /// Whether the next law begins with slow start.
    slow_start: bool,
    /// When an ACK came last.
    heard: Option<Time>,
}

impl CongestionControl for Copa {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        let span = self.heard.replace(ack.now).map(|at| ack.now.since(at));
        let Some(rtt) = ack.rtt else { return };
        // Longer ones are pauses, in which nothing was sent that could arrive.
        let pause = self.path.srtt().map_or(Duration::MAX, |srtt| 2 * srtt);
        let arrived = span.filter(|span| *span <= pause);
        let arrived = arrived.map(|span| Arrived { bytes: ack.bytes, span });
        self.path.on_boundary(ack.now, rtt, arrived, MEMORY);
        if ack.in_recovery && !ack.may_grow {
            return;
        }
        // One segment has left, and the next may be due to its pace.
        let near = (window.congestion / 8).max(2 * window.segment);
        let full = ack.may_grow && ack.flight_before + near >= window.congestion;
        let law = self.law(ack.now, window);
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
    /// The law of this window, a new one where it is not what the law had made of it; and the path.
    fn law(&mut self, now: Time, window: &Window) -> (&mut Law, &Path) {
        let law = self.law.take().filter(|it| it.window() == window.congestion);
        let packets = Packets { bytes: window.segment, wait: self.config.target.get().into() };
        let slow_start = std::mem::take(&mut self.slow_start);
        let anew = || Law::new(now, packets, window.congestion, slow_start);
        (self.law.insert(law.unwrap_or_else(anew)), &self.path)
    }
}

/// How long the least round-trip time is remembered (Copa, section 2.1).
const MEMORY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::super::pipe::{Bottleneck, Pipe};
    use super::super::testing::{SEGMENT, acknowledged, window};
    use super::*;

    const BASE: Duration = Duration::from_millis(50);

    fn build(target: u32) -> Copa {
        let target = NonZeroU32::new(target).unwrap();
        Config { target, ..Config::default() }.build(Counting::RFC)
    }

    /// Rates and the mean queue in segments of so many senders on 24 Mbit/s, after 20 s.
    fn run(count: u64, target: u32) -> (Vec<f64>, f64) {
        let mut pipe = Pipe::new(Bottleneck::new(Rate::from_mbps(24), 1_000));
        for n in 0..count {
            pipe.add(Box::new(build(target)), BASE, 10, Duration::from_secs(n));
        }
        pipe.run(Duration::from_secs(20));
        pipe.run(Duration::from_secs(20))
    }

    /// Kills: a target that is not heeded; twice the pace; the window of slow start kept.
    #[test]
    fn it_fills_the_path_and_keeps_its_queue_short() {
        for target in [1, 2, 4] {
            let (rates, queue) = run(1, target);
            let wait = f64::from(target);
            assert!(rates[0] > 0.95 * 24e6, "{target}: {rates:?}");
            assert!(queue < 4.0 * wait, "{target}: {queue}");
        }
    }

    /// Kills: no threshold, so that a new law begins with slow start.
    #[test]
    fn two_share_the_path() {
        let (rates, queue) = run(2, 2);
        assert!(rates.iter().sum::<f64>() > 0.95 * 24e6, "{rates:?}");
        assert!(rates[0] < 2.0 * rates[1] && rates[1] < 2.0 * rates[0], "{rates:?}");
        assert!(queue < 20.0, "{queue}");
    }

    /// An ACK of a segment at `ms`, of a window that is full.
    fn ack(ms: u64, rtt: u64) -> Ack {
        let now = Time::from_millis(ms);
        let rtt = Some(Duration::from_millis(rtt));
        Ack { now, rtt, flight_before: 1 << 20, ..acknowledged(SEGMENT) }
    }

    /// Kills: growth while losses are repaired; slow start after a loss, none after a timeout.
    #[test]
    fn a_loss_leaves_half_until_it_is_repaired_and_a_timeout_begins_anew() {
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

    /// Kills: a pause counted as time in which little arrived.
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

    /// Kills: a pace by the round-trip time with the queue of a burst in it.
    #[test]
    fn it_is_paced_at_its_window_in_a_standing_round_trip_time() {
        let (mut control, mut window) = (build(2), window(10, u64::MAX));
        assert_eq!(control.pacing_rate(&window), None);
        control.on_ack(&mut window, &ack(50, 50));
        control.on_ack(&mut window, &ack(51, 90));
        let bits = window.congestion * 8 * 20;
        assert_eq!(control.pacing_rate(&window), Some(Rate::from_bps(bits)));
    }
}
