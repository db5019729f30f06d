//! `apply` with `save` replaces the policy file that a restart reads, together with the running
//! configuration.
//!
//! The new text is written to the disk before any change. It becomes the policy file at a time when
//! no other change can begin. The file thus always holds the running text, even with concurrent
//! changes, rollbacks and reloads. Only if the file system hangs may the file hold an earlier text;
//! then there is an alarm.
//!
//! This file has methods of `Daemon`, whose fields are in `daemon.rs`.

use std::io;
use std::sync::Arc;

use tokio::time::timeout;

use super::reload::{self, READ};
use super::{Daemon, Installed, Refusal, aside};
use crate::api::Proposal;
use crate::code::Code;
use crate::documents::Documents;
use crate::files::PATIENCE;
use crate::output::Failure;
use crate::replace::Staged;

/// The result of a save, once the new policies are in force.
#[derive(Default)]
pub(super) struct Saved {
    /// The path of the policy file, if the file holds the new policies.
    pub(super) file: Option<String>,
    /// The error if the save failed or its result is unknown.
    pub(super) doubt: Option<Failure>,
}

impl Daemon {
    /// Compiles `proposal` as a restart will: with the included files on this host's disk. Fails if
    /// the client's copies of these files differ.
    pub(super) async fn read_to_save(&self, proposal: Proposal) -> Result<Installed, Refusal> {
        let Proposal { text, included, .. } = proposal;
        let file = self.started_file.clone();
        let late = reload::silent(&file);
        let gathered = timeout(READ, aside(move || Documents::gather(&file, text))).await;
        let mut documents = gathered.map_err(|_| late)???;
        let given = included.iter().map(|part| &part.text);
        if !included.is_empty() && given.ne(documents.included.iter().map(|part| &part.text)) {
            let message = "`included` differs from the files on the disk of the gateway, which a restart reads: \
                           write them there first, or leave out `included`";
            return Err(Failure::input(Code::BadRequest, message).into());
        }
        documents.sets = self.installed().await.documents.sets.clone();
        self.compile(documents).await
    }

    /// Writes the text of `next` to a file beside the policy file. The caller must hold the
    /// permission to run a long request (`LongPermit`), so no other request stages a file.
    pub(super) async fn stage(&self, next: &Installed) -> Result<Staged, Failure> {
        if self.saving.try_lock().is_err() {
            return Err(self.unsaved(&unended()));
        }
        let (file, text) = (self.started_file.clone(), next.documents.text.clone());
        let staged = timeout(PATIENCE, aside(move || Staged::beside(&file, &text))).await;
        staged.unwrap_or_else(|_| Ok(Err(silent())))?.map_err(|error| self.unsaved(&error))
    }

    /// Makes `staged` the policy file. If this fails, restores the configuration `earlier`. The
    /// caller must hold the lock `Daemon::changing`.
    pub(super) async fn put_or_undo(
        &self,
        staged: Option<Staged>,
        earlier: &Arc<Installed>,
    ) -> Result<Saved, Failure> {
        let Some(staged) = staged else { return Ok(Saved::default()) };
        let file = self.started_file.display().to_string();
        let saving = self.saving.clone().try_lock_owned();
        let put = aside(move || {
            // The lock is held until the system call returns. A late call then cannot replace a
            // later text.
            let _saving = saving.map_err(|_| unended())?;
            staged.put()
        });
        let error = match timeout(PATIENCE, put).await {
            Ok(Ok(Ok(()))) => return Ok(Saved { file: Some(file), doubt: None }),
            Ok(Ok(Err(error))) => error,
            Ok(Err(failure)) => io::Error::other(failure.message),
            Err(_) => {
                let why = silent();
                return Ok(Saved::doubtful(format!(
                    "in force, but whether it is saved as {file} is not known: {why}; save again"
                )));
            }
        };
        match self.install(earlier.clone()).await {
            Ok(_) => Err(self.unsaved(&error)),
            Err(failure) => Ok(Saved::doubtful(format!(
                "cannot write {file}: {error}; the previous policies cannot be restored ({}), so the unsaved \
                 policies are still in force",
                failure.message
            ))),
        }
    }

    fn unsaved(&self, error: &io::Error) -> Failure {
        let file = self.started_file.display();
        let message = format!("cannot write {file}: {error}; the previous policies are in force");
        Failure::new(Code::NotSaved, message)
    }
}

impl Saved {
    fn doubtful(message: String) -> Self {
        tracing::error!("{message}");
        Self { file: None, doubt: Some(Failure::new(Code::NotSaved, message)) }
    }
}

/// The error if the file system does not answer in time. If it writes the text later, the text is
/// removed again.
fn silent() -> io::Error {
    io::Error::other(format!("its file system has not answered for {PATIENCE:?}"))
}

/// The error if the file system has not answered an earlier save yet.
fn unended() -> io::Error {
    io::Error::other("its file system has not yet answered to an earlier save")
}
