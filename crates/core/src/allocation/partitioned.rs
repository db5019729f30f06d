//! Partitioned: every flow has a bucket of its own, and nothing is shared.

use serde::Deserialize;

/// No parameters.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Config {}
