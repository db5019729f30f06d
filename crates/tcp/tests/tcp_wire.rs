//! Two end points over a link that loses, reorders, duplicates and marks.

mod tcp;

use std::time::Duration;

use proptest::prelude::*;
use tcp::{Net, Wire};
use tidegate_base::{Chance, Rate, Time};
use tidegate_tcp::{Config, Event, Profile};

const PROFILES: [Profile; 3] = [Profile::Ns2, Profile::Rfc, Profile::Linux];

#[test]
fn a_megabyte_over_a_perfect_link_needs_no_retransmission() {
    for profile in PROFILES {
        let config = Config::new(profile);
        let wire = Wire { queue: 1 << 20, ..Wire::default() };
        let mut net = Net::new([&config; 2], [u32::MAX - 5, 7], [wire; 2], 1);
        net.ends[0].connection.write(1_000_000);
        net.ends[0].connection.close();
        net.run_until(Time::from_secs(10));
        let sent = net.statistics(0);
        assert_eq!((net.whole(1), sent.acknowledged), (1_000_000, 1_000_000), "{profile:?}");
        assert_eq!((sent.retransmitted, sent.timeouts), (0, 0), "{profile:?}: {sent:?}");
        assert_eq!(
            net.ends[0].events,
            [Event::Established, Event::PeerClosed, Event::Closed],
            "{profile:?}"
        );
    }
}

fn wires() -> impl Strategy<Value = Wire> {
    let percent = |most: u32| (0..=most).prop_map(|percent| Chance::from_ppb(percent * 10_000_000));
    (0..60u64, 0..30u64, percent(20), percent(10), percent(20), 1..200u64, 3..100u64).prop_map(
        |(delay, jitter, loss, duplication, marking, rate, queue)| Wire {
            delay: Duration::from_millis(delay),
            jitter: Duration::from_millis(jitter),
            loss,
            duplication,
            marking,
            rate: Rate::from_kbps(100 * rate),
            queue: queue * 1_600,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_and_both_ends_close(
        wires in [wires(), wires()],
        profiles in [0..3usize, 0..3usize],
        isns: [u32; 2],
        bytes in [0..200_000u64, 0..100_000u64],
        seed: u64,
    ) {
        // TIME-WAIT lasts long enough for the other end to repeat its FIN.
        let configs = profiles.map(|n| {
            let mut config = Config::new(PROFILES[n]);
            config.details.time_wait = Duration::from_secs(600);
            config
        });
        let mut net = Net::new([&configs[0], &configs[1]], isns, wires, seed);
        for (end, bytes) in net.ends.iter_mut().zip(bytes) {
            end.connection.write(bytes);
        }
        net.ends[0].connection.close();
        net.run_until(Time::from_secs(7_200));
        for end in 0..2 {
            let events = &net.ends[end].events;
            if events.contains(&Event::TimedOut) {
                // On such a link, only a handshake may fail.
                prop_assert!(!events.contains(&Event::Established), "{events:?} {:?}", net.statistics(end));
                return Ok(());
            }
        }
        for end in 0..2 {
            prop_assert_eq!(net.whole(end), bytes[1 - end]);
            prop_assert_eq!(net.statistics(end).received, bytes[1 - end]);
            prop_assert_eq!(net.statistics(1 - end).acknowledged, bytes[1 - end]);
            prop_assert_eq!(net.ends[end].events.last(), Some(&Event::Closed));
            prop_assert!(net.ends[end].connection.is_closed());
        }
    }
}
