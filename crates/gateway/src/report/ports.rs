//! Reports of the ports. The driver of the gateway owns the ports, and counts these events.

use tidegate_core::reports::ReportValue;
use tidegate_core::{Count, report};

report! {
    /// Losses and other events of a port.
    #[derive(Copy, Eq)]
    pub PortCount {
        /// Frames the kernel dropped for lack of room in the ring.
        ring_overflows: u64 => { counter "tidegate_port_overflowed_frames_total" };
        /// Failed receive calls: a frame could not be received, or the interface went down.
        receive_errors: u64 => { counter "tidegate_port_receive_errors_total" };
        /// Times the interface refused to send.
        send_errors: u64 => { counter "tidegate_port_send_errors_total" };
        /// Frames dropped because the interface refused them.
        refused: u64 => { counter "tidegate_port_refused_frames_total" };
        /// Super-packets split in software because the kernel could not.
        split: u64 => { counter "tidegate_port_split_frames_total" };
        /// Frames received with an unfinished checksum inside more tunnels than the gateway reads.
        unfinished: u64 => { counter "tidegate_port_unfinished_frames_total" };
    }
}

report! {
    /// Frames that the kernel passed from this port without the gateway, since the port first had
    /// fail-to-wire. Bytes count from the Ethernet header on. The headers of a super-packet count
    /// once.
    #[derive(Copy, Eq)]
    pub Bypassed, summed {
        /// Passed because the gateway had nothing to manage.
        idle: Count => {
            counter "tidegate_port_bypassed_frames_total"
                "Frames that bypassed the gateway: `idle` while it had nothing to manage, `told` while \
                 it started, ended, or was stopped, `silent` after its heartbeat timed out, \
                 `no-socket` after it died."
                = |it| it.each(|count| count.packets),
            counter "tidegate_port_bypassed_bytes_total"
                "Bytes of the frames that bypassed the gateway." = |it| it.each(|count| count.bytes),
        };
        /// Passed at the gateway's request: during its start and end, and while it was switched off.
        requested as "told": Count;
        /// Passed because the gateway's heartbeat had timed out.
        silent: Count;
        /// Passed because the gateway was dead, or has no socket for the receive queue.
        no_socket: Count;
    }
}

impl Bypassed {
    /// Number of frames, for all reasons together.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        let Self { idle, requested, silent, no_socket } = self;
        idle.packets + requested.packets + silent.packets + no_socket.packets
    }

    /// The report value with one number for each reason: the part of the count that `part` returns.
    fn each(&self, part: fn(&Count) -> u64) -> ReportValue {
        let Self { idle, requested, silent, no_socket } = self;
        let all =
            [("idle", idle), ("told", requested), ("silent", silent), ("no-socket", no_socket)];
        ReportValue::Each("reason", all.map(|(reason, it)| (reason.to_owned(), part(it))).into())
    }
}
