//! Policy repositories, in which an organisation keeps the policies of its gateways.
//!
//! A [`PolicyRepository`] watches one source and proposes each complete set of policies as a
//! [`Snapshot`]. A set is complete when its marker is written, the last write of a change. The
//! policy agent merges the snapshots of all sources, compiles one generation, and installs it.
//!
//! A new kind of repository is one module here, one arm in [`open`], and one kind in
//! `tidegate_config::source`.
//!
//! Source: the policy agent and directory of `aggregates`, section 6; PCIM, RFC 3060.

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

/// A complete set of policies, as a repository held it at one commit, for all roles.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Snapshot {
    /// The commit, such as an etcd revision. Equal revisions of one source are the same set; see
    /// `ldap.rs` for the exception.
    pub revision: String,
    /// Its documents in TOML, in the order of their origins. Each holds `[[policy]]`, `[[class]]`
    /// and `[[trunk]]` tables only. An item may have a field `roles`, a list of names; the agent
    /// selects by it and removes it.
    pub parts: Vec<Part>,
}

/// The answer of a repository, awaited.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// The snapshots of a watched repository, with the faults in between.
pub type Snapshots = mpsc::Receiver<Result<Snapshot, Fault>>;

/// One source of policies.
pub trait PolicyRepository: Send + Sync {
    /// Watches the source, on a task of the caller's runtime that ends when the receiver is
    /// dropped.
    ///
    /// The first snapshot is the set that is committed now. Every later commit follows, but commits
    /// within [`QUIET`] of each other are one. A fault is sent once when it begins or changes. The
    /// task retries by itself. As soon as the fault is over, it sends the next snapshot, even an
    /// unchanged one.
    fn watch(self: Arc<Self>) -> Snapshots;

    /// Reads the set that is committed now.
    fn pull(&self) -> Answer<'_, Snapshot>;

    /// Replaces the whole set by `items` and commits it: the marker is written last. Returns the
    /// revision.
    ///
    /// Every other item of the source is removed. Watchers see the old set or the new one, never a
    /// mixture.
    fn push(&self, items: Vec<Item>) -> Answer<'_, String>;

    /// Writes the report of a gateway, where the source can keep it.
    fn report(&self, report: &NodeReport) -> Answer<'_, ()>;
}

/// Commits that follow within this time are skipped, and editing by hand is over after it.
///
/// A change has to be in force 2 s after its commit, which leaves nine times this for the rest.
pub const QUIET: std::time::Duration = std::time::Duration::from_millis(200);

/// The repository that `spec` describes. Does not connect yet.
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
