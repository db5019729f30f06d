//! Mechanisms that control the bandwidth of TCP aggregates. No code here does I/O, reads a clock or
//! starts a thread.
//!
//! Every mechanism is a state machine. The caller passes packets and the current [`Time`] to it.
//! The caller then asks for packets to transmit, and for the time of its next call. The simulator
//! and the live data plane are two such callers, and both use the same mechanisms.
//!
//! Time, units, chance, packets, the timer wheel, meters and declarations of parameters are modules of
//! `tidegate-base`. TCP end points and congestion controls are in `tidegate-tcp`.
//!
//! The modules in order of their dependencies. `·` separates groups. A module uses only modules of
//! its own group and of earlier groups in this list: `cx`, `machine` · `class` · `scheduler` · `flow` ·
//! `allocation` · `marking` · `qdisc` · `ack` · `policy` · `report` · `aggregate` · `link` · `itcp` ·
//! `trunk` · `gateway` · `emulator`.

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
pub mod policy;
pub mod qdisc;
pub mod report;
pub mod scheduler;
pub mod trunk;

pub use cx::{ByReason, Count, CountBy, Countable, Cx, Reason, Tally};
pub use machine::{Machine, PortId};
pub use tidegate_base::packet::{Packet, PacketId, PacketPool};
pub use tidegate_base::time::Time;
pub use tidegate_base::units::{Bytes, Chance, Factor, Rate};
pub use tidegate_base::{
    choice, meter, packet, parameters, random, registry, report, reports, time, told, units, value,
    wheel,
};
pub use tidegate_tcp as tcp;
