//! The protocol between the two ends of a trunk: authenticated UDP datagrams with fixed addresses
//! and ports.
//!
//! A trunk carries user packets between two gateways. TCP connections between these gateways, its
//! management connections, determine its rate. The segments of these connections carry no payload.
//! A datagram with such a segment is a management packet. Only a gateway that knows the trunk's key
//! can make a management packet. The receiver accepts each of them once, and only in the session
//! for which it was made.
//!
//! If both ends are configured for it, user packets travel in datagrams with the same
//! authentication. [`admit`] decides whether such a user packet may be forwarded, and [`PathMtu`]
//! limits its length. [`Session`] is the session protocol, and [`message`] is the layout of the
//! datagrams.

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
