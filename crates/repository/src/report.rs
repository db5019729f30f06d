//! The report of a gateway to its sources.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The state of one gateway: `status/<node>` in a source that it may write to.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct NodeReport {
    /// The name of the gateway's host.
    pub node: String,
    /// The revision of the source that is in force, if any.
    pub revision: Option<String>,
    /// The generation in force on this gateway.
    pub generation: u64,
    /// Since when it has been in force, in seconds since 1970.
    pub since_s: u64,
    /// Why the newest revision is not in force, if it is not.
    pub error: Option<String>,
    /// Share of the live flows that are classified by this generation, from 0 to 1.
    pub flows_on_it: f64,
    /// Conformance of the source's policies. The key is the name of the policy.
    pub policies: BTreeMap<String, Conformance>,
}

/// The conformance of a policy: its rate in each direction, divided by the mean of its profile.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Conformance {
    /// From the LAN to the WAN; none without a profile.
    pub up: Option<f64>,
    /// From the WAN to the LAN; none without a profile.
    pub down: Option<f64>,
}
