//! First come, first served: one bucket, the flow that has waited longest goes first.

use serde::Deserialize;

/// No parameters.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Config {}
