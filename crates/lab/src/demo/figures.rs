//! The figures that the demonstration measures and prints: rates, fairness, delays and drops.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::phase::{INBOUND, RATE, RTTS};
use crate::traffic::{Echo, Seen, percentile};

/// The figures of all phases.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Demo {
    pub(super) phases: Vec<Figures>,
    /// The effect of held ACKs on downloads whose bottleneck is upstream of the gateway.
    pub(super) inbound: Option<Inbound>,
}

/// The main figures of the downloads whose bottleneck is upstream of the gateway.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Inbound {
    /// Rate of the downloads, divided by the rate that the policy intends for them (the profile).
    pub(super) of_profile: f64,
    /// Added delay of the ping, divided by the added delay without a gateway.
    pub(super) added_of_unmanaged: Option<f64>,
    /// Packets dropped by the gateway.
    pub(super) drops: u64,
}

impl Demo {
    /// The figures of `phases`.
    pub(super) fn new(phases: Vec<Figures>) -> Self {
        let of = |name| phases.iter().find(|phase: &&Figures| phase.name == name);
        let inbound = of("inbound-postack").zip(of("unmanaged")).map(|(it, unmanaged)| Inbound {
            of_profile: it.rate_bps / f64::from(u32::try_from(it.profile_bps).unwrap_or(u32::MAX)),
            added_of_unmanaged: it
                .ping_ms
                .added
                .zip(unmanaged.ping_ms.added.filter(|added| *added > 0.0))
                .map(|(it, unmanaged)| it / unmanaged),
            drops: it.drops,
        });
        Self { phases, inbound }
    }
}

/// The figures of a phase. Bytes are counted on the wire when they arrive at the client.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) name: &'static str,
    pub(super) parameters: String,
    /// Length of the measured time in seconds. It leaves out the beginning of the phase.
    pub(super) seconds: f64,
    /// Jain's fairness index of the rates of the downloads: 1 if all rates are equal. It is rounded
    /// to four digits, because single packets change the other digits from run to run.
    pub(super) jain: f64,
    /// Total rate of all traffic, in bits per second.
    pub(super) rate_bps: f64,
    /// The total rate that the policy intends for the downloads.
    pub(super) profile_bps: u64,
    pub(super) flows: Vec<FlowFigures>,
    pub(super) ping_ms: PingFigures,
    /// Packets dropped by the gateway since the beginning of the phase.
    pub(super) drops: u64,
    /// Packets dropped at the bottleneck, if the bottleneck is not the gateway.
    pub(super) drops_elsewhere: u64,
}

/// The figures of one download.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct FlowFigures {
    pub(super) rtt_ms: u64,
    pub(super) rate_bps: f64,
}

/// Round-trip times that another host measures at the same time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct PingFigures {
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    /// The median, minus the round-trip time of the path without queues.
    pub(super) added: Option<f64>,
}

/// Rate of each download, and of all traffic, between two samples, in bits per second.
pub(super) fn rates(from: &Seen, to: &Seen, servers: &[std::net::IpAddr]) -> (Vec<f64>, f64) {
    let span = Duration::from_millis(to.at_ms.saturating_sub(from.at_ms)).as_secs_f64().max(1e-3);
    let bps = |from: u64, to: u64| {
        8.0 * f64::from(u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX)) / span
    };
    let of = |seen: &Seen, server| seen.tcp.get(server).copied().unwrap_or(0);
    let flows = servers.iter().map(|server| bps(of(from, server), of(to, server))).collect();
    (flows, bps(from.bytes, to.bytes))
}

/// Jain's fairness index: `(sum x)^2 / (n * sum x^2)`. Returns 1 if there are no rates.
///
/// Source: the paper `aggregates`, section 4.
pub(super) fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    let count = rates.iter().map(|_| 1.0).sum::<f64>();
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

/// Statistics of the `echoes` that were requested at or after `from_ms`.
pub(super) fn pings(echoes: &[Echo], from_ms: u64) -> PingFigures {
    let counted = echoes.iter().filter(|echo| echo.at_ms >= from_ms);
    let mut rtts: Vec<_> =
        counted.map(|echo| Duration::from_secs_f64(echo.rtt_ms.max(0.0) / 1e3)).collect();
    rtts.sort_unstable();
    let p50 = percentile(&rtts, 50);
    let added = p50.map(|ms| (ms - RTTS[0].as_secs_f64() * 1e3).max(0.0));
    PingFigures { p50, p99: percentile(&rtts, 99), added }
}

impl fmt::Display for Demo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Mbit/s on the wire, after the first seconds of each phase:")?;
        write!(f, "{:<20}", "")?;
        for rtt in RTTS {
            write!(f, "{:>8}", format!("{} ms", rtt.as_millis()))?;
        }
        writeln!(
            f,
            "{:>8}{:>8}{:>14}{:>10}{:>7}{:>11}",
            "sum", "Jain", "ping p50/p99", "added", "drops", "elsewhere"
        )?;
        for phase in &self.phases {
            write!(f, "{:<20}", phase.name)?;
            for flow in &phase.flows {
                write!(f, "{:>8.2}", flow.rate_bps / 1e6)?;
            }
            let ms =
                |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"));
            let ping = &phase.ping_ms;
            let both = format!("{}/{} ms", ms(ping.p50), ms(ping.p99));
            let added = format!("{} ms", ms(ping.added));
            let (sum, jain, drops) = (phase.rate_bps / 1e6, phase.jain, phase.drops);
            let elsewhere = phase.drops_elsewhere;
            writeln!(f, "{sum:>8.2}{jain:>8.3}{both:>14}{added:>10}{drops:>7}{elsewhere:>11}")?;
        }
        self.conclude(f)
    }
}

impl Demo {
    fn conclude(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |name| self.phases.iter().find(|phase| phase.name == name);
        let (Some(first), Some(last)) = (of("unmanaged"), of("logical-partitions")) else {
            return Ok(());
        };
        write!(
            f,
            "\nYou saw the same four downloads on the same paths: unmanaged, the fastest got {:.1} times \
             as much as the slowest; with `{}` {:.1} times, and together {:.2} of {RATE}.\n{}\
             Next: `tidegate init` writes a policy file for this machine, and `tidegate lab` tries one \
             before it is deployed (docs/operate/lab.md).",
            first.spread(),
            last.name,
            last.spread(),
            last.rate_bps / 1e6,
            self.inbound.map(|it| it.to_string()).unwrap_or_default(),
        )
    }
}

impl fmt::Display for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let added = self.added_of_unmanaged.map_or_else(|| "-".to_owned(), percent);
        writeln!(
            f,
            "With the bottleneck upstream of the gateway, holding ACKs gave the downloads {} of {INBOUND}. The \
             ping's added delay was {added} of the unmanaged one, and the gateway dropped {} packets.",
            percent(self.of_profile),
            self.drops,
        )
    }
}

impl Figures {
    /// The rate of the fastest download, divided by the rate of the slowest.
    fn spread(&self) -> f64 {
        let rates = self.flows.iter().map(|flow| flow.rate_bps);
        let (low, high) = rates.fold((f64::MAX, 0.0f64), |(l, h), it| (l.min(it), h.max(it)));
        high / low.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equal_rates_and_one_in_n_for_a_single_rate() {
        assert!((jain(&[2.0; 4]) - 1.0).abs() < 1e-12);
        assert!((jain(&[8.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[0.0; 4]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn rates_are_measured_between_two_samples() {
        let server = std::net::IpAddr::from([10, 0, 0, 1]);
        let look = |at_ms, bytes| Seen { at_ms, bytes: bytes + 100, tcp: [(server, bytes)].into() };
        let (flows, all) = rates(&look(1_000, 500), &look(3_000, 2_500), &[server]);
        assert_eq!((flows, all), (vec![8_000.0], 8_000.0));
    }
}
