//! An aggregate gateway: TCP connections of users are ended at both sites, and carried in between as streams of one
//! connection whose congestion control is a weighted Vegas.
//!
//! Source: `itcp`, section 2 (aggregate gateways, aggregate connections).
//!
//! Differs: the aggregate connection is QUIC and not TCP, so that a lost packet holds up only the users whose bytes
//! it carried ([`transport`]). A server that refuses a connection resets that of the client after it was accepted,
//! since connections are ended locally.

mod carry;
mod counters;
mod inward;
mod keys;
mod link;
mod listener;
mod message;
mod outward;
mod peer;
mod queue;
mod run;
mod site;
mod transparent;
mod transport;

pub(crate) use keys::{make as make_key, public_of};
pub(crate) use run::Gateway;

#[cfg(test)]
mod tests;
