//! TCP end points: the behaviour of a host's stack, without I/O.
//!
//! Like every mechanism of this project, an end point reads no clock and moves no bytes. It takes
//! segments, and returns the segments to send, each with the stream offset of its payload. The
//! driver keeps the bytes. Drivers are the simulator's hosts and the management connections of
//! gateways.

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
