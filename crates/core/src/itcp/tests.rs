//! Tests of the rate adjuster, which sets the weight of an aggregate connection from samples of its
//! gateway. A function from time to [`GatewayLoad`] replaces the gateway.

mod bad_input;
mod literal;
mod measured;
mod proportional;
mod rounds;

use super::*;

/// A bottleneck of 10 Mbit/s and 42 ms, as in `itcp`, section 5.
const RTT: Duration = Duration::from_millis(42);
const WINDOW: Bytes = Bytes(52_500);

/// Rounds of ten samples, one each 100 ms. The weight begins at 4, and is between 1 and 10.
fn config(kind: LawKind) -> Config {
    Config {
        kind,
        samples: 10,
        every: Duration::from_millis(100),
        weight: Factor::whole(4),
        max_queue: Bytes(1_000_000),
        ..Config::default()
    }
}

fn build(config: &Config) -> RateAdjuster {
    RateAdjuster::new(config, Random::new(1, 0), Time::ZERO)
}

/// An idle gateway at this bottleneck, with twenty local connections.
fn idle() -> GatewayLoad {
    GatewayLoad { window: WINDOW, least_rtt: Some(RTT), connections: 20, ..GatewayLoad::default() }
}

/// Runs one round. `at` computes each sample from the time since the start of the round and the totals `before` the round.
fn round(
    adjuster: &mut RateAdjuster,
    before: &mut GatewayLoad,
    at: impl Fn(Duration, GatewayLoad) -> GatewayLoad,
) {
    let (began, rounds) = (adjuster.poll_timeout(), ended(adjuster));
    let start = *before;
    while ended(adjuster) == rounds {
        let now = adjuster.poll_timeout();
        *before = at(now.since(began), start);
        adjuster.handle_timeout(now, before);
    }
}

fn ended(adjuster: &RateAdjuster) -> u64 {
    let Decisions { increased, forced, decreased, held, abandoned } = adjuster.report().decisions;
    increased + forced + decreased + held + abandoned
}

/// The bytes that arrive in `span` at the rate of `per_second` bytes per second.
fn bytes(per_second: u64, span: Duration) -> u64 {
    Rate::from_bps(8 * per_second).bytes_in(span).0
}

fn millionths(adjuster: &RateAdjuster) -> u64 {
    adjuster.weight().millionths()
}

use crate::Rate;
