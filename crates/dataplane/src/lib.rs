//! The live driver: a [`Machine`](tidegate_core::Machine) between network interfaces.
//!
//! The only crate with `unsafe` code.

mod memory;
mod port;
mod vnet;

pub use memory::{Frame, PacketMemory};
pub use port::{Port, PortCounters};
pub use vnet::VnetHeader;
