//! The same mechanisms in virtual time: a deterministic simulator of networks.
//!
//! A [`Scenario`] says what the network is, who sends, and what is watched; [`Scenario::check`] says
//! what about it cannot be.

#![forbid(unsafe_code)]

mod routes;
pub mod scenario;

pub use scenario::Scenario;
