//! The reason why a change was refused.

use tidegate_config::Findings;

use crate::code::Code;
use crate::output::Failure;

/// The reason why a change was refused.
pub(crate) enum Refusal {
    /// Findings in the file.
    Findings(Findings),
    /// Another reason.
    Failure(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Refusal {
    /// True for a failure with this code.
    pub(super) fn is(&self, code: Code) -> bool {
        matches!(self, Self::Failure(failure) if failure.code == code)
    }

    /// The refusal as a sentence, with its code and help.
    pub(crate) fn text(&self) -> String {
        let failure = match self {
            Self::Findings(found) => &Failure::from(found),
            Self::Failure(failure) => failure,
        };
        format!("{} [{}]; {}", failure.message, failure.code.name(), failure.help)
    }
}
