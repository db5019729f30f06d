//! Policy repositories, in which an organisation keeps the policies of its gateways.
//!
//! A [`PolicyRepository`] watches one source and proposes each complete set of policies as a
//! [`Snapshot`]. The commit marker, written last, makes a set complete. The gateway's policy agent
//! merges the snapshots of all sources, compiles them into one generation of its configuration, and
//! installs it.
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
    /// sets; `ldap.rs` has the exception.
    pub revision: String,
    /// TOML documents, ordered by origin. Each holds only `[[policy]]`, `[[class]]` and `[[trunk]]`
    /// tables. An item may have a field `roles`, a list of names. The agent selects items by it and
    /// then removes the field.
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
    /// follows; commits within [`QUIET`] of each other share one. A fault is sent once when it
    /// begins or changes, and the task retries by itself. When the fault is over, it sends the next
    /// snapshot, even an unchanged one.
    fn watch(self: Arc<Self>) -> Snapshots;

    /// Reads the currently committed set.
    fn pull(&self) -> Answer<'_, Snapshot>;

    /// Replaces the whole set by `items` and commits it by a new marker. Returns the revision.
    ///
    /// Removes all other items of the source. Watchers see the old set or the new one, never a
    /// mixture.
    fn push(&self, items: Vec<Item>) -> Answer<'_, String>;

    /// Writes the report of a gateway, if the source can store reports.
    fn report(&self, report: &NodeReport) -> Answer<'_, ()>;
}

/// Commits that follow within this time are read together. Without markers, an edit counts as
/// finished after this time without changes.
///
/// A commit must take effect within 2 s. This wait leaves nine tenths of these 2 s for reading,
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
