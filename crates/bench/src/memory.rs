//! What an idle flow takes in memory, all that is kept for it counted by the allocator.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tidegate_core::flow::FlowTable;
use tidegate_core::packet::{Direction, FlowKey};
use tidegate_core::{Packet, Time};

use crate::cases;
use crate::number::real;
use crate::report::{Line, Report};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Makes a flow for each of `keys`.
pub(crate) fn fill(table: &mut FlowTable, keys: &[FlowKey]) {
    for key in keys {
        let packet = Packet { key: *key, ..Packet::default() };
        table.insert(Time::ZERO, &packet, Direction::Up, |_, _| false);
    }
}

/// Flows that have gone idle.
const FLOWS: u32 = 100_000;

/// Bytes each of them may take.
const MOST: f64 = 256.0;

/// Adds what an idle flow takes to `report`.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    report.section("Memory");
    let (one, all) = (heap(1)?, heap(FLOWS)?);
    report.add(Line {
        what: format!("an idle flow, of {FLOWS}"),
        value: (all - one) / f64::from(FLOWS - 1),
        unit: "B",
        most: Some(MOST),
        beside:
            "its place in the flow table, in a shaped aggregate, in its logical partitions, in its \
                 queue and in that of the link, with what these lists have in reserve"
                .to_owned(),
    });
    Ok(())
}

/// Bytes on the heap now.
pub(crate) fn held() -> u64 {
    let it = HEAP.stats();
    let held = it.bytes_allocated.wrapping_sub(it.bytes_deallocated);
    u64::try_from(held).unwrap_or(0)
}

/// Bytes on the heap for a gateway that has seen a packet of each of so many flows, and sent it.
fn heap(flows: u32) -> anyhow::Result<f64> {
    let region = Region::new(HEAP);
    let gateway = cases::idle_gateway(flows)?;
    let change = region.change();
    drop(gateway);
    let bytes = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
    Ok(real(u64::try_from(bytes)?))
}
