//! The foundations of all mechanisms: time, units, random numbers, packets, meters, a timer wheel,
//! and the declarations of parameters, names and reports.
//!
//! No code here decides about packets. The crates of the mechanisms re-export these modules.

#![forbid(unsafe_code)]

pub mod meter;
pub mod packet;
pub mod parameters;
pub mod random;
mod registry;
pub mod reports;
pub mod time;
pub mod units;
pub mod wheel;

pub use packet::{Packet, PacketId, PacketPool};
pub use time::Time;
pub use units::{Bytes, Chance, Factor, Rate};
