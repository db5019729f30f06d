//! The reasons for which the daemon refuses to change the configuration.

use tidegate_config::Findings;

use crate::code::Code;
use crate::output::Failure;

/// The reason why the daemon refused a change.
pub(crate) enum Refusal {
    /// The policy file has errors.
    Findings(Findings),
    /// Any other reason.
    Failure(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Refusal {
    /// Returns `true` if the reason is a failure with this code.
    pub(super) fn is(&self, code: Code) -> bool {
        matches!(self, Self::Failure(failure) if failure.code == code)
    }

    /// The reason as text, with its code and remedy.
    pub(crate) fn text(&self) -> String {
        let failure = match self {
            Self::Findings(found) => &Failure::from(found),
            Self::Failure(failure) => failure,
        };
        format!("{} [{}]; {}", failure.message, failure.code.name(), failure.help)
    }
}
