//! UDP over links and queues: results agree with queueing theory, and no packet is lost from the
//! counts.

#![expect(clippy::as_conversions, reason = "a test may panic, and compares figures")]

mod networks;

use std::sync::Arc;
use std::time::Duration;

use networks::{dumbbell, run};
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Rate};
use tidegate_sim::scenario::{Distribution, Kind, Scenario, Start};

/// Packets of 1,000 bytes that arrive as a Poisson process, with `load` percent of the bottleneck's
/// rate.
fn poisson(load: u64, duration: Duration) -> Scenario {
    let service = Rate::from_mbps(20).time_for(Bytes(1_000)); // 400 us
    let mut random = Random::new(11, load);
    let (mut at, mut packets) = (Duration::ZERO, Vec::new());
    while at < duration {
        let uniform = (random.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        at += service.mul_f64(-uniform.ln() * 100.0 / load as f64);
        packets.push((at, 1_000));
    }
    let mut scenario = dumbbell(1, Kind::Packets { packets });
    scenario.traffic[0].start = Start::At(Duration::ZERO);
    scenario.run.duration = duration;
    scenario
}

/// In an M/D/1 queue, rho^2 / (2 (1 - rho)) packets wait on average (rho is the load). The mean
/// wait is this number divided by the arrival rate.
///
/// Catches: a mean over events, not over time; the packet in transmission counted as waiting.
#[test]
fn the_mean_wait_is_that_of_an_m_d_1_queue() {
    for load in [30_u64, 60, 80] {
        let seconds = 60.0;
        let results = run(&poisson(load, Duration::from_secs_f64(seconds)));
        let links = results.table("links").unwrap();
        let rho = load as f64 / 100.0;
        let expected = rho * rho / (2.0 * (1.0 - rho));
        let found = links.real("queue_mean_packets")[0];
        assert!((found / expected - 1.0).abs() < 0.05, "{load} %: {found} for {expected}");
        let wait = links.real("delay_mean_seconds")[0] - 0.010 - 0.000_4;
        let arrivals = links.whole("offered_packets")[0] as f64 / seconds;
        assert!((wait * arrivals / found - 1.0).abs() < 0.01, "{load} %: {wait}");
    }
}

/// Catches: a link that stops although packets wait.
#[test]
fn offered_packets_are_delivered_dropped_or_held_and_a_busy_link_is_never_idle() {
    let kind = Kind::Constant { rate: Rate::from_mbps(4), packet: 1_000 };
    let mut scenario = dumbbell(10, kind);
    scenario.traffic[0].stop = Some(Duration::from_millis(1_400));
    let results = run(&scenario);
    let links = results.table("links").unwrap();
    // After the sources stop, the queue needs another 0.42 s.
    assert!(links.real("utilisation")[0] > 0.88, "{:?}", links.real("utilisation"));
    let of = |name: &str| links.whole(name)[0];
    assert_eq!(of("offered_packets"), of("delivered_packets") + of("dropped_packets"));
    assert!(links.whole("dropped_packets")[0] > 1_500);
    assert_eq!(links.whole("dropped_packets")[1..].iter().sum::<u64>(), 0);
    let drops = results.table("drops").unwrap();
    assert_eq!(drops.text("place"), ["l > r"]);
    assert_eq!(drops.text("reason"), ["queue-full"]);
    assert_eq!(drops.whole("dropped_packets")[0], links.whole("dropped_packets")[0]);
}

/// Catches: flows that use the same random numbers in every run.
#[test]
fn the_same_seed_gives_the_same_run_and_other_seeds_give_others() {
    let mut scenario = dumbbell(5, bursts());
    let first = run(&scenario);
    assert!(first == run(&scenario));
    scenario.run.seed += 1;
    assert_ne!(first.fingerprint, run(&scenario).fingerprint);
}

/// Catches: random numbers that depend on a source's position in the scenario.
#[test]
fn another_source_does_not_change_the_packets_of_the_others() {
    let scenario = dumbbell(5, bursts());
    let mut more = scenario.clone();
    let mut extra = scenario.traffic[0].clone();
    extra.name = "extra".into();
    more.traffic.insert(0, extra);
    let (few, many) = (run(&scenario), run(&more));
    let sent = |results: &tidegate_sim::Results, from: usize| {
        results.table("flows").unwrap().whole("sent_packets")[from..].to_vec()
    };
    assert_eq!(sent(&few, 0), sent(&many, 5));
    assert_ne!(sent(&many, 0)[..5], sent(&many, 5));
}

/// With a third of all rates, and three times all delays and durations, the run is the same in slow
/// motion.
///
/// Catches: a transmission time that is rounded separately for each packet, so that errors add up.
#[test]
fn a_run_three_times_as_slow_has_the_same_course() {
    let scaled = |k: u32| {
        let ms = |n: u64| Duration::from_millis(n) * k;
        let kind = Kind::Bursts {
            rate: Rate::from_kbps(9_000 / u64::from(k)),
            packet: 700,
            on: Distribution::Constant(ms(30)),
            off: Distribution::Constant(ms(47)),
        };
        let mut scenario = dumbbell(7, kind);
        for link in &mut scenario.links {
            for way in [&mut link.forward, &mut link.back].into_iter().flatten() {
                let way = Arc::make_mut(way);
                way.delay *= k;
                way.rate = way.rate.map(|rate| Rate::from_bps(rate.bps() / u64::from(k)));
            }
        }
        let bottleneck = Arc::make_mut(scenario.links[0].forward.as_mut().unwrap());
        bottleneck.rate = Some(Rate::from_kbps(15_000 / u64::from(k)));
        scenario.traffic[0].start = Start::At(ms(1));
        scenario.run.duration *= k;
        run(&scenario)
    };
    let (fast, slow) = (scaled(1), scaled(3));
    let counts = |results: &tidegate_sim::Results| {
        let flows = results.table("flows").unwrap();
        let column = |name| flows.whole(name).to_vec();
        (column("sent_packets"), column("received_packets"), results.packet_hops)
    };
    assert_eq!(counts(&fast), counts(&slow));
    assert!(fast.table("links").unwrap().whole("dropped_packets")[0] > 0);
    let delay = |results: &tidegate_sim::Results| {
        results.table("links").unwrap().real("delay_mean_seconds")[0]
    };
    let ratio = delay(&slow) / (3.0 * delay(&fast));
    assert!((ratio - 1.0).abs() < 1e-8, "{ratio}");
}

fn bursts() -> Kind {
    let ms = |n| Distribution::Exponential(Duration::from_millis(n));
    Kind::Bursts { rate: Rate::from_mbps(8), packet: 500, on: ms(50), off: ms(50) }
}
