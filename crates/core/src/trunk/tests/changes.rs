//! Tests of a trunk whose path changes or fails: it uses the new path after a few round trips.
//!
//! A trunk carries user packets between two gateways. Its *management connections* are TCP
//! connections without payload, which find its rate. A *keepalive* shows that the other gateway is
//! alive.

use super::*;
use crate::link::LinkChange;

/// Time at which the path changes.
const WARMUP: Duration = Duration::from_secs(10);

/// Round trips, without queueing delay, after which the trunk must use the whole new path.
const ROUNDS: u32 = 50;

/// Part of the bandwidth for user packets: for 1,500 of their bytes, there is a management packet of 52 bytes.
const USERS: f64 = 1_500.0 / 1_552.0;

/// A backlogged trunk, after `change` has changed its links in both directions.
fn changed(change: LinkChange) -> Pair {
    let mut pair = Pair::new(&config(), &path(LOSSLESS));
    pair.run(Time::ZERO + WARMUP, greedy(50, &[1_500]));
    for (link, rate) in [(0, change.rate), (1, None)] {
        let mut cx = Cx { now: pair.now, pool: &mut pair.pool, tally: &mut pair.tally };
        assert!(pair.links[link].change(&mut cx, LinkChange { rate, ..change }));
    }
    pair
}

/// Checks each of the five seconds that follow [`ROUNDS`] round trips of `rtt` after the change. The trunk must use 95 %
/// of the path's rate, and the queue of the path must drop no user packet.
fn is_taken(mut pair: Pair, rate: Rate, rtt: Duration) {
    let settled = pair.now + ROUNDS * rtt;
    pair.run(settled, greedy(50, &[1_500]));
    for second in 1..=5 {
        let before = pair.ends[0].counts().elastic;
        pair.run(settled + Duration::from_secs(second), greedy(50, &[1_500]));
        let sent = pair.ends[0].counts().elastic - before;
        let full = crate::units::real(rate.bps()) / 8.0 * USERS;
        let part = crate::units::real(sent) / full;
        assert!((0.95..1.05).contains(&part), "second {second}: {part} of what the path carries");
    }
    assert_eq!(pair.tally.drops.of(crate::Reason::QueueFull), 0);
    pair.check_conservation();
    let found = pair.ends[0].report().state.rtt;
    assert!(found.is_some_and(|it| it >= rtt), "{found:?}");
}

/// Catches: a link whose rate does not change.
#[test]
fn a_path_with_half_its_rate_is_used_fully_without_losses_after_fifty_round_trips() {
    let rate = Rate::from_mbps(5);
    let pair = changed(LinkChange { rate: Some(rate), delay: None });
    is_taken(pair, rate, Duration::from_millis(10));
}

/// Catches: windows that do not grow where nothing is lost.
#[test]
fn a_path_with_twice_its_rate_is_full_after_fifty_round_trips() {
    let rate = Rate::from_mbps(20);
    let pair = changed(LinkChange { rate: Some(rate), delay: None });
    is_taken(pair, rate, Duration::from_millis(10));
}

/// Catches: windows that do not grow where nothing is lost.
#[test]
fn a_path_with_twice_its_delay_is_full_after_fifty_round_trips() {
    let pair = changed(LinkChange { rate: None, delay: Some(Duration::from_millis(10)) });
    is_taken(pair, Rate::from_mbps(10), Duration::from_millis(20));
}

/// Catches: connections without data in flight, which have no timeout and so never count as silent.
#[test]
fn a_dead_gateway_is_detected_even_if_few_packets_wait() {
    for fallback in [Fallback::Direct, Fallback::Hold] {
        let mut pair = Pair::new(&Config { fallback, ..config() }, &path(LOSSLESS));
        pair.run(Time::ZERO + WARMUP, greedy(50, &[1_500]));
        while pair.ends[0].backlog().packets > 0 {
            pair.run(pair.now + Duration::from_millis(100), |_| ());
        }
        pair.muted = true;
        pair.offer(0, 1_500);
        pair.run(pair.now + Duration::from_secs(4), |_| ());
        assert_eq!(pair.ends[0].report().state.silent, 4);
        pair.offer(0, 1_500);
        let past = if fallback == Fallback::Direct { 1_500 } else { 0 };
        assert_eq!(pair.ends[0].counts().past, past);
        pair.muted = false;
        pair.run(pair.now + Duration::from_secs(10), greedy(50, &[1_500]));
        assert_eq!(pair.ends[0].report().state.silent, 0);
    }
}

/// After a failure of the path, the other gateway sends keepalives once a second, as live gateways do. The first
/// keepalive makes one connection retransmit within a second, even if its timeout is minutes long. Soon the trunk uses
/// the whole path. While the path is down, replayed keepalives cause at most one retransmission per RTO, and no credit.
///
/// Catches: keepalives without effect; keepalives after which every connection retransmits; a retransmission for each
/// of many keepalives.
#[test]
fn keepalives_of_a_recovered_gateway_hasten_the_next_retransmission() {
    for silence in [10, 100] {
        let mut pair = Pair::new(&config(), &path(LOSSLESS));
        pair.run(Time::ZERO + WARMUP, greedy(50, &[1_500]));
        pair.muted = true;
        pair.run(pair.now + Duration::from_secs(5), greedy(50, &[1_500]));
        let before = pair.ends[0].counts();
        let mut hellos = 0;
        // Ten keepalives in a second: nine of them are replayed.
        for _ in 0..10 * silence {
            pair.run(pair.now + Duration::from_millis(100), greedy(50, &[1_500]));
            hello(&mut pair);
            hellos += 1;
        }
        let asked = pair.ends[0].counts().made - before.made;
        assert!((silence * 8 / 10..=silence + 12).contains(&asked), "{asked} of {hellos}");
        assert_eq!(pair.ends[0].counts().elastic, before.elastic);
        pair.muted = false;
        let back = pair.now;
        for _ in 0..2 {
            pair.run(pair.now + Duration::from_secs(1), greedy(50, &[1_500]));
            hello(&mut pair);
        }
        assert_eq!(pair.ends[0].report().state.silent, 0);
        is_full_from(&mut pair, back + Duration::from_secs(4));
    }
}

/// User packets arrive before the other gateway is up. At its first keepalive, all connections send their SYN again.
///
/// Catches: a first keepalive without effect, or with an effect on one connection only; the same effect of each later
/// keepalive; a timeout that stays twice as long from then on.
#[test]
fn the_first_keepalive_makes_all_connections_repeat_their_syn() {
    let mut pair = Pair::new(&config(), &path(LOSSLESS));
    pair.muted = true;
    pair.run(pair.now + Duration::from_millis(100), greedy(50, &[1_500]));
    let asked = |pair: &Pair| pair.ends[0].counts().made;
    assert_eq!(asked(&pair), 4);
    for _ in 0..10 {
        hello(&mut pair);
    }
    assert_eq!(asked(&pair), 8);
    pair.run(pair.now + Duration::from_millis(1_100), greedy(50, &[1_500]));
    assert_eq!((asked(&pair), pair.ends[0].report().state.silent), (12, 0));
}

/// Only the first keepalive makes all connections send their SYN again, however late it arrives. A changed trunk
/// remembers that it had contact with the other gateway.
///
/// Catches: a trunk whose configuration changes, and that then counts a keepalive as the first one.
#[test]
fn only_the_first_keepalive_repeats_the_syns_however_late() {
    for waited in [100, 10_000] {
        let mut pair = Pair::new(&config(), &path(LOSSLESS));
        pair.muted = true;
        pair.run(pair.now + Duration::from_millis(waited), greedy(50, &[1_500]));
        pair.muted = false;
        hello(&mut pair);
        pair.run(pair.now + Duration::from_millis(100), greedy(50, &[1_500]));
        assert!(pair.ends[0].counts().elastic > 0, "{waited}");
        pair.change(&Config { connections: 3, ..config() });
        pair.run(pair.now + Duration::from_millis(1), greedy(50, &[1_500]));
        let before = pair.ends[0].counts().made;
        hello(&mut pair);
        assert_eq!(pair.ends[0].counts().made, before, "{waited}");
    }
}

/// While some connections receive ACKs, keepalives have no effect on the timeouts of the others.
///
/// Catches: a keepalive that ends the backoff of a connection whose packets are lost by congestion.
#[test]
fn keepalives_change_nothing_while_acks_arrive() {
    let runs = [false, true].map(|hellos| {
        let lossy =
            LinkConfig { loss: Loss::Bernoulli(Chance::from_ppb(200_000_000)), ..path(LOSSLESS) };
        let mut pair = Pair::new(&config(), &lossy);
        let mut silent = 0;
        for _ in 0..300 {
            pair.run(pair.now + Duration::from_millis(100), greedy(50, &[1_500]));
            silent = silent.max(pair.ends[0].report().state.silent);
            if hellos && pair.ends[0].report().state.silent < 4 {
                hello(&mut pair);
            }
        }
        assert!(silent > 0, "no connection ever waits for long");
        pair.ends[0].counts().management
    });
    assert_eq!(runs[0], runs[1]);
}

/// The other gateway sends a keepalive.
fn hello(pair: &mut Pair) {
    pair.offered += 1;
    let packet = pair.pool.insert(Packet::default()).unwrap();
    pair.hand_in(0, Arriving::Feedback(0), packet);
}

/// Returns `true` if the trunk uses nine tenths of the path in the second after `from`.
fn is_full_from(pair: &mut Pair, from: Time) {
    pair.run(from, greedy(50, &[1_500]));
    pair.run(from + Duration::from_secs(1), greedy(50, &[1_500]));
    let bytes = pair.bytes_since(from);
    assert!(bytes > 1_250_000 * 9 / 10, "{bytes}");
}

/// Catches: a gateway that is considered dead after three timeouts, seven RTO after the last ACK.
#[test]
fn a_dead_gateway_is_detected_within_three_initial_timeouts() {
    let mut pair = Pair::new(&config(), &path(LOSSLESS));
    pair.run(Time::ZERO + WARMUP, greedy(50, &[1_500]));
    pair.muted = true;
    let failed_at = pair.now;
    while pair.ends[0].report().state.silent < 4 {
        pair.run(pair.now + Duration::from_millis(10), greedy(50, &[1_500]));
        // The RTO is one second, and a tail loss probe restarts it (RFC 8985, section 7.3).
        assert!(pair.now.since(failed_at) < Duration::from_millis(3_300), "{:?}", pair.now);
    }
    let before = pair.ends[0].counts().elastic;
    pair.run(pair.now + Duration::from_secs(10), greedy(50, &[1_500]));
    assert_eq!(pair.ends[0].counts().elastic, before);
}
