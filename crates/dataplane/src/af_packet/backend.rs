//! Opens the ports of a gateway on packet sockets.

use tidegate_core::PacketPool;

use super::AfPacket;
use crate::backend::{Backend, BackendError, BackendFault, OpenPorts};
use crate::fail_to_wire::{FailToWire, WireConfig, WireError};
use crate::interface::Interface;
use crate::memory::PacketMemory;
use crate::port::Port;

/// The backend `af-packet`: works on every interface and without root.
pub(crate) struct PacketBackend;

impl Backend for PacketBackend {
    fn name(&self) -> &'static str {
        "af-packet"
    }

    fn title(&self) -> &'static str {
        "AF_PACKET"
    }

    fn open(
        &self,
        pair: [&Interface; 2],
        wire: &WireConfig,
        packets: u32,
        _: &mut PacketPool,
    ) -> Result<OpenPorts, BackendError> {
        let memory = PacketMemory::new(packets, AfPacket::BUFFER).map_err(|error| {
            let text = format!("no memory for {packets} packets: {error}");
            BackendError::new(BackendFault::Unsupported, text)
        })?;
        let [lan, wan] = pair;
        let ports: [Box<dyn Port>; 2] =
            [Box::new(AfPacket::open(lan, &memory)?), Box::new(AfPacket::open(wan, &memory)?)];
        let mut notes = Vec::new();
        let wire = match FailToWire::beneath_packet_sockets(wire, pair) {
            Ok(wire) => Some(wire),
            // Refused: with two gateways on the ports, each frame would be forwarded twice.
            Err(error @ WireError::Alive { .. }) => return Err(error.into()),
            Err(error) => {
                notes.push(format!("no fail-to-wire: {error}"));
                None
            }
        };
        Ok(OpenPorts { ports, memory, wire, mode: String::new(), notes })
    }
}
