//! What two ends of a trunk say to each other, in datagrams of one UDP 5-tuple.
//!
//! A management packet is the segment of a management connection without its payload, in a datagram that
//! only somebody with the trunk's key can make, that is taken once, and only in the run of both gateways
//! it was made for. [`Session`] says how; [`message`] has the layout.

pub mod message;
mod refusal;
mod replay;
mod session;
#[cfg(test)]
mod tests;

pub use refusal::{Refusal, Refusals};
pub use session::{Ends, Key, Opened, Session};
