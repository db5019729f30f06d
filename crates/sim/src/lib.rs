//! A deterministic simulator of networks, which runs the mechanisms of the core in virtual time.
//!
//! A [`Scenario`] describes the network, the traffic and the probes; [`Scenario::check`] lists its
//! errors. A [`Simulation`] runs it: it drives the core's links, gateways and emulators as the live
//! gateway does, but in virtual time, and returns [`Results`]. The same scenario and seed give the
//! same results, bit for bit, on any machine.

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
