//! Alarms about the ports: frames that a port could not send, checksums that it could not complete,
//! and a loop that hangs.
//!
//! An alarm lasts for [`RECENT`] after the last such event.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_core::{Reason, Time};
use tidegate_dataplane::{PortCounters, Refusal, Refused};

use super::plane::PlaneSnapshot;
use crate::api::Ports;

/// Time for which an alarm outlasts its cause. Most monitoring systems poll at least this often.
const RECENT: Duration = Duration::from_secs(60);

/// The alarms in force.
pub(super) fn of(seen: &PlaneSnapshot, ports: &Ports) -> Vec<String> {
    let names = [&ports.lan, &ports.wan];
    let others = [&ports.wan, &ports.lan];
    let is_recent = |at: Time| seen.now.since(at) < RECENT;
    let mut alarms = Vec::new();
    if seen.hangs >= HANGS && is_recent(seen.hung_at) {
        alarms.push(hung(seen));
    }
    for ((port, name), other) in seen.ports.iter().zip(names).zip(others) {
        if let Some(last) = port.refused.filter(|last| is_recent(last.at)) {
            alarms.push(refused(port, &last, name, other));
        }
        if port.events.unfinished > 0 && is_recent(port.unfinished_at) {
            alarms.push(unfinished(port, name));
        }
    }
    alarms
}

/// Number of hangs that raises an alarm. A single hang may come from a suspended machine.
const HANGS: u64 = 2;

fn hung(seen: &PlaneSnapshot) -> String {
    let stale: u64 = seen.ports.iter().map(|port| port.drops.of(Reason::Stale)).sum();
    format!(
        "the gateway hung {} times so far: meanwhile frames bypassed it, and {stale} were dropped as stale; \
         the machine is too busy: give the gateway a processor or CAP_SYS_NICE, or raise `heartbeat`",
        seen.hangs
    )
}

fn refused(port: &PortCounters, last: &Refused, name: &str, other: &str) -> String {
    let frames = port.drops.of(Reason::Refused);
    let Refused { key, len, why, .. } = last;
    let [src, dst] = [key.src, key.dst].map(|end| SocketAddr::new(end.address(), end.port));
    let protocol = key.protocol.0;
    let start = format!(
        "`{name}` has refused frames, {frames} so far; the last one, of {len} bytes, was from {src} to {dst} \
         (protocol {protocol})"
    );
    match why {
        Refusal::Kernel(error) => format!("{start}: {}", io::Error::from_raw_os_error(*error)),
        Refusal::Whole => format!(
            "{start}: neither the kernel nor the gateway can split this super-packet; run `ethtool -K {other} gro off`"
        ),
    }
}

fn unfinished(port: &PortCounters, name: &str) -> String {
    format!(
        "`{name}` receives frames with an unfinished checksum inside more tunnels than the gateway reads, {} so far; \
         receivers drop them; run `ethtool -K PORT tx off` for the PORT at the other end of `{name}`",
        port.events.unfinished
    )
}

#[cfg(test)]
mod tests {
    use tidegate_core::packet::{Endpoint, FlowKey, Protocol};
    use tidegate_gateway::report::{PortCount, Report};

    use super::*;

    fn seen(now: u64, wan: PortCounters) -> PlaneSnapshot {
        PlaneSnapshot {
            report: Report::default(),
            ports: vec![PortCounters::default(), wan],
            hangs: 0,
            occupied: Duration::ZERO,
            hung_at: Time::ZERO,
            bypassed: Vec::new(),
            passing: false,
            now: Time::from_secs(now),
        }
    }

    fn ports() -> Ports {
        Ports { lan: "lan".to_owned(), wan: "wan".to_owned(), ..Ports::default() }
    }

    /// Catches: an alarm that names the wrong port; an alarm that never ends; no alarm.
    #[test]
    fn a_refused_frame_is_named_for_a_minute() {
        let key = FlowKey {
            src: Endpoint::v4([10, 0, 0, 1], 5),
            dst: Endpoint::v4([10, 0, 0, 2], 6),
            protocol: Protocol::UDP,
        };
        let refused = |why| Some(Refused { key, len: 9_000, why, at: Time::from_secs(100) });
        let of = |now, why| {
            of(
                &seen(now, PortCounters { refused: refused(why), ..PortCounters::default() }),
                &ports(),
            )
        };
        let said = of(159, Refusal::Kernel(105));
        assert!(said[0].starts_with("`wan` has refused"), "{said:?}");
        assert!(said[0].contains("from 10.0.0.1:5 to 10.0.0.2:6 (protocol 17)"), "{said:?}");
        assert!(said[0].contains("No buffer space"), "{said:?}");
        assert!(of(100, Refusal::Whole)[0].ends_with("`ethtool -K lan gro off`"));
        assert_eq!(of(160, Refusal::Whole), [""; 0]);
    }

    /// Catches: no alarm after repeated hangs; an alarm after a single hang; an alarm that never
    /// ends.
    #[test]
    fn a_gateway_that_hangs_again_and_again_is_an_alarm() {
        let of = |now, hangs| {
            let mut port = PortCounters::default();
            (0..99).for_each(|_| port.drops.count(Reason::Stale));
            of(&PlaneSnapshot { hangs, hung_at: Time::from_secs(100), ..seen(now, port) }, &ports())
        };
        let said = of(159, 2);
        assert!(said.len() == 1 && said[0].contains("hung 2 times so far"), "{said:?}");
        assert!(said[0].contains("99 were dropped as stale"), "{said:?}");
        assert_eq!((of(160, 2), of(159, 1)), (vec![], vec![]));
    }

    /// Catches: an alarm although every checksum was completed; an alarm that names no remedy.
    #[test]
    fn unfinished_checksums_are_an_alarm_that_says_what_helps() {
        let counters = PortCounters {
            events: PortCount { unfinished: 3, ..PortCount::default() },
            unfinished_at: Time::from_secs(100),
            ..PortCounters::default()
        };
        let said = of(&seen(120, counters), &ports());
        assert!(said.len() == 1 && said[0].contains("`ethtool -K PORT tx off`"), "{said:?}");
        assert!(
            said[0].starts_with("`wan` receives") && said[0].contains("reads, 3 so far"),
            "{said:?}"
        );
        assert_eq!(of(&seen(1, PortCounters::default()), &ports()), [""; 0]);
    }
}
