//! An aggregate gateway: it terminates the TCP connections of users at its site. Between two such
//! gateways, the bytes of each connection are a stream of one *aggregate connection*, whose
//! congestion control is a weighted Vegas.
//!
//! Source: the paper `itcp`, section 2 (aggregate gateways, aggregate connections).
//!
//! Differs: the aggregate connection is QUIC instead of TCP ([`transport`]), so a lost packet
//! delays only the users whose bytes it carried. The gateway accepts a client's connection before
//! the gateway reaches the server. If the server then refuses, the client sees a reset.

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
