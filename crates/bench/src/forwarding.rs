//! Processor time of a forwarded packet: through the gateway, through its loop without a gateway,
//! and through the kernel.

use std::time::Duration;

use tidegate_e2e::{Testbed, pause};

use crate::live::{self, Forwarder, ourselves, ready};
use crate::load::{FRAME, PORT};
use crate::number::{median, real};
use crate::report::{Line, Report};
use crate::usage::{softirq_threads, time_of};

/// The kind of forwarder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// The kernel's bridge.
    Bridge,
    /// The gateway's loop with AF_XDP ports, but without a gateway.
    Bare,
    /// The gateway, which shapes all packets at a rate above the load.
    Managed,
    /// Only the XDP programs that bypass the gateway.
    Redirect,
    /// The gateway without policies and without a link rate.
    Unmanaged,
}

const KINDS: [Kind; 5] = [Kind::Bridge, Kind::Bare, Kind::Managed, Kind::Redirect, Kind::Unmanaged];

/// Limits for the cost of the first forwarder relative to the second.
const LIMITS: [(Kind, Kind, f64); 3] = [
    (Kind::Managed, Kind::Bare, 1.5),
    (Kind::Bare, Kind::Bridge, 2.2),
    (Kind::Unmanaged, Kind::Redirect, 1.2),
];

/// Number of measurements of each forwarder. The forwarders are measured alternately.
const ROUNDS: usize = 5;

/// The load: full-size frames per second, and length of a burst.
const LOAD: (&str, &str) = ("60000", "60");

const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(2);

/// Duration of the load in milliseconds, longer than the measurement.
const LASTS: &str = "4000";

/// Adds the relative costs to `report`.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    report.section("Processor time of a forwarded 1514-byte frame, hosts and softirqs included");
    let mut costs: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        for (kind, costs) in KINDS.into_iter().zip(&mut costs) {
            let Some(bed) = Testbed::new() else {
                report.skip("forwarding; there are no network namespaces here: run it as root");
                return Ok(());
            };
            costs.push(cost(&bed, &start(&bed, kind)?)?);
        }
    }
    let costs = costs.map(median);
    let of =
        |kind| KINDS.into_iter().zip(costs).find(|(each, _)| *each == kind).map(|(_, cost)| cost);
    for (kind, base, most) in LIMITS {
        let (cost, base_cost) = (of(kind).unwrap_or_default(), of(base).unwrap_or_default());
        report.add(Line {
            what: format!("{kind:?} to {base:?}"),
            value: cost / base_cost,
            unit: "x",
            most: Some(most),
            beside: format!("{cost:.0} ns, {base_cost:.0} ns"),
        });
    }
    Ok(())
}

/// Processor time in nanoseconds of each packet that `forwarder` forwards.
pub(crate) fn cost(bed: &Testbed, forwarder: &Forwarder<'_>) -> anyhow::Result<f64> {
    let sink = ready(&bed.wan, &["sink", LASTS])?;
    let to = format!("{}:{PORT}", bed.wan.v4);
    let words = ["send", to.as_str(), LOAD.0, LOAD.1, LASTS, "8"];
    let sender = tidegate_e2e::Process::start(&mut ourselves(&bed.lan, &words)?);
    let mut processes = vec![sink.id(), sender.id()];
    processes.extend(forwarder.process());
    processes.extend(softirq_threads());
    pause(WARM_UP);
    let before = (time_of(&processes)?, bed.wan.received_bytes("eth0"));
    pause(MEASURED);
    let after = (time_of(&processes)?, bed.wan.received_bytes("eth0"));
    let packets = (after.1 - before.1) / u64::from(FRAME);
    anyhow::ensure!(packets > 10_000, "only {packets} packets were forwarded");
    Ok(real(after.0 - before.0) / real(packets))
}

fn start(bed: &Testbed, kind: Kind) -> anyhow::Result<Forwarder<'_>> {
    const EVERYTHING: &str = "[[policy]]\nname = \"all\"\nmatch = {}\naction = \"shape\"\n\
        profile = { mean = \"10 Gbit/s\", burst = \"256 KiB\" }\nallocation = \"logical-partitions\"\n";
    Ok(match kind {
        Kind::Bridge => {
            bed.bridge();
            Forwarder::Kernel
        }
        Kind::Bare => live::ours(bed, "bare")?,
        Kind::Redirect => live::ours(bed, "redirect")?,
        Kind::Managed => Forwarder::Gateway(bed.gateway("af-xdp", EVERYTHING)),
        Kind::Unmanaged => Forwarder::Gateway(bed.gateway("af-xdp", "")),
    })
}
