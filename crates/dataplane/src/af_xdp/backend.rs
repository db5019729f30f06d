//! Opens the ports of a gateway on AF_XDP sockets.

use tidegate_core::PacketPool;

use super::{Copying, OpenError, buffer_size, most_mtu, open, page_size};
use crate::backend::{Backend, BackendError, BackendFault, OpenPorts};
use crate::fail_to_wire::{Mode, WireConfig};
use crate::interface::Interface;
use crate::memory::PacketMemory;

/// The backend `af-xdp`: gets frames directly from the driver, past the network stack.
pub(crate) struct XdpBackend;

impl Backend for XdpBackend {
    fn name(&self) -> &'static str {
        "af-xdp"
    }

    fn title(&self) -> &'static str {
        "AF_XDP"
    }

    fn most_mtu(&self) -> Option<u32> {
        Some(most_mtu())
    }

    fn open(
        &self,
        pair: [&Interface; 2],
        wire: &WireConfig,
        packets: u32,
        pool: &mut PacketPool,
    ) -> Result<OpenPorts, BackendError> {
        let (opened, memory) = with_memory(pair, wire, packets, pool)?;
        let modes = opened.wire.modes().into_iter().flatten().map(Mode::name);
        let mut modes: Vec<_> = modes.collect();
        modes.dedup();
        let copying = match opened.ports[0].copying() {
            Copying::ZeroCopy => "zero-copy",
            Copying::Copy => "copying",
        };
        let mode = format!("{}, {copying}", modes.join(" and "));
        let [lan, wan] = opened.ports;
        let ports: [Box<dyn crate::Port>; 2] = [Box::new(lan), Box::new(wan)];
        Ok(OpenPorts { ports, memory, wire: Some(opened.wire), mode, notes: Vec::new() })
    }
}

fn with_memory(
    pair: [&Interface; 2],
    wire: &WireConfig,
    packets: u32,
    pool: &mut PacketPool,
) -> Result<(super::Opened, PacketMemory), OpenError> {
    let size = buffer_size(pair)?;
    let memory = PacketMemory::new(packets, size)
        .map_err(|_| OpenError::Buffers { buffer: size, page: page_size() })?;
    Ok((open(pair, None, wire, &memory, pool)?, memory))
}

impl From<OpenError> for BackendError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Wire(error) => error.into(),
            OpenError::NoPrivilege => Self::new(BackendFault::NoPrivilege, error),
            _ => Self::new(BackendFault::Unsupported, error),
        }
    }
}
