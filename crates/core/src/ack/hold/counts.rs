//! Counters of an ACK control.

use crate::report;
use crate::reports::{Peak, ReportValue};

report! {
    /// Counters of an ACK control, and the number of its held ACKs.
    #[derive(Copy, Eq)]
    pub Counts, summed {
        /// ACKs to senders of the policy that are held now.
        held: u32 => { gauge "tidegate_policy_held_acks", column "held ACKs" };
        /// Packet buffers of held ACKs.
        packets: u32;
        /// Most ACKs that were ever held.
        peak_held: Peak;
        /// ACKs that were held.
        delayed: u64 => { counter "tidegate_policy_delayed_acks_total" };
        /// Total hold of released ACKs.
        held_ns: u64, in Nanos => {
            counter "tidegate_policy_ack_hold_seconds_total",
            column "hold" = |it| ReportValue::Micros(it.mean_hold_us()),
        };
        /// Packets consumed: ACKs stored as records, ACKs superseded by a newer one, and ACKs of an
        /// ended connection.
        absorbed: u64;
        /// ACKs that were rebuilt from a record and another packet of their flow.
        made: u64 => { counter "tidegate_policy_made_acks_total" };
        /// Extra ACKs, because an ACK of much data was released in steps.
        split: u64 => { counter "tidegate_policy_ack_steps_total", column "steps" };
        /// ACKs released early: after the longest permitted hold, or for lack of room.
        overdue: u64 => { counter "tidegate_policy_overdue_acks_total", column "overdue" };
        /// ACKs whose window was reduced.
        windows: u64 => { counter "tidegate_policy_reduced_windows_total" };
        /// ACKs of data that was never sent, by number or by SACK blocks.
        unsent: u64;
        /// Old ACKs: acknowledgement number below the highest that arrived.
        stale: u64 => {
            counter "tidegate_policy_odd_acks_total"
                "ACKs of data that was never sent, and ACKs below an earlier acknowledgement number."
                = |it| ReportValue::Whole(it.unsent + it.stale),
        };
        /// Data packets queued without ACK control: with a TCP digest (MD5 or TCP-AO), of a flow
        /// seen in one direction only, or of an unresponsive sender.
        uncontrolled earlier "ungoverned": u64 => {
            counter "tidegate_policy_uncontrolled_segments_total",
            counter "tidegate_policy_ungoverned_segments_total"
                "Earlier name of `tidegate_policy_uncontrolled_segments_total`.",
            column "uncontrolled",
        };
    }
}

impl Counts {
    /// Mean hold of released ACKs, in microseconds.
    #[must_use]
    pub fn mean_hold_us(&self) -> u64 {
        let released = self.delayed.saturating_sub(self.held.into());
        self.held_ns / released.max(1) / 1_000
    }
}
