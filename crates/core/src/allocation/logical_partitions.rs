//! Logical partitions: one bucket with a part for each flow; what is unused is shared.

use serde::Deserialize;

/// No parameters.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Config {}
