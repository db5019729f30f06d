//! Reloads the policy file that was applied last, after SIGHUP.
//!
//! This file has methods of `Daemon`, whose fields are in `daemon.rs`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{Daemon, Refusal, aside};
use crate::api::{Applied, Proposal};
use crate::code::Code;
use crate::documents::Documents;
use crate::files::{self, PATIENCE};
use crate::output::Failure;

/// Time limit for reading the policy file and its includes. [`files::read_regular`] gives up after
/// half of this time and names the file that does not answer.
pub(super) const READ: Duration = PATIENCE.saturating_mul(2);

impl Daemon {
    /// Reads the policy file again. Waits while other long requests run. If the file is invalid,
    /// the running configuration stays in force, and there is an alarm.
    pub(crate) async fn reload(self: &Arc<Self>) {
        self.reload_by(read).await;
    }

    /// As [`reload`](Self::reload), but calls `read` to get the contents of the file.
    pub(super) async fn reload_by(
        self: &Arc<Self>,
        read: impl FnOnce(&Path) -> Result<Documents, Failure> + Send + 'static,
    ) {
        let reloaded = self.try_reload(read).await;
        if let Ok(Some(other)) = reloaded.as_ref().map(|applied| &applied.restart_reads) {
            let file = self.installed().await.documents.file.display().to_string();
            tracing::warn!("read {file} again, as it was applied last; a restart reads {other}");
        }
        let refused = reloaded.err();
        let alarm =
            refused.map(|refusal| format!("the file was not taken over: {}", refusal.text()));
        if let Some(alarm) = &alarm {
            tracing::error!("{alarm}");
        }
        let mut state = self.state.lock().await;
        state.rolled_back = state.rolled_back.take().filter(|_| alarm.is_some());
        state.alarm = alarm;
    }

    async fn try_reload(
        self: &Arc<Self>,
        read: impl FnOnce(&Path) -> Result<Documents, Failure> + Send + 'static,
    ) -> Result<Applied, Refusal> {
        // Waits until no other long request runs, and only then reads the file. An `apply --save`
        // may still be replacing the file.
        let permit = self.patient_permit().await?;
        let file = self.installed().await.documents.file.clone();
        let silent = silent(&file);
        let read = timeout(READ, aside(move || read(&file))).await;
        let Documents { file, text, included, .. } = read.map_err(|_| silent)???;
        let (file, text) = (file.display().to_string(), text.to_string());
        let included = included.to_vec();
        let proposal = Proposal { file, text, included, confirm_ms: None, save: false };
        self.apply_in(permit, proposal).await
    }
}

/// The policy file `file` and the files that it includes.
fn read(file: &Path) -> Result<Documents, Failure> {
    let read = files::read_regular(file, files::MOST);
    let text = read.map_err(|error| error.of(file))?.text;
    Documents::gather(file, text)
}

/// The failure for a file system that does not answer.
pub(super) fn silent(file: &Path) -> Failure {
    let file = file.display();
    let message =
        format!("cannot read {file} and its includes: they have not answered for {READ:?}");
    Failure::input(Code::NoSuchFile, message)
}
