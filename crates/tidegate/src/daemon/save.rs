//! `apply` with `save`: the policy file that a restart reads is replaced together with the running configuration.
//!
//! The text is on the disk before any change. It becomes the policy file while no other change can
//! begin. So the file always holds the running text, even with other changes, rollbacks and reloads
//! at the same time.

use std::io;
use std::sync::Arc;

use tokio::time::timeout;

use super::{Daemon, Installed, aside};
use crate::code::Code;
use crate::files::PATIENCE;
use crate::output::Failure;
use crate::replace::Staged;

impl Daemon {
    /// Writes the text of `next` beside the policy file that a restart reads. The caller has a turn.
    pub(super) async fn stage(&self, next: &Installed) -> Result<Staged, Failure> {
        let (file, text) = (self.started_file.clone(), next.documents.text.clone());
        let staged = timeout(PATIENCE, aside(move || Staged::beside(&file, &text))).await;
        staged.unwrap_or_else(|_| Ok(Err(silent())))?.map_err(|error| self.unsaved(&error))
    }

    /// Makes `staged` the policy file that a restart reads, and names it. On failure the
    /// configuration `before` returns. The caller holds `changing`.
    pub(super) async fn put_or_undo(
        &self,
        staged: Option<Staged>,
        before: &Arc<Installed>,
    ) -> Result<Option<String>, Failure> {
        let Some(staged) = staged else { return Ok(None) };
        if let Err(error) = aside(move || staged.put()).await? {
            self.install(before.clone()).await?;
            return Err(self.unsaved(&error));
        }
        Ok(Some(self.started_file.display().to_string()))
    }

    fn unsaved(&self, error: &io::Error) -> Failure {
        let file = self.started_file.display();
        let message = format!("cannot write {file}: {error}; what ran before runs");
        Failure::input(Code::NoSuchFile, message)
    }
}

/// The error of a file system that does not answer. A late write is removed again.
fn silent() -> io::Error {
    io::Error::other(format!("its file system has not answered for {PATIENCE:?}"))
}
