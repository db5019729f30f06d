//! Monitors the ports and the bypass programs on them.
//!
//! A port must exist, be up and keep its MTU. A bypass program forwards frames while the gateway
//! does not run. It must stay attached, before any program of other software.

use std::fmt;

use tidegate_dataplane::Interface;
use tidegate_dataplane::fail_to_wire::{Guard, Trouble as Intrusion};

/// The ports, each with its state at the last check.
#[derive(Debug, Default)]
pub(crate) struct PortWatch {
    ports: Vec<WatchedPort>,
    guard: Guard,
    intrusions: Vec<Intrusion>,
}

#[derive(Debug)]
struct WatchedPort {
    /// The interface that was opened. Its index stays the same if it is renamed.
    interface: Interface,
    mtu: u32,
    trouble: Option<Trouble>,
}

/// A fault of a port. While a fault of the first three kinds lasts, no frames are forwarded.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Trouble {
    Missing,
    /// The interface has vanished, and another interface has its name.
    Replaced,
    /// The interface is down. This is its current name.
    Down(String),
    /// The MTU has changed to this value.
    Mtu(u32),
    /// The interface was renamed to this name.
    Renamed(String),
}

impl PortWatch {
    /// Watches the existing interfaces among `names`, and the programs on them.
    pub(crate) fn new(names: [&str; 2], guard: Guard) -> Self {
        let watched = |name| {
            let interface = Interface::find(name).ok()?;
            Some(WatchedPort { mtu: interface.mtu().ok()?, interface, trouble: None })
        };
        let ports = names.into_iter().filter_map(watched).collect();
        Self { ports, guard, intrusions: Vec::new() }
    }

    /// Checks the ports, and logs the changes since the last call.
    pub(crate) fn look(&mut self) {
        let now = self.guard.look(&self.intrusions);
        for intrusion in now.iter().filter(|it| !self.intrusions.contains(it)) {
            tracing::warn!("{intrusion}");
        }
        for intrusion in self.intrusions.iter().filter(|it| !now.contains(it)) {
            tracing::info!("no longer: {intrusion}");
        }
        self.intrusions = now;
        for port in &mut self.ports {
            let now = port.look();
            if port.trouble == now {
                continue;
            }
            port.trouble = now;
            if port.trouble.is_none() {
                tracing::info!("`{}` is back to normal", port.interface.name());
            } else {
                tracing::warn!("{port}");
            }
        }
    }

    /// Faults of the ports at the last call.
    pub(crate) fn alarms(&self) -> Vec<String> {
        let troubled = self.ports.iter().filter(|port| port.trouble.is_some());
        let troubled = troubled.map(ToString::to_string);
        troubled.chain(self.intrusions.iter().map(ToString::to_string)).collect()
    }

    /// Returns `true` if a port will never work again in this process, but would work after a
    /// restart.
    pub(crate) fn is_over(&self) -> bool {
        self.ports.iter().any(|port| port.trouble == Some(Trouble::Replaced))
    }
}

impl WatchedPort {
    fn look(&self) -> Option<Trouble> {
        let Ok(now) = Interface::numbered(self.interface.index()) else {
            let replaced = Interface::find(self.interface.name()).is_ok();
            return Some(if replaced { Trouble::Replaced } else { Trouble::Missing });
        };
        let name = || now.name().to_owned();
        match (now.is_up(), now.mtu()) {
            (Ok(true), Ok(mtu)) if mtu != self.mtu => Some(Trouble::Mtu(mtu)),
            (Ok(true), Ok(_)) => (now != self.interface).then(|| Trouble::Renamed(name())),
            (Ok(false), _) => Some(Trouble::Down(name())),
            _ => Some(Trouble::Missing),
        }
    }
}

impl fmt::Display for WatchedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.interface.name();
        match &self.trouble {
            None => write!(f, "`{name}` is well"),
            Some(Trouble::Missing) => {
                write!(
                    f,
                    "`{name}` is gone: nothing crosses until the gateway starts with it again"
                )
            }
            Some(Trouble::Replaced) => {
                write!(f, "another interface is called `{name}` now: start the gateway again")
            }
            Some(Trouble::Down(now)) => {
                write!(f, "`{name}` is down: nothing crosses; `ip link set {now} up`")
            }
            Some(Trouble::Renamed(now)) => write!(
                f,
                "`{name}` is called `{now}` now: all frames cross until the gateway starts again; \
                 give it its name back, or change the policy file"
            ),
            Some(Trouble::Mtu(mtu)) => write!(
                f,
                "`{name}` has an MTU of {mtu} now and was opened with {}: set it back, or start the \
                 gateway again",
                self.mtu
            ),
        }
    }
}
