//! The bandwidth probe `epochs`: the sending gateway measures the path with the user packets themselves.
//!
//! 1. About every eighth part of a round trip, a user packet is a *boundary*, which ends an *epoch*. Both gateways
//!    select the same packets by a hash of their headers ([`boundary`]). The packets are not changed.
//! 2. When a boundary arrives, the receiving gateway sends a *congestion ACK*. It contains the number of user bytes
//!    received so far ([`message`]).
//! 3. The sending gateway computes round-trip times and losses from its record of boundaries ([`ledger`]).
//! 4. The congestion control Copa derives a window that keeps the queue of the path short
//!    ([`copa`](crate::tcp::congestion::copa)). If other traffic fills this queue, the window is the sum of the windows
//!    of virtual TCP connections instead ([`virtual_flows`]).
//!
//! So packets wait in the tunnel queue at the sending gateway, and not in the routers of the path. The tunnel queue can
//! isolate the flows.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler).
//! Differs:
//! - The receiving gateway recognises the user packets of a trunk by their DS codepoint. So each trunk with epochs
//!   needs a class of assured forwarding (AF1 to AF4) of its own.
//! - There are no management packets that routers could drop first. Congestion drops user packets.

mod boundary;
mod control;
mod ledger;
mod message;
mod receiver;
mod sender;
mod senders;
#[cfg(test)]
mod tests;
mod virtual_flows;

pub(super) use receiver::EpochReceiver;
pub(super) use sender::Epochs;

/// Bytes of a packet, the unit in which windows grow.
const PACKET: u64 = 1_500;

/// Initial window in bytes.
///
/// Source: RFC 6928, section 2 (ten segments).
const INITIAL: u64 = 10 * PACKET;

/// Least window in bytes. It is so small that even on a path with a short round trip the queue runs empty at times,
/// as Copa requires.
const LEAST: u64 = 2 * PACKET;
