//! Properties of TCP connections across a network that hold with every congestion control.

mod networks;

use std::time::Duration;

use networks::{dumbbell, run};
use tidegate_core::link::Loss;
use tidegate_core::tcp::{Config, Profile};
use tidegate_core::{Bytes, Chance};
use tidegate_sim::scenario::{Distribution, Kind, Start};

const MS: Duration = Duration::from_millis(1);

/// Catches: an endless application that stops writing when its first data is sent.
#[test]
fn a_greedy_connection_fills_the_link_under_every_profile() {
    for profile in [Profile::Ns2, Profile::Rfc, Profile::Linux] {
        let mut scenario = dumbbell(1, Kind::Greedy);
        scenario.run.duration = Duration::from_secs(20);
        scenario.run.warmup = Duration::from_secs(5);
        scenario.run.tcp = Config::new(profile);
        let results = run(&scenario);
        let goodput = results.table("groups").unwrap().real("goodput_bps")[0];
        assert!((0.92 * 20e6..0.97 * 20e6).contains(&goodput), "{profile:?}: {goodput}");
    }
}

/// Catches: goodput counted at the sender.
#[test]
fn files_arrive_whole_and_take_as_long_as_the_link_needs() {
    let mut scenario = dumbbell(3, Kind::File { size: Distribution::Constant(Bytes(500_000)) });
    scenario.traffic[0].start = Start::At(MS * 5);
    let results = run(&scenario);
    let transfers = results.table("transfers").unwrap();
    assert_eq!(transfers.whole("bytes"), [500_000; 3]);
    let flows = results.table("flows").unwrap();
    assert_eq!(flows.whole("goodput_bytes"), [500_000; 3]);
    // All files together have 1.5 MB, which take 0.6 s at 20 Mbit/s.
    let took = transfers.real("took_seconds");
    assert!(took.iter().all(|took| (0.2..1.0).contains(took)), "{took:?}");
}

/// Catches: a pause that starts at the write, not at the last ACK; a new connection for every burst
/// without `reconnect`.
#[test]
fn bursts_wait_for_their_acknowledgements_and_then_pause() {
    for reconnect in [false, true] {
        let burst = Distribution::Constant(Bytes(20_000));
        let pause = Distribution::Constant(MS * 100);
        let mut scenario = dumbbell(1, Kind::OnOff { burst, pause, reconnect });
        scenario.traffic[0].start = Start::At(Duration::ZERO);
        scenario.run.tcp = Config::new(Profile::Ns2); // This profile delays no ACK.
        let results = run(&scenario);
        let transfers = results.table("transfers").unwrap();
        let began = transfers.real("began_seconds");
        assert!((10..20).contains(&began.len()), "{}", began.len());
        // The time between two bursts is the burst, the delay of its last ACK, and the pause.
        for (n, took) in transfers.real("took_seconds").iter().enumerate().skip(1) {
            let gap = began[n] - began[n - 1];
            let pause = gap - transfers.real("took_seconds")[n - 1];
            assert!((0.105..0.125).contains(&pause), "{n}: {pause} of {gap}, {took}");
        }
        // With one connection, the window is large enough for a whole burst. A new connection needs
        // a handshake and slow start.
        let last = transfers.real("took_seconds")[began.len() - 1];
        assert!(if reconnect { last > 0.06 } else { last < 0.03 }, "{reconnect}: {last}");
    }
}

/// Catches: a client that does not wait for its think time.
#[test]
fn web_clients_ask_think_and_ask_again() {
    let kind = Kind::Web {
        request: Distribution::Constant(Bytes(300)),
        answer: Distribution::Pareto(Bytes(12_000), 1.5),
        think: Distribution::Exponential(MS * 50),
    };
    let mut scenario = dumbbell(4, kind);
    scenario.run.duration = Duration::from_secs(20);
    let results = run(&scenario);
    let (transfers, flows) = (results.table("transfers").unwrap(), results.table("flows").unwrap());
    // A cycle takes two round trips of 20 ms, the round trips of slow start, and the think time:
    // about 120 ms.
    assert!((500..1_200).contains(&transfers.rows()), "{}", transfers.rows());
    let arrived: u64 = transfers.whole("bytes").iter().sum();
    let goodput: u64 = flows.whole("goodput_bytes").iter().sum();
    assert!(goodput >= arrived && goodput - arrived < 4 * 1_000_000, "{goodput} {arrived}");
    assert_eq!(results.table("groups").unwrap().whole("failed_transfers"), [0]);
}

/// Catches: a file that waits until the previous one is complete.
#[test]
fn files_arrive_as_a_poisson_process_and_do_not_wait_for_each_other() {
    let kind = Kind::Arrivals { every: MS * 10, size: Distribution::Constant(Bytes(5_000)) };
    let mut scenario = dumbbell(2, kind);
    scenario.run.duration = Duration::from_secs(20);
    scenario.traffic[0].stop = Some(Duration::from_secs(19));
    let results = run(&scenario);
    let transfers = results.table("transfers").unwrap();
    // 3,800 files are expected, with a standard deviation of 62. The range is three deviations
    // wide.
    assert!((3_600..4_000).contains(&transfers.rows()), "{}", transfers.rows());
}

/// Catches: a trace that makes only the first of two writes at the same time.
#[test]
fn a_trace_is_written_at_its_times() {
    let writes = vec![(MS * 10, Bytes(4_000)), (MS * 500, Bytes(9_000)), (MS * 500, Bytes(1))];
    let mut scenario = dumbbell(1, Kind::Trace { writes });
    scenario.traffic[0].start = Start::At(MS * 100);
    let results = run(&scenario);
    assert_eq!(results.table("flows").unwrap().whole("goodput_bytes"), [13_001]);
    let transfers = results.table("transfers").unwrap();
    assert_eq!(transfers.whole("bytes"), [4_000, 9_001]);
}

/// A stop ends an endless transfer. All data written before the stop still arrives.
///
/// Catches: a stop that is ignored.
#[test]
fn a_greedy_connection_that_is_stopped_ends() {
    let mut scenario = dumbbell(1, Kind::Greedy);
    scenario.run.duration = Duration::from_secs(6);
    scenario.traffic[0].start = Start::At(Duration::ZERO);
    scenario.traffic[0].stop = Some(Duration::from_secs(2));
    let results = run(&scenario);
    let goodput = results.table("flows").unwrap().whole("goodput_bytes")[0];
    assert_eq!(goodput % (1 << 18), 0, "{goodput}");
    // 2 s at 20 Mbit/s, plus at most the queue and one chunk.
    assert!((4_500_000..6_500_000).contains(&goodput), "{goodput}");
}

/// Catches: flows that use the same random numbers in every run.
#[test]
fn the_same_seed_gives_the_same_run_and_other_seeds_give_others() {
    let mut scenario = dumbbell(4, Kind::Greedy);
    let first = run(&scenario);
    assert!(first == run(&scenario));
    scenario.run.seed = 2;
    assert_ne!(first.fingerprint, run(&scenario).fingerprint);
}

/// Catches: failures that are not reported, for example when no host answers a SYN.
#[test]
fn a_client_that_gets_no_answer_fails_and_tries_again() {
    let mut scenario = dumbbell(
        1,
        Kind::Web {
            request: Distribution::Constant(Bytes(300)),
            answer: Distribution::Constant(Bytes(9_000)),
            think: Distribution::Constant(MS * 1_000),
        },
    );
    // The link loses every packet back, so a client gives up its SYNs after 127 s.
    let link = scenario.links[0].back.as_mut().unwrap();
    std::sync::Arc::make_mut(link).loss = Loss::Bernoulli(Chance::from_ppb(1_000_000_000));
    scenario.run.duration = Duration::from_secs(300);
    let results = run(&scenario);
    assert_eq!(results.table("groups").unwrap().whole("failed_transfers"), [2]);
}
