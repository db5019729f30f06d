//! Live test of the network emulator of a lab: a hundred routes at once, each with its own delay
//! and loss rate.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write;
use std::time::Duration;

use tidegate_e2e::{Lab, Process, Testbed, witnessed};

const ROUTES: usize = 100;

/// Number of echo requests on each route.
const PINGS: usize = 50;

const LIMIT: Duration = Duration::from_secs(120);

/// Delay of route `n` in milliseconds.
fn delay(n: usize) -> f64 {
    f64::from(u32::try_from(n + 1).unwrap())
}

/// Number of different loss rates.
const LOSSES: usize = 5;

/// Loss rate of route `n` in percent.
const fn loss(n: usize) -> usize {
    n % LOSSES
}

/// A topology with routes from one host to a hundred others. The common return route has no delay.
fn topology() -> String {
    let mut text = "[[host]]\nname = \"center\"\n".to_owned();
    for n in 0..ROUTES {
        let (delay, loss) = (n + 1, loss(n));
        let _ = write!(
            text,
            "[[host]]\nname = \"h{n}\"\naddress = [\"10.74.0.{}\"]\n\
             [[route]]\nfrom = \"center\"\nto = \"h{n}\"\ndelay = \"{delay} ms\"\nloss = \"{loss} %\"\n",
            n + 2
        );
    }
    text.replacen("name = \"center\"\n", "name = \"center\"\naddress = [\"10.74.0.1\"]\n", 1)
        + "[[route]]\nto = \"center\"\n"
}

/// The round-trip times of the echoes on each route, in milliseconds.
fn echoes(lab: &Lab) -> Vec<Vec<f64>> {
    let ping = |n: usize| {
        let mut command = lab.on("center");
        command.args(["ping", "-n", "-i", "0.05", "-W", "2", "-c", &PINGS.to_string()]);
        Process::start(command.arg(format!("10.74.0.{}", n + 2)))
    };
    let routes: Vec<usize> = (0..ROUTES).collect();
    let batches = routes.chunks(20).flat_map(|batch| {
        let pings: Vec<Process> = batch.iter().map(|n| ping(*n)).collect();
        pings.into_iter().map(|ping| ping.finish(LIMIT).output).collect::<Vec<_>>()
    });
    let times = |output: String| {
        let after = output.lines().filter_map(|line| line.split_once(" time="));
        after.filter_map(|(_, rest)| rest.split(' ').next()?.parse().ok()).collect()
    };
    batches.map(times).collect()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns `true` if the number of `lost` packets on these routes agrees with their loss rates
/// within three standard deviations. A route without a loss rate must not lose any packet.
fn within_three_sigma(lost: usize, routes: &[usize]) -> bool {
    let real = |n: usize| f64::from(u32::try_from(n).unwrap());
    let chances = || routes.iter().map(|n| real(loss(*n)) / 100.0);
    let expected: f64 = chances().map(|p| p * real(PINGS)).sum();
    let variance: f64 = chances().map(|p| p * (1.0 - p) * real(PINGS)).sum();
    (real(lost) - expected).powi(2) <= 9.0 * variance
}

#[test]
fn a_hundred_routes_keep_their_delays_and_losses() {
    witnessed(routes_keep_their_delays_and_losses);
}

fn routes_keep_their_delays_and_losses(bed: &Testbed) {
    let lab = Lab::up(bed, &topology());
    let mut echoes = echoes(&lab);
    assert_eq!(echoes.len(), ROUTES);

    let error = |(n, times): (usize, &mut Vec<f64>)| (median(times) - delay(n)).abs();
    let mut errors: Vec<f64> = echoes.iter_mut().enumerate().map(error).collect();
    let typical = median(&mut errors);
    assert!(typical < 1.0, "round trips are off by {typical} ms, {errors:?}");

    let lost: Vec<usize> = echoes.iter().map(|times| PINGS - times.len()).collect();
    for percent in 0..LOSSES {
        let routes: Vec<usize> = (0..ROUTES).filter(|n| loss(*n) == percent).collect();
        let total = routes.iter().map(|n| lost[*n]).sum();
        assert!(within_three_sigma(total, &routes), "{total} lost at {percent} %: {lost:?}");
    }
}
