//! Drop-Tail: one line, first in, first out; full means drop.

use serde::Deserialize;

use crate::Bytes;

/// How much may wait.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most bytes that may wait, as frames.
    pub limit: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self { limit: Bytes(1 << 20) }
    }
}
