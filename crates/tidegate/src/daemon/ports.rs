//! Opening the ports: which backend, and what that means.

use tidegate_core::PacketPool;
use tidegate_dataplane::{AfPacket, Interface, InterfaceError, Monotonic, PacketMemory, Port};

use super::plane::{Opened, Wire};
use crate::api::Ports;
use crate::code::Code;
use crate::config::{Backend, Config};
use crate::output::Failure;

/// Opens the ports that `config` names.
pub(crate) fn open(
    config: &Config,
    _clock: &Monotonic,
    _pool: &mut PacketPool,
) -> Result<Opened, Failure> {
    let [lan, wan] = [&config.lan, &config.wan].map(|name| Interface::find(name));
    let (lan, wan) = (lan.map_err(failure)?, wan.map_err(failure)?);
    if config.backend == Backend::AfXdp {
        return Err(Failure::new(Code::NoBackend, "AF_XDP is not in this build"));
    }
    let memory = PacketMemory::new(config.gateway.packets, AfPacket::BUFFER).map_err(|error| {
        Failure::new(
            Code::NoBackend,
            format!("no memory for {} packets: {error}", config.gateway.packets),
        )
    })?;
    let port = |interface: &Interface| -> Result<Box<dyn Port>, Failure> {
        Ok(Box::new(AfPacket::open(interface, &memory).map_err(failure)?))
    };
    Ok(Opened {
        ports: vec![port(&lan)?, port(&wan)?],
        wire: Wire::default(),
        about: Ports {
            lan: config.lan.clone(),
            wan: config.wan.clone(),
            backend: "af-packet".to_owned(),
            fail_to_wire: false,
            notes: Vec::new(),
        },
    })
}

fn failure(error: InterfaceError) -> Failure {
    let code = match error {
        InterfaceError::NotFound { .. } => Code::NoInterface,
        InterfaceError::NoPrivilege { .. } => Code::NoPrivilege,
        _ => Code::NoBackend,
    };
    Failure::new(code, error.to_string())
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
