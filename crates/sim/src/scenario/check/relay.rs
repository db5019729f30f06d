//! Checks of relays.
//!
//! Methods of `Check`, whose fields are in `check.rs`.

use std::time::Duration;

use tidegate_core::Bytes;

use super::Check;
use crate::scenario::{Kind, Place, Start, Traffic, What};

impl Check<'_> {
    /// Checks a relay: each of its flows must start at the host where the forwarded flow ends.
    pub(super) fn relay(&mut self, n: usize, relay: &Traffic) {
        let Kind::Relay { of, buffer } = &relay.kind else { return };
        let place = |field| Place::Traffic(n, field);
        if *buffer == Bytes::ZERO {
            self.wrong(place("buffer"), What::Zero("would forward nothing"));
        }
        if relay.stop.is_some() {
            self.wrong(
                place("stop"),
                What::Relay("a relay ends with the traffic that it forwards; write `stop` there"),
            );
        }
        let earlier = &self.scenario.traffic[..n];
        let Some(first) = earlier.iter().find(|it| it.name == *of) else {
            let what = What::Unknown { kind: "earlier traffic", name: of.clone() };
            return self.wrong(place("of"), what);
        };
        let is_other = |it: &Traffic| matches!(&it.kind, Kind::Relay { of: it, .. } if it == of);
        if earlier.iter().any(is_other) {
            self.wrong(
                place("of"),
                What::Relay("another relay already forwards this traffic; remove one of the two"),
            );
        }
        if !first.kind.is_tcp() || matches!(first.kind, Kind::Aggregate { .. }) {
            let what = "a relay forwards TCP with one sender for each flow; this is UDP, or an aggregate connection";
            self.wrong(place("of"), What::Relay(what));
        }
        let each = matches!(
            first.kind,
            Kind::OnOff { reconnect: true, .. } | Kind::Arrivals { .. } | Kind::Web { .. }
        );
        if each && relay.start != Start::At(Duration::ZERO) {
            let what = "a relay of this traffic opens a connection for each incoming one; leave `start` out";
            self.wrong(place("start"), What::Relay(what));
        }
        if relay.flows != first.flows {
            let what = "a relay must have as many flows as the traffic that it forwards";
            self.wrong(place("flows"), What::Relay(what));
        }
        let receivers = first.pairs.iter().map(|pair| &pair.to);
        if !relay.pairs.iter().map(|pair| &pair.from).eq(receivers) {
            let what = "a relay's senders must be the receivers of the traffic that it forwards, in the same order";
            self.wrong(place("from"), What::Relay(what));
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Rate;

    use super::*;
    use crate::scenario::{Distribution, Pair, Problem, Scenario};
    use crate::testing::relayed;

    const BUFFER: Bytes = Bytes(65_536);

    type Change = fn(&mut Scenario);

    fn said(change: Change) -> String {
        let mut scenario = relayed(2, Kind::Greedy, BUFFER);
        change(&mut scenario);
        scenario.check().iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
    }

    fn of(name: &str) -> Kind {
        Kind::Relay { of: name.into(), buffer: BUFFER }
    }

    /// Adds a second relay, which forwards the flows of the relay in `scenario`.
    fn third(scenario: &mut Scenario) -> &mut Traffic {
        let back = |pair: &Pair| Pair { from: pair.to.clone(), to: pair.from.clone() };
        let pairs = scenario.traffic[1].pairs.iter().map(back).collect();
        let kind = of("onward");
        scenario.traffic.push(Traffic { name: "third".into(), kind, pairs, ..Traffic::default() });
        scenario.traffic.last_mut().unwrap()
    }

    #[test]
    fn a_relay_of_suitable_traffic_is_accepted() {
        assert_eq!(said(|_| {}), "");
        let file = |it: &mut Scenario| {
            it.traffic[0].kind = Kind::File { size: Distribution::Constant(Bytes(9)) };
        };
        assert_eq!(said(file), "");
        assert_eq!(said(|it| third(it).flows = 1), "");
    }

    /// Catches: a check that is left out; each case breaks one rule.
    #[test]
    fn each_error_of_a_relay_is_reported_at_its_field() {
        let cases: [(Change, &str); 10] = [
            (
                |it| it.traffic[1].kind = Kind::Relay { of: "all".into(), buffer: Bytes::ZERO },
                "traffic[1].buffer: it is zero",
            ),
            (
                |it| it.traffic[1].stop = Some(Duration::from_secs(1)),
                "traffic[1].stop: a relay ends with",
            ),
            (|it| it.traffic[1].kind = of("al"), "traffic[1].of: there is no earlier traffic `al`"),
            (|it| it.traffic.swap(0, 1), "traffic[0].of: there is no earlier traffic `all`"),
            (|it| it.traffic[1].kind = of("onward"), "traffic[1].of: there is no earlier traffic"),
            (|it| third(it).kind = of("all"), "traffic[2].of: another relay already forwards"),
            (
                |it| {
                    let packet = 500;
                    it.traffic[0].kind = Kind::Constant { rate: Rate::from_mbps(1), packet };
                },
                "traffic[1].of: a relay forwards TCP",
            ),
            (|it| it.traffic[0].flows = 2, "traffic[1].flows: a relay must have as many flows"),
            (
                |it| drop(it.traffic[1].pairs.pop()),
                "traffic[1].from: a relay's senders must be the receivers",
            ),
            (|it| it.traffic[1].pairs.swap(0, 1), "traffic[1].from: a relay's senders must be"),
        ];
        for (change, expected) in cases {
            let said = said(change);
            assert!(said.starts_with(expected), "{expected}: {said}");
        }
    }

    /// Catches: a start time of a relay that is accepted but ignored.
    #[test]
    fn a_relay_of_many_connections_has_no_start_of_its_own() {
        let every = Duration::from_secs(1);
        let mut scenario = relayed(1, Kind::Greedy, BUFFER);
        scenario.traffic[0].kind = Kind::Arrivals { every, size: Distribution::Constant(Bytes(9)) };
        assert_eq!(scenario.check(), []);
        scenario.traffic[1].start = Start::At(every);
        let found = scenario.check();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(matches!(found[0].what, What::Relay(_)), "{found:?}");
    }
}
