//! TCP end points: what a host's stack does, sans-IO and true to the wire.
//!
//! Like every mechanism here, an end point reads no clock and moves no bytes: it takes in segments
//! and says which to send, by their place in the stream; whoever drives it keeps the bytes. The
//! simulator's hosts and the gateways' management connections are drivers.

pub mod congestion;
mod connection;
mod delivered;
mod half;
mod profile;
mod rack;
mod rate;
mod reassembly;
mod receiver;
mod rto;
mod scoreboard;
mod segment;
mod sender;
mod sequence;
mod statistics;

pub use connection::{Connection, Event, Outgoing};
pub use profile::{
    Config, Details, Duplicates, EcnMode, Floor, IdleRule, LimitedTransmit, Pipe, Profile,
    Recovery, ReduceFrom, Spurious,
};
pub use segment::Segment;
pub use statistics::{Progress, Statistics};
