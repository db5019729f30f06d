//! The report that a gateway writes to its policy repositories.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The state of one gateway, for example the key `status/<node>` in etcd.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct NodeReport {
    /// The name of the gateway's host.
    pub node: String,
    /// The revision of this source that is in force, if any.
    pub revision: Option<String>,
    /// The generation number of the gateway's configuration in force.
    pub generation: u64,
    /// Time at which this generation came into force, in seconds since 1970.
    pub since_s: u64,
    /// Why the newest revision is not in force; `None` if it is.
    pub error: Option<String>,
    /// Share of the live flows that this generation has classified, from 0 to 1.
    pub flows_on_it: f64,
    /// Conformance of each policy, by policy name.
    pub policies: BTreeMap<String, Conformance>,
}

/// The conformance of a policy: its measured rate divided by the mean rate of its profile, for each
/// direction.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Conformance {
    /// From the LAN to the WAN; `None` without a profile.
    pub up: Option<f64>,
    /// From the WAN to the LAN; `None` without a profile.
    pub down: Option<f64>,
}
