//! TCP end points: what a host's stack does, sans-IO and true to the wire.
//!
//! Like every mechanism here, an end point reads no clock and moves no bytes: it takes in segments
//! and says which to send, by their place in the stream; whoever drives it keeps the bytes. The
//! simulator's hosts and the gateways' management connections are drivers.

pub mod congestion;
mod segment;

pub use segment::Segment;
