//! An aggregate gateway: it terminates the TCP connections of users at both sites. In between, they
//! are streams of one connection with a weighted Vegas.
//!
//! Source: `itcp`, section 2 (aggregate gateways, aggregate connections).
//!
//! Differs: the aggregate connection is QUIC and not TCP, so that a lost packet holds up only the users whose bytes
//! it carried ([`transport`]). A server that refuses a connection resets that of the client after it was accepted,
//! since connections are ended locally.

mod adjust;
mod carry;
mod checks;
mod control;
mod counters;
mod inward;
mod keys;
mod link;
mod listener;
mod metrics;
mod outward;
mod peer;
mod queue;
mod run;
mod site;
mod stalled;
mod status;
mod transparent;
mod transport;

pub(crate) use checks::{Check, buffers, checks};
pub(crate) use keys::{make as make_key, public_of};
#[cfg(test)]
pub(crate) use metrics::page_of_a_test as metrics_of_a_test;
pub(crate) use run::Gateway;
pub(crate) use status::AggregateStatus;

#[cfg(test)]
mod tests;
