//! Per-flow queueing: a line for each flow, served byte for byte in turn.

use serde::Deserialize;

use crate::Bytes;

/// How much may wait.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most bytes that may wait, as frames.
    pub limit: Bytes,
    /// Most bytes of one flow that may wait.
    pub flow_limit: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self { limit: Bytes(1 << 20), flow_limit: Bytes(256 << 10) }
    }
}
