//! The probe without management packets: user packets themselves measure the path.
//!
//! Some of the departing user packets end an *epoch*. Both ends find these boundaries by a hash ([`boundary`]). The
//! receiver reports the arrival of each boundary, and the bytes received by then ([`message`]). The sender derives
//! round-trip times and losses from that ([`ledger`]). It sends at a rate that keeps the queue of the path short
//! ([`copa`](crate::tcp::congestion::copa)). If cross traffic fills this queue, the rate is that of
//! virtual TCP connections, a fixed number for each sender ([`virtual_flows`]). The packets that would wait
//! in the path wait in the tunnel queue instead, where flows are isolated.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler).
//! Differs:
//! - The receiver knows user packets by the DS codepoint of the trunk. So each trunk with epochs of
//!   a gateway needs its own class of assured forwarding.
//! - Routers have no management packets to drop first. Congestion drops user packets.

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

/// Packet size, the unit of windows.
const PACKET: u64 = 1_500;

/// Source: RFC 6928, section 2.
const INITIAL: u64 = 10 * PACKET;

/// Least window: so small that the queue of a path with a short round trip still runs empty at times.
const LEAST: u64 = 2 * PACKET;
