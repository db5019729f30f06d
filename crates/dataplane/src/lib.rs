//! The live driver: runs a [`Machine`](tidegate_core::Machine), such as a gateway, between network
//! interfaces. This is the only crate with `unsafe` code.

#![expect(unsafe_code, reason = "rings, sockets and maps that are shared with the kernel")]

mod af_packet;
pub mod af_xdp;
mod backend;
mod bare;
mod clock;
mod cutting;
mod driver;
pub mod fail_to_wire;
mod frame;
mod heartbeat;
mod inbox;
mod interface;
mod iteration;
mod lead;
mod lock;
mod mapping;
mod memory;
mod netlink;
mod offload;
mod port;
mod schedule;
mod send_queue;
pub mod testing;
pub mod trunk;
mod tun;

mod vnet;

pub use af_packet::AfPacket;
pub use af_xdp::AfXdp;
pub use backend::{BACKENDS, Backend, BackendError, BackendFault, OpenPorts};
pub use bare::Bare;
pub use clock::{Alarm, Clock, Monotonic};
pub use driver::{Driver, Options};
pub use fail_to_wire::FailToWire;
pub use heartbeat::{Heartbeat, Passing};
pub use inbox::{Inbox, Live, Remote, Stopped, inbox};
pub use interface::{Interface, InterfaceError};
pub use iteration::{Iteration, iterate};
pub use lock::PortLock;
pub use memory::{Frame, PacketMemory};
pub use offload::Offload;
pub use port::{Port, PortCounters, Refusal, Refused};
pub use schedule::{Cpu, Granted, Wish, keep_time};
pub use send_queue::unacknowledged;
pub use tun::Tun;
pub use vnet::VnetHeader;
