//! A deterministic simulator of networks, which runs the mechanisms of the core in virtual time.
//!
//! A [`Scenario`] describes the network, the traffic and the probes; [`Scenario::check`] lists its
//! errors. A [`Simulation`] runs the scenario: it drives the core's links, gateways and emulators
//! as the live gateway does, but in virtual time, and returns [`Results`]. The same scenario and
//! seed give the same results, bit for bit, on any machine.
//!
//! Words of this crate:
//!
//! - *lane*: one direction of a link. *Way*: the name of a lane, namely its two ends.
//! - *station*: a gateway, or a cloud of emulated routes.
//! - *group*: all flows of one `traffic` entry of the scenario.
//! - *stream*: a TCP connection with its two ends. Side 0 is the sender of the data, side 1 the
//!   receiver.
//! - *transfer*: a file, burst or answer; the simulator measures the time from its first byte to
//!   its last.
//! - *part*: anything that the event loop calls: a lane, a station, a flow, an end of a connection.

#![deny(unsafe_code)]

mod agenda;
mod aggregate;
mod capture;
mod draw;
mod engine;
pub mod fairness;
mod flow;
pub mod histogram;
mod network;
mod prefetch;
pub mod results;
mod routes;
pub mod scenario;
mod segment;
mod series;
mod shares;
mod simulation;
mod stream;
pub mod table;
#[cfg(test)]
mod testing;
mod trace;
mod udp;

pub use engine::Progress;
pub use network::PACKET_BYTES;
pub use results::Results;
pub use scenario::Scenario;
pub use simulation::{Simulation, Stopped};
