//! The same mechanisms in virtual time: a deterministic simulator of networks.
//!
//! A [`Scenario`] says what the network is, who sends, and what is watched; [`Scenario::check`] says
//! what about it cannot be. A [`Simulation`] of it drives the core's links, gateways and emulators as
//! the live gateway does, in the time its events say, and comes to [`Results`]. The same scenario and
//! seed give the same results, bit for bit, on any machine.

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
