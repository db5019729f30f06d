//! What every mechanism is made of: time, units, chance, packets, meters, a timer wheel, and the
//! declarations of its parameters and its name.
//!
//! Nothing here decides about packets. The crates of the mechanisms re-export these modules.

#![forbid(unsafe_code)]

pub mod meter;
pub mod packet;
pub mod parameters;
pub mod random;
mod registry;
pub mod time;
pub mod units;
pub mod wheel;

pub use packet::{Packet, PacketId, PacketPool};
pub use time::Time;
pub use units::{Bytes, Chance, Factor, Rate};
