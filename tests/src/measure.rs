//! Measures the traffic that reaches a host within a time span, and how evenly flows share it.

use std::time::Duration;

use crate::testbed::Testbed;
use crate::traffic::Fetch;
use crate::wait::{now, pause};

/// Rate of the frames that arrive at `eth0` of the LAN host during `span`, in bits per second. Also
/// returns the bytes that each fetch received meanwhile.
#[must_use]
pub fn frames_and_bytes(span: Duration, bed: &Testbed, fetches: &[Fetch]) -> (f64, Vec<f64>) {
    let gained = || fetches.iter().map(Fetch::bytes).collect::<Vec<_>>();
    let (start, frames, before) = (now(), bed.lan.received_bytes("eth0"), gained());
    pause(span);
    let bytes = bed.lan.received_bytes("eth0") - frames;
    let rate = float(bytes) * 8.0 / start.elapsed().as_secs_f64();
    let each = gained().iter().zip(before).map(|(after, before)| float(after - before)).collect();
    (rate, each)
}

/// Converts a count to a real number.
#[must_use]
#[expect(clippy::as_conversions, reason = "for reports: exact up to 2^53")]
pub fn float(n: u64) -> f64 {
    n as f64
}

/// The median of `values`. For an even number of values, returns the larger of the two middle
/// values.
///
/// # Panics
///
/// If there are no values.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Jain's index: (sum x)^2 / (n sum x^2). It is 1 if all values are equal.
#[must_use]
pub fn jain(each: &[f64]) -> f64 {
    let (sum, squares) =
        each.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (squares * each.iter().map(|_| 1.0).sum::<f64>())
}
