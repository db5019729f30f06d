//! Policy repositories, in which an organisation keeps the policies of its gateways.
//!
//! A [`PolicyRepository`] watches one source and delivers each complete set of policies as a
//! [`Snapshot`]. A set is complete when its *commit marker* is written, which is always written
//! last. The gateway's policy agent merges the snapshots of all sources, compiles them into one
//! generation of its configuration, and installs it.
//!
//! A new kind of repository needs a module here, an arm in [`open`], and a kind in
//! `tidegate_config::source`.
//!
//! Source: the policy agent and the directory of the paper `aggregates`, section 6; PCIM, RFC 3060.

mod access;
mod directory;
mod etcd;
mod fault;
mod ldap;
mod report;
mod roles;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_config::source::{SourceKind, SourceSpec};
use tidegate_config::{Item, Part};
use tokio::sync::mpsc;

use directory::Directory;
pub use fault::{Fault, FaultKind};
pub use report::{Conformance, NodeReport};
pub use roles::select;

/// A complete set of policies at one commit of a repository, for all roles of gateways.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Snapshot {
    /// Identifies the commit, such as an etcd revision. Equal revisions of one source mean equal
    /// sets, except in LDAP, where the author of a set chooses its revision (`ldap.rs`).
    pub revision: String,
    /// TOML documents, sorted by origin. Each contains only `[[policy]]`, `[[class]]` and
    /// `[[trunk]]` tables. Such an item may have a field `roles`, a list of names. The agent
    /// selects items by this field and then removes it.
    pub parts: Vec<Part>,
}

/// The future result of a request to a repository.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// The snapshots of a watched repository, and its faults.
pub type Snapshots = mpsc::Receiver<Result<Snapshot, Fault>>;

/// A source of policies: a directory of files, etcd, or an LDAP directory.
pub trait PolicyRepository: Send + Sync {
    /// Watches the source. The task runs on the caller's runtime, and ends when the receiver is
    /// dropped.
    ///
    /// The first snapshot is the currently committed set. A snapshot for every later commit
    /// follows. If several commits follow each other within [`QUIET`], they share a snapshot. A
    /// fault is sent once when it begins or changes, and the task retries by itself. After a fault,
    /// the task sends the next snapshot, even if the set is unchanged.
    fn watch(self: Arc<Self>) -> Snapshots;

    /// Reads the currently committed set.
    fn pull(&self) -> Answer<'_, Snapshot>;

    /// Replaces the whole set by `items`, and commits it with a new marker. Returns the revision.
    ///
    /// Removes all other items of the source. A watcher gets either the old set or the new set,
    /// never a mixture.
    fn push(&self, items: Vec<Item>) -> Answer<'_, String>;

    /// Writes the report of a gateway, if the source can store reports.
    fn report(&self, report: &NodeReport) -> Answer<'_, ()>;
}

/// Commits that follow each other within this time are read together. Without markers, a change
/// counts as finished when no other change has followed for this time.
///
/// A commit must take effect within 2 s. This wait leaves nine tenths of the 2 s for reading,
/// compiling and installing.
pub const QUIET: std::time::Duration = std::time::Duration::from_millis(200);

/// Creates the repository that `spec` describes. Does not connect yet.
///
/// # Errors
///
/// If a file that `spec` names cannot be used, such as a password file that others may read.
pub fn open(spec: &SourceSpec) -> Result<Arc<dyn PolicyRepository>, Fault> {
    match &spec.kind {
        SourceKind::Directory { path } => Ok(Arc::new(Directory::new(path.clone(), spec))),
        SourceKind::Etcd { urls, prefix } => Ok(Arc::new(etcd::Etcd::new(spec, urls, prefix)?)),
        SourceKind::Ldap { urls, base } => ldap::open(spec, urls, base),
    }
}
