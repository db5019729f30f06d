//! Opens the ports, with AF_XDP or packet sockets.

use tidegate_core::PacketPool;
use tidegate_dataplane::fail_to_wire::{Tc, WireConfig};
use tidegate_dataplane::{
    BACKENDS, BackendError, BackendFault, Interface, InterfaceError, Monotonic, OpenPorts,
};

use super::plane::Opened;
use super::trunks::PortTrunks;
use super::{Installed, PortLock};
use crate::api::{self, Ports};
use crate::code::Code;
use crate::config::{Backend, Config};
use crate::output::Failure;

/// Opens the ports of the configuration `installed` with the backend that it names. If it names
/// none, uses the first backend that the host supports.
pub(crate) fn open(
    installed: &Installed,
    clock: &Monotonic,
    pool: &mut PacketPool,
) -> Result<Opened, Failure> {
    let Config { lan, wan, .. } = &installed.config;
    let [lan, wan] = [lan, wan].map(|name| Interface::find(name));
    let pair = [&lan.map_err(failure)?, &wan.map_err(failure)?];
    let held = [PortLock::take(pair[0])?, PortLock::take(pair[1])?];
    let opened = open_on(installed, pair, clock, pool)?;
    Ok(Opened { held: Vec::from(held), ..opened })
}

fn open_on(
    installed: &Installed,
    pair: [&Interface; 2],
    clock: &Monotonic,
    pool: &mut PacketPool,
) -> Result<Opened, Failure> {
    let config = &installed.config;
    let wire = WireConfig { timeout: config.heartbeat, epoch: clock.origin(), tc: Tc::default() };
    let trunks = PortTrunks::new(installed.ends.clone(), pair[1])?;
    let is_wanted = |it: &&&dyn tidegate_dataplane::Backend| {
        config.backend == Backend::Auto || it.name() == config.backend.name()
    };
    let mut wanted = BACKENDS.iter().filter(is_wanted).peekable();
    let mut notes = Vec::new();
    while let Some(backend) = wanted.next() {
        match backend.open(pair, &wire, config.gateway.packets, pool) {
            Ok(opened) => return Ok(described(config, backend.name(), opened, trunks, notes)),
            Err(error) if wanted.peek().is_none() => return Err(refused(&error)),
            Err(error) => {
                // The failed ports may have kept packets of the pool. No other component holds
                // packets yet, so a new pool can replace it.
                *pool = PacketPool::with_capacity(config.gateway.packets);
                notes.push(format!("{} is not possible here: {error}", backend.title()));
            }
        }
    }
    let message = format!("this program has no backend `{}`", config.backend.name());
    Err(Failure::new(Code::NoBackend, message))
}

fn described(
    config: &Config,
    name: &str,
    opened: OpenPorts,
    trunks: PortTrunks,
    mut notes: Vec<String>,
) -> Opened {
    let OpenPorts { ports: [lan, wan], memory, wire, mode, notes: more } = opened;
    notes.extend(more);
    let fail_to_wire =
        if wire.is_some() { api::FailToWire::Always } else { api::FailToWire::Never };
    let backend = if mode.is_empty() { name.to_owned() } else { format!("{name} ({mode})") };
    let about =
        Ports { lan: config.lan.clone(), wan: config.wan.clone(), backend, fail_to_wire, notes };
    let ports = vec![lan, trunks.attach(wan, &memory)];
    Opened { ports, wire, about, held: Vec::new() }
}

fn refused(error: &BackendError) -> Failure {
    let code = match error.fault {
        BackendFault::AlreadyRuns => return Failure::new(Code::AlreadyRuns, error.to_string()),
        BackendFault::NoPrivilege => Code::NoPrivilege,
        BackendFault::NoInterface => Code::NoInterface,
        BackendFault::Unsupported => Code::NoBackend,
    };
    Failure::worded(code, &error.to_string())
}

fn failure(error: InterfaceError) -> Failure {
    let code = match error {
        InterfaceError::NotFound { .. } => Code::NoInterface,
        InterfaceError::NoPrivilege { .. } => Code::NoPrivilege,
        _ => Code::NoBackend,
    };
    Failure::worded(code, &error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a name that policy files accept although no backend has it; a backend that no
    /// policy file can name.
    #[test]
    fn policy_files_can_name_every_backend() {
        let names: Vec<_> = BACKENDS.iter().map(|backend| backend.name()).collect();
        let written = Backend::NAMES.iter().copied();
        assert_eq!(written.filter(|name| *name != Backend::Auto.name()).collect::<Vec<_>>(), names);
    }

    #[test]
    fn each_reason_why_a_port_cannot_open_has_its_own_code_and_remedy() {
        let name = "eth1".to_owned();
        let no_privilege = InterfaceError::NoPrivilege { name: name.clone(), doing: "open" };
        let refused = failure(no_privilege);
        assert_eq!(refused.code, Code::NoPrivilege);
        assert!(refused.help.contains("CAP_NET_ADMIN"));
        assert_eq!(failure(InterfaceError::NotFound { name }).code, Code::NoInterface);
    }
}
