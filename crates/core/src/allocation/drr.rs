//! Deficit round robin: one bucket, byte for byte in turn.

use serde::Deserialize;

/// No parameters.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Config {}
