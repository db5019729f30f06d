//! The interfaces of this host.

use std::fs;
use std::path::Path;

pub use tidegate_config::host::{Host, Interface};
use tidegate_dataplane::Interface as Port;

/// The interfaces in the network namespace of this thread. Empty if the kernel does not list them.
#[must_use]
pub fn look() -> Host {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    from_proc(
        &read("/proc/thread-self/net/dev"),
        &read("/proc/thread-self/net/route"),
        Path::new("/sys/class/net"),
    )
}

/// Parses `net/dev` and `net/route`. `sys` is the directory of interfaces in sysfs.
fn from_proc(dev: &str, route: &str, sys: &Path) -> Host {
    let names = dev.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    let default = default_route(route);
    let interface = |name: &str| Interface {
        name: name.to_owned(),
        // The MTU comes from a system call, because the directory may show another network
        // namespace.
        mtu: Port::find(name).and_then(|port| port.mtu()).ok().map(u64::from),
        is_up: Port::find(name).and_then(|port| port.is_up()).ok(),
        is_device: sys.join(name).join("device").exists(),
        has_default_route: default == Some(name),
    };
    Host { interfaces: names.filter(|name| *name != "lo").map(interface).collect() }
}

/// The interface of the default route (to 0.0.0.0/0) in `route`.
fn default_route(route: &str) -> Option<&str> {
    route.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let name = fields.next()?;
        (fields.next()? == "00000000").then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "Inter-|   Receive\n face |bytes\n    lo:  0 0\n  eth0: 1 2\n  eth1: 3 4\n";
    const ROUTE: &str =
        "Iface\tDestination\tGateway\neth0\t00000000\t0100000A\neth1\t0000A8C0\t0\n";

    #[test]
    fn the_port_with_the_default_route_is_the_wan() {
        let host = from_proc(DEV, ROUTE, Path::new("/nonexistent"));
        let (lan, wan) = host.guess_ports().unwrap();
        assert_eq!((lan.name.as_str(), wan.name.as_str()), ("eth1", "eth0"));
    }

    /// Catches: a guess for one port that equals the given other port.
    #[test]
    fn a_given_port_changes_the_guess_for_the_other_port() {
        let host = from_proc(DEV, ROUTE, Path::new("/nonexistent"));
        let ports = |lan, wan| host.ports(lan, wan).unwrap().join(" ");
        assert_eq!(ports(None, None), "eth1 eth0");
        assert_eq!(ports(Some("eth0"), None), "eth0 eth1");
        assert_eq!(ports(None, Some("eth1")), "eth0 eth1");
        assert_eq!(ports(Some("eth1"), Some("eth9")), "eth1 eth9");
    }

    #[test]
    fn no_port_is_guessed_if_there_are_several_candidates() {
        let three = format!("{DEV}  eth2: 5 6\n");
        assert!(from_proc(&three, ROUTE, Path::new("/nonexistent")).guess_ports().is_none());
        assert!(from_proc(DEV, "", Path::new("/nonexistent")).guess_ports().is_none());
    }
}
