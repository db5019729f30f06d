//! Heap memory of an idle flow and of an idle class, counted by the allocator.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_gateway::Gateway;

use crate::cases::{self, GROUP};
use crate::number::real;
use crate::report::{Line, Report};

/// The allocator of the program, with counters.
#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of idle flows in the measurement.
const FLOWS: u32 = 100_000;

/// Limit in bytes for the memory of PostACK for each flow.
const MOST: f64 = 256.0;

/// Limit in bytes for a flow whose LAN address has no other flow. The target was [`MOST`]. But the
/// state of the address (a host of the queue `hosts`) alone takes more than half of it
/// (`docs/understand/costs.md`).
const MOST_WITH_ADDRESS: f64 = 512.0;

/// The same limit if the queue of the link is `hosts`, which keeps state for each host and each
/// flow.
const MOST_WITH_HOST: f64 = 704.0;

/// Adds the memory of an idle flow to `report`.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    report.section("Memory");
    let queues = [
        ("", QdiscSpec::PerFlow(Default::default()), MOST_WITH_ADDRESS),
        (" and the queue `hosts`", QdiscSpec::Hosts(Default::default()), MOST_WITH_HOST),
    ];
    for (with, queue, most) in queues {
        let flows = |flows| heap(|| cases::idle_gateway(flows, queue.clone()));
        let (one, all) = (flows(1)?, flows(FLOWS)?);
        report.add(Line {
            what: format!("an idle flow with an address of its own{with}, of {FLOWS}"),
            value: (all - one) / f64::from(FLOWS - 1),
            unit: "B",
            most: Some(most),
            beside:
                "its place in the flow table, its address among the hosts of the LAN, its place in a shaped aggregate, in its logical partitions, in its \
                 queue and in that of the link, with what these lists have in reserve"
                    .to_owned(),
        });
    }
    let idle = |control, flows| heap(|| cases::answered_gateway(control, flows));
    let each = |some: f64, all: f64| (all - some) / f64::from(FLOWS - GROUP);
    let without = each(idle(false, GROUP)?, idle(false, FLOWS)?);
    report.add(Line {
        what: format!("memory of PostACK for an idle flow, of {FLOWS}"),
        value: each(idle(true, GROUP)?, idle(true, FLOWS)?) - without,
        unit: "B",
        most: Some(MOST),
        beside: format!(
            "ACKs of each flow were held; in addition to {without:.0} B of a flow that is only shaped; a \
             held ACK takes 20 B more"
        ),
    });
    classes(report)
}

/// Adds the memory of idle classes, and the time to create and drop them, to `report`.
pub(crate) fn classes(report: &mut Report) -> anyhow::Result<()> {
    report.section("Idle classes");
    let bytes = |classes| heap(|| cases::classified_gateway(classes));
    let (one, all) = (bytes(1)?, bytes(CLASSES)?);
    report.add(Line {
        what: format!("an idle class of the link, of {CLASSES}"),
        value: (all - one) / f64::from(CLASSES - 1),
        unit: "B",
        most: Some(MOST_OF_CLASS),
        beside: "in both directions, with its name and its terms".to_owned(),
    });
    let before = cases::processor_time()?;
    drop(cases::classified_gateway(CLASSES)?);
    report.add(Line {
        what: format!("building a gateway of {CLASSES} classes, and dropping it"),
        value: real(cases::processor_time()? - before) / 1e9,
        unit: "s",
        most: Some(MOST_TIME),
        beside: "processor time, without reading a file".to_owned(),
    });
    Ok(())
}

/// Number of leaf classes without packets. Then the limit in bytes for each, and the limit in
/// seconds to create and drop all classes.
const CLASSES: u32 = 100_000;
const MOST_OF_CLASS: f64 = 1_024.0;
const MOST_TIME: f64 = 1.0;

/// Bytes on the heap now.
pub(crate) fn held() -> u64 {
    let it = HEAP.stats();
    let held = it.bytes_allocated.wrapping_sub(it.bytes_deallocated);
    u64::try_from(held).unwrap_or(0)
}

/// Heap bytes of the gateway that `make` returns.
fn heap(make: impl FnOnce() -> anyhow::Result<Gateway>) -> anyhow::Result<f64> {
    let region = Region::new(HEAP);
    let gateway = make()?;
    let change = region.change();
    drop(gateway);
    let bytes = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
    Ok(real(u64::try_from(bytes)?))
}
