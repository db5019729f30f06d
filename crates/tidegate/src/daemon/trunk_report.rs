//! The state of trunks for the API. A trunk carries the user packets between two gateways. Its rate
//! is measured between two samples.

use std::collections::BTreeMap;

use tidegate_core::Rate;
use tidegate_core::trunk::{Probing, TrunkReport};
use tidegate_dataplane::trunk::PeerReport;
use tidegate_gateway::GatewayConfig;
use tokio::time::Instant;

use super::millis;
use crate::api::{Encapsulation, OtherEnd, Trunk, TrunkWeight};

/// For each trunk, the bytes sent until the last sample, and the rate before that sample.
#[derive(Default)]
pub(super) struct Rates(BTreeMap<String, Look>);

/// The last sample of a trunk.
struct Look {
    at: Instant,
    bytes: u64,
    rate: u64,
}

impl Rates {
    /// Samples `trunks`. Must be called about once a second.
    pub(super) fn look(&mut self, now: Instant, trunks: &[TrunkReport]) {
        for trunk in trunks {
            let bytes = trunk.counts.sent_bytes();
            let rate = self.0.get(&trunk.name).map_or(0, |before| {
                let nanos = now.saturating_duration_since(before.at).as_nanos().max(1);
                let bits = u128::from(bytes.saturating_sub(before.bytes)) * 8;
                u64::try_from(bits * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
            });
            self.0.insert(trunk.name.clone(), Look { at: now, bytes, rate });
        }
    }

    /// Rate of the trunk called `name` between the last two samples, in bits per second.
    fn of(&self, name: &str) -> u64 {
        self.0.get(name).map_or(0, |look| look.rate)
    }
}

/// The API's view of `trunks`. `peers` lists the other ends of the trunks; it is empty in tests
/// without ports.
pub(super) fn trunks(
    trunks: &[TrunkReport],
    peers: &[PeerReport],
    config: &GatewayConfig,
    rates: &Rates,
) -> Vec<Trunk> {
    let all = trunks.iter().zip(&config.trunks).enumerate();
    let trunk =
        |(number, (it, config)): (usize, (&TrunkReport, &tidegate_core::trunk::Config))| Trunk {
            name: it.name.clone(),
            local: config.local.to_string(),
            peer: config.peer.to_string(),
            other_end: peers.get(number).map(other_end),
            encapsulation: peers.get(number).and_then(encapsulation),
            rate_bps: rates.of(&it.name),
            window_packets: it.state.window,
            rtt_us: it.state.rtt.and_then(|rtt| u64::try_from(rtt.as_micros()).ok()),
            credit_bytes: it.state.credit,
            missing_bytes: (config.probing == Probing::Epochs).then_some(it.counts.missing),
            counts: it.counts,
            waiting: it.backlog,
            connections: u64::from(config.channels()),
            active: u64::from(it.state.active),
            weight: weight(it, config),
            silent: u64::try_from(it.state.silent).unwrap_or(0),
        };
    all.map(trunk).collect()
}

/// An alarm for each trunk whose two ends have different settings.
pub(super) fn mismatches(trunks: &[Trunk]) -> impl Iterator<Item = String> {
    trunks.iter().filter_map(|trunk| {
        let setting = trunk.other_end.as_ref()?.difference.as_deref()?;
        Some(format!(
            "trunk `{}` carries nothing: the other gateway has another `{setting}`; write the same in both files",
            trunk.name
        ))
    })
}

/// The weight of a trunk, if it has one.
fn weight(it: &TrunkReport, config: &tidegate_core::trunk::Config) -> Option<TrunkWeight> {
    let (report, adjuster) = (it.weight?, config.weight.as_ref()?);
    let decisions = report.decisions;
    Some(TrunkWeight {
        weight: report.weight.real(),
        kind: adjuster.kind.name().to_owned(),
        busy: report.last.map(|round| round.busy.real()),
        offered_bps: report.last.map(|round| round.offered.bps()),
        service_bps: report.last.and_then(|round| round.service).map(Rate::bps),
        increased: decisions.increased + decisions.forced,
        decreased: decisions.decreased,
        held: decisions.held,
        abandoned: decisions.abandoned,
    })
}

fn other_end(it: &PeerReport) -> OtherEnd {
    let state = match it.heard {
        _ if it.difference.is_some() => "mismatch",
        None => "unknown",
        Some(_) if it.is_up() => "up",
        Some(_) => "silent",
    };
    let refused = it.refused.iter().filter(|(_, count)| *count > 0);
    OtherEnd {
        state: state.to_owned(),
        heard_ms: it.heard.map(millis),
        difference: it.difference.map(|it| it.name().to_owned()),
        sessions: it.sessions,
        next_hop: it.next_hop.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":")),
        hellos: it.taken.hellos,
        segments: it.taken.segments,
        refused: refused.map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
    }
}

fn encapsulation(it: &PeerReport) -> Option<Encapsulation> {
    let carried = it.carried?;
    Some(Encapsulation {
        path_mtu_bytes: it.path_mtu.into(),
        sent_packets: carried.sent,
        received_packets: carried.received,
        fragments: carried.fragments,
        too_big_packets: carried.too_big,
        told_senders: carried.errors,
        ignored_reports: it.ignored,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_core::trunk::TrunkCounters;

    use super::*;

    #[test]
    fn a_rate_is_measured_between_two_samples() {
        let report = |bytes| TrunkReport {
            name: "t".to_owned(),
            counts: TrunkCounters { elastic: bytes, guaranteed: 500, ..TrunkCounters::default() },
            backlog: Default::default(),
            state: Default::default(),
            weight: None,
        };
        let (mut rates, begin) = (Rates::default(), Instant::now());
        for (after, bytes, expected) in
            [(0, 1_000, 0), (1_000, 126_000, 1_000_000), (3_000, 126_000, 0)]
        {
            rates.look(begin + Duration::from_millis(after), &[report(bytes)]);
            assert_eq!(rates.of("t"), expected, "{after}");
        }
        assert_eq!(rates.of("another"), 0);
    }
}
