//! A difference between two configurations, as `plan` and `apply` report it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A difference between two configurations.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Change {
    /// The changed object: "gateway", "class NAME", "policy NAME", "trunk NAME" or "source NAME".
    pub what: String,
    /// The changed field. None if the whole object is added or removed.
    pub field: Option<String>,
    /// The running value. None if there is none.
    pub from: Option<String>,
    /// The requested value. None to remove the field or object.
    pub to: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field.as_ref().map(|field| format!(" {field}")).unwrap_or_default();
        match (&self.from, &self.to) {
            (None, Some(to)) => write!(f, "+ {}{field}: {to}", self.what),
            (Some(from), None) => write!(f, "- {}{field}: {from}", self.what),
            (from, to) => {
                let show = |side: &Option<String>| side.clone().unwrap_or_default();
                write!(f, "~ {}{field}: {} -> {}", self.what, show(from), show(to))
            }
        }
    }
}
