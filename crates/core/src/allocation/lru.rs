//! Least recently used: one bucket, the flow that was given a token least recently goes first.

use serde::Deserialize;

/// No parameters.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Config {}
