//! The `measured` law: busy gateways, ample service, and rates from the window.

use super::*;

/// Load of a round: bytes per second that arrive, the busy part in percent, and bytes per second
/// sent while busy. The rest is sent while idle.
#[derive(Clone, Copy)]
struct Load {
    arrive: u64,
    busy: u32,
    service: u64,
}

fn load(adjuster: &mut RateAdjuster, seen: &mut GatewayLoad, load: Load) {
    round(adjuster, seen, |at, start| {
        let busy = at * load.busy / 100;
        let sent_busy = bytes(load.service, busy);
        GatewayLoad {
            arrived: start.arrived + bytes(load.arrive, at),
            sent: start.sent + sent_busy.max(bytes(load.arrive, at)),
            sent_busy: start.sent_busy + sent_busy,
            busy: start.busy + busy,
            ..start
        }
    });
}

/// The weight after each of these rounds.
fn after(loads: &[Load]) -> Vec<u64> {
    let mut adjuster = build(&config(LawKind::Measured));
    let mut seen = idle();
    let each = loads.iter().map(|it| {
        load(&mut adjuster, &mut seen, *it);
        millionths(&adjuster)
    });
    each.collect()
}

/// Catches: (a - s) / a; a negative excess; no margin; `>=` at 0.95; an increase at any load above
/// the service.
#[test]
fn a_saturated_gateway_increases_by_its_excess_load() {
    // (600 - 500) / 500 = 0.2 and 0.1: 0.5 (0.2 + 0.1) 4 = 0.6.
    assert_eq!(after(&[Load { arrive: 600_000, busy: 100, service: 500_000 }]), [4_600_000]);
    assert_eq!(after(&[Load { arrive: 600_000, busy: 96, service: 500_000 }]), [4_600_000]);
    // Less arrives than is sent while a backlog drains: the weight grows by the margin alone.
    assert_eq!(after(&[Load { arrive: 300_000, busy: 100, service: 500_000 }]), [4_200_000]);
    // At 95 % and below the gateway has pauses.
    assert_eq!(after(&[Load { arrive: 600_000, busy: 95, service: 500_000 }]), [4_000_000]);
}

/// Catches: a decrease after one round; the count kept; without the margin; busy rounds counted; `<=`.
#[test]
fn ample_service_in_two_rounds_decreases() {
    let ample = Load { arrive: 300_000, busy: 50, service: 600_000 };
    let tight = Load { arrive: 550_000, busy: 94, service: 600_000 };
    assert_eq!(after(&[ample; 4]), [4_000_000, 3_200_000, 3_200_000, 2_560_000]);
    assert_eq!(after(&[ample, tight, ample, tight]), [4_000_000; 4]);
    // Equal within the margin: 500,000 (1 + 0.1) = 550,000.
    let equal = Load { arrive: 500_000, busy: 94, service: 550_000 };
    assert_eq!(after(&[equal; 2]), [4_000_000; 2]);
    assert_eq!(after(&[Load { service: 550_100, ..equal }; 2]), [4_000_000, 3_200_000]);
    // A saturated round never decreases the weight, however fast its service; it also ends the
    // sequence.
    let saturated = Load { busy: 100, ..ample };
    assert_eq!(after(&[ample, saturated, ample]), [4_000_000, 4_200_000, 4_200_000]);
    assert_eq!(after(&[ample, Load { busy: 95, ..ample }, ample]), [4_000_000; 3]);
}

/// Catches: all bytes sent, over the busy time: bytes that pass an idle gateway at once are no service.
#[test]
fn bytes_that_did_not_wait_are_not_service() {
    // 500,000 arrive, and while busy, for a tenth of the time, 520,000 are served. All bytes sent
    // per busy time would be 5,000,000, and the weight would fall.
    let mut adjuster = build(&config(LawKind::Measured));
    let mut seen = idle();
    for _ in 0..3 {
        load(&mut adjuster, &mut seen, Load { arrive: 500_000, busy: 10, service: 520_000 });
    }
    let round = adjuster.report().last.unwrap();
    assert_eq!(round.service, Some(Rate::from_bps(8 * 520_000)));
    assert_eq!(
        (round.offered, round.busy),
        (Rate::from_bps(4_000_000), Factor::from_millionths(100_000))
    );
    assert_eq!(millionths(&adjuster), 4_000_000);
}

/// Catches: the rate of the window at any load; the busy rate below 5 %.
#[test]
fn a_rarely_busy_gateway_takes_the_rate_of_its_window() {
    // 52,500 bytes in 42 ms: 1.25 MB/s.
    let service = |busy| {
        let mut adjuster = build(&config(LawKind::Measured));
        load(&mut adjuster, &mut idle(), Load { arrive: 100_000, busy, service: 200_000 });
        adjuster.report().last.unwrap().service.unwrap().bps() / 8
    };
    assert_eq!((service(0), service(4), service(5)), (1_250_000, 1_250_000, 200_000));
}

/// Catches: a division by zero; a decrease or an increase with an unknown service rate.
#[test]
fn without_a_service_rate_nothing_changes() {
    for least_rtt in [None, Some(Duration::ZERO)] {
        let mut adjuster = build(&config(LawKind::Measured));
        let mut seen = GatewayLoad { least_rtt, ..idle() };
        for _ in 0..3 {
            load(&mut adjuster, &mut seen, Load { arrive: 100, busy: 0, service: 0 });
        }
        assert_eq!((millionths(&adjuster), ended(&adjuster)), (4_000_000, 3));
    }
    // A stalled connection: busy throughout, and nothing is sent. More weight would not help.
    assert_eq!(after(&[Load { arrive: 100_000, busy: 100, service: 0 }; 2]), [4_000_000; 2]);
}

/// The service rate, in bytes per second, of a round whose samples have these busy parts, in percent, and rates.
fn service_of(service: ServiceSamples, samples: &[(u32, u64)]) -> u64 {
    let count = u32::try_from(samples.len()).unwrap();
    let config = Config { service, samples: count, ..config(LawKind::Measured) };
    let mut adjuster = build(&config);
    let mut seen = idle();
    adjuster.handle_timeout(adjuster.poll_timeout(), &seen);
    for (busy, rate) in samples {
        let busy = config.every * *busy / 100;
        seen.busy += busy;
        seen.sent_busy += bytes(*rate, busy);
        adjuster.handle_timeout(adjuster.poll_timeout(), &seen);
    }
    adjuster.report().last.unwrap().service.unwrap().bps() / 8
}

/// Catches: the least, the median or the mean; samples that were hardly busy; a quantile of few samples.
#[test]
fn contended_service_is_the_rate_beside_busy_neighbours() {
    // Of 100 samples the neighbour is idle in 70, and busy in 26. Four are outliers.
    let mut samples =
        [vec![(50, 1_000_000); 70], vec![(50, 400_000); 26], vec![(50, 50_000); 4]].concat();
    assert_eq!(service_of(ServiceSamples::Contended, &samples), 400_000);
    assert_eq!(service_of(ServiceSamples::Mean, &samples), 806_000);
    // Samples that are busy for less than a fifth do not count.
    samples.extend(vec![(19, 10_000); 50]);
    assert_eq!(service_of(ServiceSamples::Contended, &samples), 400_000);
    samples.extend(vec![(20, 10_000); 6]);
    assert_eq!(service_of(ServiceSamples::Contended, &samples), 10_000);
    // Nine busy samples are too few for a quantile.
    let few = [vec![(100, 800_000); 8], vec![(100, 80_000); 1], vec![(0, 0); 5]].concat();
    assert_eq!(service_of(ServiceSamples::Contended, &few), 720_000);
}

/// The fluid model of one link of 1,250,000 bytes/s. The share of a gateway is the weight's; while the other is
/// idle it gets all. Returns the shares of the first gateway after each of 60 rounds. A load above its share is
/// always busy; the second gateway may have a file that never ends.
fn shares(kinds: [LawKind; 2], loads: [f64; 2]) -> Vec<f64> {
    let mut gateways = [0, 1].map(|it: usize| {
        let config = Config { weight: Factor::whole(2), ..config(kinds[it]) };
        (build(&config), idle())
    });
    let round = |_| {
        let weights = [0, 1].map(|it: usize| gateways[it].0.weight().real());
        let shares = weights.map(|weight| weight / weights.iter().sum::<f64>());
        for (it, (adjuster, seen)) in gateways.iter_mut().enumerate() {
            let other_busy = (loads[1 - it] / shares[1 - it]).min(1.0);
            let rate = shares[it] + (1.0 - other_busy) * shares[1 - it];
            let busy = u32::try_from(whole(100.0 * (loads[it] / rate).min(1.0))).unwrap();
            let (arrive, service) = (whole(LINK * loads[it]), whole(LINK * rate));
            load(adjuster, seen, Load { arrive, busy, service });
        }
        shares[0]
    };
    (0..60).map(round).collect()
}

const LINK: f64 = 1_250_000.0;

fn whole(real: f64) -> u64 {
    format!("{real:.0}").parse().unwrap()
}

/// Catches: a law that stops below its load; an increase or a decrease with the wrong sign of the excess.
#[test]
fn beside_a_saturated_neighbour_the_share_ends_above_the_load() {
    // The neighbour has a file that never ends, and a fixed weight of 2.
    let shares = shares([LawKind::Measured, LawKind::Fixed], [0.52, 1.0]);
    assert!(shares[0] < 0.52);
    assert!(shares[10..].iter().all(|share| (0.52..0.65).contains(share)), "{shares:?}");
}

/// A known limit of this law: neither gateway is saturated on average, so both give up their
/// weight. The share of the first ends at 0.5, below its load, which matters when the second has a
/// long file.
#[test]
fn capacity_that_idle_neighbours_leave_over_lets_both_weights_fall() {
    let shares = shares([LawKind::Measured, LawKind::Measured], [0.52, 0.24]);
    assert_eq!(*shares.last().unwrap(), 0.5);
}
