//! The columns of the result tables keep their names, order and types, because scripts read them.

mod networks;

use std::time::Duration;

use networks::{dumbbell, run};
use tidegate_core::Rate;
use tidegate_sim::scenario::Kind;
use tidegate_sim::table::{Table, Values};

/// The line of `table` in [`PUBLISHED`]: its name, and its columns by type.
fn line(table: &Table) -> String {
    let mut text = table.name.clone();
    let mut last = "";
    for column in table.columns() {
        let kind = match column.values {
            Values::Text(_) => "text",
            Values::Whole(_) => "whole",
            Values::Real(_) => "real",
        };
        if kind != last {
            text += &format!("\n  {kind}:");
        }
        text += &format!(" {}", column.name);
        last = kind;
    }
    text
}

/// Catches: a column that is lost, renamed, moved or of another type, also in a table without rows.
#[test]
fn columns_are_those_published() {
    let kind = Kind::Constant { rate: Rate::from_mbps(4), packet: 1_000 };
    let mut scenario = dumbbell(1, kind);
    scenario.run.duration = Duration::from_millis(100);
    let tables: Vec<_> = run(&scenario).tables.iter().map(line).collect();
    assert_eq!(tables.join("\n"), PUBLISHED);
}

/// The columns of each table, which is present in all results.
const PUBLISHED: &str = "groups
  text: group
  whole: flows
  real: throughput_bps goodput_bps jain max_min
  whole: failed_transfers
  real: delay_mean_seconds delay_p50_seconds delay_p95_seconds delay_p99_seconds \
    delay_max_seconds
flows
  text: group from to
  real: start_seconds
  whole: sent_packets sent_bytes received_packets received_bytes goodput_bytes
  real: throughput_bps goodput_bps
  whole: acknowledged_bytes retransmitted_segments recoveries timeouts ecn_reductions
links
  text: from to
  whole: offered_packets offered_bytes delivered_packets delivered_bytes dropped_packets \
    marked_packets
  real: utilisation queue_mean_packets queue_mean_bytes delay_mean_seconds delay_p50_seconds \
    delay_p95_seconds delay_p99_seconds delay_max_seconds
drops
  text: place reason
  whole: dropped_packets marked_packets
aggregates
  text: gateway policy direction
  whole: flows offered_packets offered_bytes conforming_packets conforming_bytes \
    exceeding_packets exceeding_bytes dropped_packets marked_packets
  real: conforming_bps exceeding_bps jain max_min waited_mean_seconds
  whole: late_packets timer_looks peak_waiting_bytes
  real: held_acks
  whole: peak_held_acks uncontrolled_segments ungoverned_segments delayed_acks overdue_acks \
    smaller_windows
trunks
  text: gateway trunk
  whole: management_packets repeated_packets elastic_bytes guaranteed_bytes waiting_bytes
  real: weight busy
  whole: weight_increases weight_decreases
classes
  text: gateway class direction
  whole: sent_packets sent_bytes dropped_packets waiting_packets
  real: delay_mean_seconds delay_max_seconds
promises
  text: gateway class direction term of
  real: promised kept
  whole: violations relaxed
passages
  text: gateway direction group
  whole: arrived_packets arrived_bytes departed_packets departed_bytes dropped_packets \
    dropped_bytes marked_packets late_packets
  real: waiting_mean_bytes delay_mean_seconds delay_p50_seconds delay_p95_seconds \
    delay_p99_seconds delay_max_seconds
transfers
  text: group
  whole: flow
  real: began_seconds took_seconds
  whole: bytes";
