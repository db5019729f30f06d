//! The protocol between the two ends of a trunk: authenticated UDP datagrams of one 5-tuple.
//!
//! A management packet is a segment of a management connection without its payload. Only a holder
//! of the trunk's key can make its datagram. The receiver accepts each datagram once, and only in
//! the session it was made for.
//!
//! If both ends are configured so, user packets travel in datagrams with the same authentication.
//! [`admit`] decides which of them may be forwarded, and [`PathMtu`] limits their length.
//! [`Session`] has the session protocol, [`message`] the layout.

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
