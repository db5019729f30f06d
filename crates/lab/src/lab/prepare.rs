//! Kernel settings of the lab's network namespaces.

use std::fs;

use tidegate_dataplane::{Interface, Offload};

/// Settings of a host: its addresses work at once, no connection learns from an earlier one, and ICMP has no limit.
const SETTINGS: &[(&str, &str)] = &[
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/icmp_ratelimit", "0"),
];

/// Settings of a namespace without a host: its kernel sends no packets of its own.
const SILENT: &[(&str, &str)] =
    &[("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")];

/// Prepares the network namespace of this process for a host or, if `silent`, for a gateway or the network between.
/// Frames of the interfaces in `wire` get the sizes and checksums of a real wire.
///
/// # Errors
///
/// An interface of `wire` is missing, or its offloads cannot be changed.
pub fn prepare(silent: bool, wire: &[String]) -> anyhow::Result<()> {
    for (name, value) in if silent { SILENT } else { SETTINGS } {
        // A kernel without the setting needs none.
        let _ = fs::write(format!("/proc/sys/net/{name}"), value);
    }
    keep_order();
    for name in wire {
        let interface = Interface::find(name)?;
        for offload in [Offload::TxChecksum, Offload::Tso, Offload::Gro] {
            interface.set_offload(offload, false)?;
        }
    }
    Ok(())
}

/// Has the first processor receive all frames of each interface. Otherwise the processor that sends a frame receives it
/// too, and frames of a sender that moves to another processor overtake earlier ones.
///
/// Source: Linux, `Documentation/networking/scaling.rst` (receive packet steering).
fn keep_order() {
    let interfaces = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    for interface in interfaces {
        // Only root may write this file, and a kernel without receive packet steering lacks it.
        let _ = fs::write(interface.path().join("queues/rx-0/rps_cpus"), FIRST_PROCESSOR);
    }
}

/// A mask of processors.
const FIRST_PROCESSOR: &str = "1";
