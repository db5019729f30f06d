//! What two ends of a trunk say to each other, in datagrams of one UDP 5-tuple.
//!
//! A management packet is the segment of a management connection without its payload, in a datagram that
//! only somebody with the trunk's key can make, that is taken once, and only in the run of both gateways
//! it was made for. Where both ends say so, user packets travel in datagrams that are sealed in the same
//! way; [`admit`] says which of them come in, and [`PathMtu`] how long they may be. [`Session`] says how; [`message`] has the layout.

mod envelope;
mod inner;
pub mod message;
mod path_mtu;
mod refusal;
mod replay;
mod session;
#[cfg(test)]
mod tests;

pub use envelope::Envelope;
pub use inner::admit;
pub use message::Form;
pub use path_mtu::PathMtu;
pub use refusal::{Refusal, Refusals};
pub use session::{Ends, Key, Opened, Session, user_packet};
