//! Sets kernel parameters in the network namespaces of a lab.

use std::fs;

use tidegate_dataplane::{Interface, Offload};

/// Settings for a host: IPv6 addresses work at once, TCP remembers nothing of earlier connections,
/// and ICMP messages are not rate-limited.
const SETTINGS: &[(&str, &str)] = &[
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/icmp_ratelimit", "0"),
];

/// Settings for the namespace of a gateway or of the emulated network. The kernel must not send
/// packets of its own there.
const SILENT: &[(&str, &str)] =
    &[("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")];

/// Prepares the network namespace of this process for a host. If `silent` is set, prepares it for a
/// gateway or the emulated network. Frames on the interfaces in `wire` get the sizes and checksums
/// that they would have on a real wire.
///
/// # Errors
///
/// If an interface in `wire` is missing, or its offloads cannot be changed.
pub fn prepare(silent: bool, wire: &[String]) -> anyhow::Result<()> {
    for (name, value) in if silent { SILENT } else { SETTINGS } {
        // The result is ignored: a kernel that lacks the setting does not need it.
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

/// Makes the first processor receive the frames of all interfaces. By default, the processor that
/// sends a frame over a veth pair also receives it. If the sending program then moved to another
/// processor, its next frames could overtake earlier frames.
///
/// Source: Linux, `Documentation/networking/scaling.rst` (receive packet steering).
fn keep_order() {
    let interfaces = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    for interface in interfaces {
        // The result is ignored: only root may write this file, and some kernels lack receive
        // packet steering.
        let _ = fs::write(interface.path().join("queues/rx-0/rps_cpus"), FIRST_PROCESSOR);
    }
}

/// A bit mask of processors: only the first.
const FIRST_PROCESSOR: &str = "1";
