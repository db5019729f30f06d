//! Loads on a link with classes, and the arrivals that they cause.

use std::time::Duration;

use tidegate_e2e::{Process, Testbed, pause};

use super::LINK;
use crate::live::{Forwarder, ourselves, ready};
use crate::load::{FRAME, PORT};
use crate::number::real;

/// The load of one leaf class.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// Full-size frames per second.
    pub(super) per_second: u32,
    /// Start of the load.
    pub(super) start: Duration,
    pub(super) lasts: Duration,
}

impl Load {
    /// A load above the rate of the link, during the whole measurement.
    pub(super) const ALL: Self = Self::of(LINK * 12 / 10);

    /// A load of this many Mbit/s, during the whole measurement.
    pub(super) const fn of(mbps: u32) -> Self {
        let per_second = mbps * 1_000_000 / 8 / FRAME;
        Self { per_second, start: Duration::ZERO, lasts: Duration::from_millis(5_500) }
    }
}

/// An arrived frame. Times are in milliseconds.
#[derive(Clone, Copy)]
struct FrameArrival {
    leaf: usize,
    at: f64,
    /// Time since its departure from the sender.
    delay: f64,
}

/// All arrivals, in order of time.
pub(super) struct Played(Vec<FrameArrival>);

/// The evaluated period in milliseconds. When it begins, all queues are full; when it ends, all
/// senders still send.
const STEADY: (f64, f64) = (1_000.0, 5_000.0);

/// Sends `loads` through `_forwarder`, one to each leaf class, and records the arrivals.
pub(super) fn play(
    bed: &Testbed,
    _forwarder: &Forwarder<'_>,
    loads: &[Load],
) -> anyhow::Result<Played> {
    let receiver = ready(&bed.wan, &["arrivals", &loads.len().to_string()])?;
    let mut loads: Vec<_> = (PORT..).zip(loads).collect();
    loads.sort_by_key(|(_, load)| load.start);
    let (mut now, mut senders) = (Duration::ZERO, Vec::new());
    for (port, load) in loads {
        pause(load.start.saturating_sub(now));
        now = load.start;
        let (to, per_second) = (format!("{}:{port}", bed.wan.v4), load.per_second.to_string());
        let (burst, lasts) =
            ((load.per_second / 400).max(1).to_string(), load.lasts.as_millis().to_string());
        let words = ["send", &to, &per_second, &burst, &lasts, "1"];
        senders.push(Process::start(&mut ourselves(&bed.lan, &words)?));
    }
    let finished = receiver.finish(Duration::from_secs(30));
    let played = Played::read(&finished.output);
    anyhow::ensure!(played.0.len() > 1_000, "only {} packets arrived", played.0.len());
    Ok(played)
}

impl Played {
    /// Parses lines with a leaf class, a time and a delay in nanoseconds. Times become relative to
    /// the first arrival.
    fn read(lines: &str) -> Self {
        let number = |word: &str| word.parse::<i64>().ok();
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let leaf = words.next()?.parse::<usize>().ok()?;
            Some((leaf, number(words.next()?)?, number(words.next()?)?))
        };
        let mut all: Vec<_> = lines.lines().filter_map(line).collect();
        all.sort_by_key(|(_, at, _)| *at);
        let first = all.first().map_or(0, |(_, at, _)| *at);
        let millis = |nanos: i64| real(u64::try_from(nanos).unwrap_or(0)) / 1e6;
        let arrival =
            |(leaf, at, delay)| FrameArrival { leaf, at: millis(at - first), delay: millis(delay) };
        Self(all.into_iter().map(arrival).collect())
    }

    fn of(&self, leaf: usize) -> impl Iterator<Item = &FrameArrival> {
        self.0.iter().filter(move |it| it.leaf == leaf)
    }

    /// Total rate in Mbit/s, in a period, of the leaf classes for which `counts` returns `true`.
    fn rate(&self, counts: impl Fn(usize) -> bool, from: f64, to: f64) -> f64 {
        let is_counted = |it: &&FrameArrival| counts(it.leaf) && (from..to).contains(&it.at);
        let frames = self.0.iter().filter(is_counted).map(|_| FRAME_KBIT);
        frames.sum::<f64>() / (to - from)
    }

    /// Deviation in percent of the rate of `leaves` from the expected `part` Mbit/s, in the
    /// evaluated period.
    pub(super) fn off(&self, leaves: &[usize], part: f64) -> f64 {
        (self.rate(|it| leaves.contains(&it), STEADY.0, STEADY.1) / part - 1.0).abs() * 100.0
    }

    /// The largest deviation in percent of the rate of `leaf` from the expected `part` Mbit/s, over
    /// all intervals of one second in the evaluated period.
    pub(super) fn off_in_a_second(&self, leaf: usize, part: f64) -> f64 {
        let starts = (0..30).map(|step| STEADY.0 + 100.0 * f64::from(step));
        let off = starts.map(|from| self.rate(|it| it == leaf, from, from + 1_000.0) / part - 1.0);
        off.map(|off| off.abs() * 100.0).fold(0.0, f64::max)
    }

    /// The largest lag in milliseconds of a frame of `leaf`. The lag compares its arrival with a
    /// constant rate of `mbps` from the first departure on.
    pub(super) fn lag(&self, leaf: usize, mbps: f64) -> f64 {
        let start = self.of(leaf).next().map_or(0.0, |it| it.at - it.delay);
        let due = (1..).map(|count| start + f64::from(count) * FRAME_KBIT / mbps);
        self.of(leaf).zip(due).map(|(it, due)| it.at - due).fold(0.0, f64::max)
    }

    /// Idle time of the link in milliseconds, in the 200 ms after the last frame of `leaf`.
    pub(super) fn idle_after(&self, leaf: usize) -> f64 {
        let end = self.of(leaf).last().map_or(0.0, |it| it.at);
        200.0 * (1.0 - self.rate(|it| it != leaf, end, end + 200.0) / f64::from(LINK))
    }

    /// The delay in milliseconds that one of `frames` frames of `leaf` exceeds.
    pub(super) fn delay(&self, leaf: usize, frames: usize) -> f64 {
        let mut all: Vec<_> = self.of(leaf).map(|it| it.delay).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() - all.len().div_ceil(frames)).copied().unwrap_or(f64::NAN)
    }
}

/// Length of a frame in kbit, which is also its transmission time in milliseconds at 1 Mbit/s.
const FRAME_KBIT: f64 = 12.112;
