//! Mechanisms for the bandwidth of TCP aggregates, free of I/O, clocks and threads.
//!
//! Everything here is a state machine. The caller hands in the current [`Time`] and packets. It
//! asks for packets to transmit, and for the time of its next call. The simulator and the live data
//! plane are two such callers. Neither has a private version of any mechanism.
//!
//! A module uses only those of its own group or above in this list: `time`, `units`, `random` ·
//! `packet`, `cx`, `machine` · `parameters`, `registry` · `wheel` · `meter` · `class` · `scheduler` · `flow` · `allocation` ·
//! `marking` · `qdisc` · `ack` · `policy` · `report` · `aggregate` · `link` · `tcp` · `itcp` · `trunk` · `gateway` · `emulator`.

#![forbid(unsafe_code)]

pub mod ack;
pub mod aggregate;
pub mod allocation;
pub mod class;
pub mod cx;
pub mod emulator;
pub mod flow;
pub mod gateway;
pub mod itcp;
pub mod link;
pub mod machine;
pub mod marking;
pub mod meter;
pub mod packet;
pub mod parameters;
pub mod policy;
pub mod qdisc;
pub mod random;
mod registry;
pub mod report;
pub mod scheduler;
pub mod tcp;
pub mod time;
pub mod trunk;
pub mod units;
pub mod wheel;

pub use cx::{ByReason, CountBy, Countable, Cx, Reason, Tally};
pub use machine::{Machine, PortId};
pub use packet::{Packet, PacketId, PacketPool};
pub use time::Time;
pub use units::{Bytes, Chance, Factor, Rate};
