//! Opens the ports, with AF_XDP or packet sockets.

use tidegate_core::PacketPool;
use tidegate_dataplane::af_xdp::{self, Copying, OpenError};
use tidegate_dataplane::fail_to_wire::{Mode, Tc, WireConfig, WireError};
use tidegate_dataplane::{
    AfPacket, FailToWire, Interface, InterfaceError, Monotonic, PacketMemory, Port,
};

use super::plane::{Opened, Wire};
use super::trunks::PortTrunks;
use super::{Installed, PortLock};
use crate::api::{self, Ports};
use crate::code::Code;
use crate::config::{Backend, Config};
use crate::output::Failure;

/// Opens the ports of the configuration `installed`. Uses AF_XDP if the host supports it, unless
/// the configuration names another backend.
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
    if config.backend == Backend::AfPacket {
        return af_packet(config, pair, &wire, trunks, Vec::new());
    }
    match xdp(config, pair, &wire, pool) {
        Err(error) if config.backend == Backend::Auto => {
            // The failed ports may have kept packets of the pool. No other component has any yet,
            // so the pool is made again.
            *pool = PacketPool::with_capacity(config.gateway.packets);
            let notes = vec![format!("AF_XDP is not possible here: {error}")];
            af_packet(config, pair, &wire, trunks, notes)
        }
        Ok((opened, memory)) => Ok(xdp_opened(config, opened, trunks, &memory)),
        Err(error) => Err(match error {
            OpenError::Wire(WireError::Alive { .. }) => {
                Failure::new(Code::AlreadyRuns, error.to_string())
            }
            OpenError::NoPrivilege => Failure::worded(Code::NoPrivilege, &error.to_string()),
            _ => Failure::worded(Code::NoBackend, &error.to_string()),
        }),
    }
}

fn xdp(
    config: &Config,
    pair: [&Interface; 2],
    wire: &WireConfig,
    pool: &mut PacketPool,
) -> Result<(af_xdp::Opened, PacketMemory), OpenError> {
    let size = af_xdp::buffer_size(pair)?;
    let memory = PacketMemory::new(config.gateway.packets, size)
        .map_err(|_| OpenError::Buffers { buffer: size, page: 4_096 })?;
    Ok((af_xdp::open(pair, None, wire, &memory, pool)?, memory))
}

fn xdp_opened(
    config: &Config,
    opened: af_xdp::Opened,
    trunks: PortTrunks,
    memory: &PacketMemory,
) -> Opened {
    let mut modes: Vec<_> = opened.wire.modes().into_iter().flatten().map(Mode::name).collect();
    modes.dedup();
    let copying = match opened.ports[0].copying() {
        Copying::ZeroCopy => "zero-copy",
        Copying::Copy => "copying",
    };
    let backend = format!("af-xdp ({}, {copying})", modes.join(" and "));
    let [lan, wan] = opened.ports;
    let ports: Vec<Box<dyn Port>> = vec![Box::new(lan), trunks.attach(Box::new(wan), memory)];
    described(config, ports, Some(opened.wire), backend, Vec::new())
}

fn af_packet(
    config: &Config,
    pair: [&Interface; 2],
    wire: &WireConfig,
    trunks: PortTrunks,
    mut notes: Vec<String>,
) -> Result<Opened, Failure> {
    let packets = config.gateway.packets;
    let memory = PacketMemory::new(packets, AfPacket::BUFFER).map_err(|error| {
        Failure::new(Code::NoBackend, format!("no memory for {packets} packets: {error}"))
    })?;
    let port = |interface: &Interface| -> Result<Box<dyn Port>, Failure> {
        Ok(Box::new(AfPacket::open(interface, &memory).map_err(failure)?))
    };
    let ports = vec![port(pair[0])?, trunks.attach(port(pair[1])?, &memory)];
    let wire = match FailToWire::beneath_packet_sockets(wire, pair) {
        Ok(wire) => Some(wire),
        // Two gateways on the same ports would forward each frame twice.
        Err(error @ WireError::Alive { .. }) => {
            return Err(Failure::new(Code::AlreadyRuns, error.to_string()));
        }
        Err(error) => {
            notes.push(format!("no fail-to-wire: {error}"));
            None
        }
    };
    Ok(described(config, ports, wire, "af-packet".to_owned(), notes))
}

fn described(
    config: &Config,
    ports: Vec<Box<dyn Port>>,
    wire: Wire,
    backend: String,
    notes: Vec<String>,
) -> Opened {
    let fail_to_wire =
        if wire.is_some() { api::FailToWire::Always } else { api::FailToWire::Never };
    let about =
        Ports { lan: config.lan.clone(), wan: config.wan.clone(), backend, fail_to_wire, notes };
    Opened { ports, wire, about, held: Vec::new() }
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

    #[test]
    fn what_keeps_a_port_from_opening_has_its_own_code_and_says_what_to_do() {
        let name = "eth1".to_owned();
        let no_privilege = InterfaceError::NoPrivilege { name: name.clone(), doing: "open" };
        let refused = failure(no_privilege);
        assert_eq!(refused.code, Code::NoPrivilege);
        assert!(refused.help.contains("CAP_NET_ADMIN"));
        assert_eq!(failure(InterfaceError::NotFound { name }).code, Code::NoInterface);
    }
}
