//! The path changes while a trunk is backlogged: round trips until the trunk uses the new path.

use super::*;
use crate::link::LinkChange;

/// Time before the path changes.
const WARMUP: Duration = Duration::from_secs(10);

/// Round trips after which the trunk uses the new path, counted without queueing delay.
const ROUNDS: u32 = 50;

/// The part of the path that carries user bytes: management packets take 52 of 1,552.
const USERS: f64 = 1_500.0 / 1_552.0;

/// A trunk that has been backlogged for a while, after `change` of the path in both directions.
fn changed(change: LinkChange) -> Pair {
    let mut pair = Pair::new(&config(), &path(LOSSLESS));
    pair.run(Time::ZERO + WARMUP, greedy(50, &[1_500]));
    for (link, rate) in [(0, change.rate), (1, None)] {
        let mut cx = Cx { now: pair.now, pool: &mut pair.pool, tally: &mut pair.tally };
        assert!(pair.links[link].change(&mut cx, LinkChange { rate, ..change }));
    }
    pair
}

/// Checks the five seconds that begin [`ROUNDS`] round trips of `rtt` after the change. Each second
/// carries the path's rate within 5 %. The queue drops no user packet after the change.
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
fn a_path_that_loses_half_its_rate_is_taken_for_what_it_is_within_fifty_round_trips() {
    let rate = Rate::from_mbps(5);
    let pair = changed(LinkChange { rate: Some(rate), delay: None });
    is_taken(pair, rate, Duration::from_millis(10));
}

/// Catches: windows that do not grow where nothing is lost.
#[test]
fn a_path_that_gets_twice_the_rate_is_full_within_fifty_round_trips() {
    let rate = Rate::from_mbps(20);
    let pair = changed(LinkChange { rate: Some(rate), delay: None });
    is_taken(pair, rate, Duration::from_millis(10));
}

/// Catches: windows that do not grow where nothing is lost.
#[test]
fn a_path_twice_as_long_is_as_full_within_fifty_round_trips() {
    let pair = changed(LinkChange { rate: None, delay: Some(Duration::from_millis(10)) });
    is_taken(pair, Rate::from_mbps(10), Duration::from_millis(20));
}

/// Catches: connections that have nothing to ask, and so are never given up.
#[test]
fn a_peer_that_is_gone_is_given_up_also_where_hardly_anything_waits() {
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

/// A peer sends hellos once a second when the path is back, as live gateways do. The first question
/// is answered within a second and a round trip, however long the timeouts are. The trunk soon uses
/// the whole path again. While the path is down, a hello causes at most one question of one
/// connection per timeout, and no credit.
///
/// Catches: hellos that hasten nothing; that let every connection ask; that ask at once, however often they come.
#[test]
fn hellos_of_a_peer_that_is_back_hasten_the_next_question() {
    for silence in [10, 100] {
        let mut pair = Pair::new(&config(), &path(LOSSLESS));
        pair.run(Time::ZERO + WARMUP, greedy(50, &[1_500]));
        pair.muted = true;
        pair.run(pair.now + Duration::from_secs(5), greedy(50, &[1_500]));
        let before = pair.ends[0].counts();
        let mut hellos = 0;
        // Nine of ten hellos in a second are replayed ones.
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

/// One gateway offers packets before the other is up. The first hello ends the wait for the first
/// timeout.
///
/// Catches: a first hello that hastens nothing, or after which one connection asks; each hello taken for the first; a
/// timeout that is twice as long from then on.
#[test]
fn the_first_hello_of_a_peer_has_all_connections_ask_again_at_once() {
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

/// The first hello counts however late it comes, and only once. A changed trunk has met its peer.
///
/// Catches: a new session with the peer after a change, so that packets in flight are sent twice.
#[test]
fn the_first_hello_counts_whenever_it_comes_and_once() {
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

/// While some connections are answered, congestion control alone decides about the others.
///
/// Catches: hellos that take back the backoff of any connection.
#[test]
fn hellos_change_nothing_while_a_trunk_is_answered() {
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

/// The other end sends a hello.
fn hello(pair: &mut Pair) {
    pair.offered += 1;
    let packet = pair.pool.insert(Packet::default()).unwrap();
    pair.hand_in(0, Arriving::Feedback(0), packet);
}

/// The path is used to nine tenths in the second after `from`.
fn is_full_from(pair: &mut Pair, from: Time) {
    pair.run(from, greedy(50, &[1_500]));
    pair.run(from + Duration::from_secs(1), greedy(50, &[1_500]));
    let bytes = pair.bytes_since(from);
    assert!(bytes > 1_250_000 * 9 / 10, "{bytes}");
}

/// Catches: a third timeout, which comes seven RTO after the last answer.
#[test]
fn a_peer_that_is_gone_is_given_up_within_three_timeouts_time() {
    let mut pair = Pair::new(&config(), &path(LOSSLESS));
    pair.run(Time::ZERO + WARMUP, greedy(50, &[1_500]));
    pair.muted = true;
    let gone = pair.now;
    while pair.ends[0].report().state.silent < 4 {
        pair.run(pair.now + Duration::from_millis(10), greedy(50, &[1_500]));
        // The RTO is one second, and a tail loss probe restarts it (RFC 8985, section 7.3).
        assert!(pair.now.since(gone) < Duration::from_millis(3_300), "{:?}", pair.now);
    }
    let before = pair.ends[0].counts().elastic;
    pair.run(pair.now + Duration::from_secs(10), greedy(50, &[1_500]));
    assert_eq!(pair.ends[0].counts().elastic, before);
}
