//! What is set inside a namespace of the lab, and nowhere else.

use std::fs;

use tidegate_dataplane::{Interface, Offload};

/// What is set, and the values: nothing but the lab's own addresses, and every connection as if it
/// were the first.
const SETTINGS: &[(&str, &str)] = &[
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/icmp_ratelimit", "0"),
];

/// What is set where no host is: the kernel itself takes no part.
const SILENT: &[(&str, &str)] =
    &[("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")];

/// Prepares the network namespace this process is in: for a host, or, if `silent`, for what only
/// passes frames on; frames of the interfaces in `wire` are to look as on a wire.
///
/// # Errors
///
/// If the kernel does not let us.
pub fn prepare(silent: bool, wire: &[String]) -> anyhow::Result<()> {
    for (name, value) in if silent { SILENT } else { SETTINGS } {
        // What this kernel does not have needs no setting.
        let _ = fs::write(format!("/proc/sys/net/{name}"), value);
    }
    for name in wire {
        let interface = Interface::find(name)?;
        for offload in [Offload::TxChecksum, Offload::Tso, Offload::Gro] {
            interface.set_offload(offload, false)?;
        }
    }
    Ok(())
}
