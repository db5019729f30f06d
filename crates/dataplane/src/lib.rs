//! The live driver: a [`Machine`](tidegate_core::Machine) between network interfaces.
//!
//! The only crate with `unsafe` code.

mod port;

pub use port::{Port, PortCounters};
