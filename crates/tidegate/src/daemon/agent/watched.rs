//! A policy source (repository) that the policy agent follows, with its newest set of policies and
//! its fault.

use std::sync::Arc;

use tidegate_config::source::{Apply, SourceKind, SourceSpec};
use tidegate_repository::{Fault, FaultKind, PolicyRepository, Snapshot, Snapshots, open};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::api::Source;

/// A policy source that the agent follows.
pub(super) struct Watched {
    pub(super) spec: SourceSpec,
    /// `None` if the source cannot be opened.
    pub(super) repository: Option<Arc<dyn PolicyRepository>>,
    /// The sets that the source delivers, until a task receives them.
    pub(super) snapshots: Option<Snapshots>,
    /// The task that receives these sets.
    pub(super) task: Option<AbortOnDrop>,
    /// The newest set that the source delivered.
    pub(super) newest: Option<Arc<Snapshot>>,
    /// Time at which `newest` was delivered.
    delivered: Option<Instant>,
    /// The fault of the source, and when it began.
    fault: Option<(Fault, Instant)>,
    /// The set that was refused last.
    pub(super) refused: Option<Refused>,
    /// The set that the agent last put in force by itself, without an operator's request.
    pub(super) tried: Option<Arc<Snapshot>>,
}

/// A set that could not be put in force, and why.
pub(super) struct Refused {
    /// The set's revision; `None` for the last good set on the disk.
    revision: Option<String>,
    /// The reason for the operator.
    why: String,
    /// Time at which it was first refused.
    at: Instant,
}

/// A task that is aborted when this value is dropped.
pub(super) struct AbortOnDrop(pub(super) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Watched {
    /// Opens the repository of `spec` and watches it. If it cannot be opened, the source has a
    /// fault.
    pub(super) fn follow(spec: SourceSpec) -> Self {
        let (repository, fault) = match open(&spec) {
            Ok(repository) => (Some(repository), None),
            Err(fault) => (None, Some((fault, Instant::now()))),
        };
        Self {
            spec,
            snapshots: repository.as_ref().map(|it| it.clone().watch()),
            repository,
            task: None,
            newest: None,
            delivered: None,
            fault,
            refused: None,
            tried: None,
        }
    }

    /// Opens the repository again and reads its credentials files again. The fault lasts until a
    /// set arrives.
    pub(super) fn reopen(&mut self) {
        let again = Self::follow(self.spec.clone());
        (self.task, self.repository, self.snapshots) = (None, again.repository, again.snapshots);
        if let Some((fault, _)) = again.fault {
            self.fail(fault);
        }
    }

    /// Returns `true` if the server refuses the gateway's credentials, or the gateway refuses the
    /// server's certificate. Other credentials may help.
    pub(super) fn is_locked_out(&self) -> bool {
        let of_credentials = |kind| matches!(kind, FaultKind::Refused | FaultKind::Untrusted);
        self.fault.as_ref().is_some_and(|(fault, _)| of_credentials(fault.kind))
    }

    /// The first set of the source. `None` if a fault comes first, or if no set has arrived at
    /// `until`.
    pub(super) async fn first(&mut self, until: Instant) -> Option<Arc<Snapshot>> {
        let next = tokio::time::timeout_at(until, self.snapshots.as_mut()?.recv()).await;
        match next.ok()?? {
            Ok(snapshot) => Some(self.deliver(snapshot)),
            Err(fault) => {
                self.fail(fault);
                None
            }
        }
    }

    /// Records a set that the source delivered. A fault of the source ends here.
    pub(super) fn deliver(&mut self, snapshot: Snapshot) -> Arc<Snapshot> {
        let snapshot = Arc::new(snapshot);
        self.newest = Some(snapshot.clone());
        self.delivered = Some(Instant::now());
        self.fault = None;
        if self.spec.apply == Apply::Manual {
            // With `apply = "manual"`, only an operator applies the new set. A refusal of an
            // earlier set then no longer matters.
            let of_it = |refused: &Refused| refused.revision.as_ref() == Some(&snapshot.revision);
            self.refused = self.refused.take().filter(of_it);
        }
        snapshot
    }

    /// The newest set, if the agent could not put it in force.
    pub(super) fn refused_set(&self) -> Option<Arc<Snapshot>> {
        self.newest.clone().filter(|_| self.refused.is_some())
    }

    /// Records that a set was refused. A repeated refusal keeps the time of the first refusal.
    pub(super) fn refuse(&mut self, revision: Option<String>, why: String) {
        let again = self.refused.take().filter(|refused| refused.revision == revision);
        let at = again.map_or_else(Instant::now, |refused| refused.at);
        self.refused = Some(Refused { revision, why, at });
    }

    /// Records a fault of the source. An earlier fault keeps its time.
    pub(super) fn fail(&mut self, fault: Fault) {
        let since = self.fault.take().map_or_else(Instant::now, |(_, since)| since);
        self.fault = Some((fault, since));
    }

    /// The alarm text: the fault with its age and remedy, or the reason of the last refusal.
    pub(super) fn alarm(&self) -> Option<String> {
        let name = &self.spec.name;
        if let Some((fault, since)) = &self.fault {
            let ago = since.elapsed().as_secs();
            return Some(format!("source `{name}` for {ago} s: {fault}"));
        }
        let Refused { revision, why, at } = self.refused.as_ref()?;
        let ago = at.elapsed().as_secs();
        let what = revision.as_ref().map_or_else(String::new, |it| format!("revision {it}: "));
        Some(format!("source `{name}` for {ago} s: not in force, {what}{why}"))
    }

    /// The source as `tidegate source` shows it. `in_force` is its set in force.
    pub(super) fn state(&self, in_force: Option<&Snapshot>) -> Source {
        let revision = |set: &Snapshot| set.revision.clone();
        let newest = self.newest.as_deref().map(revision);
        let in_force = in_force.map(revision);
        let waits = newest.is_some() && newest != in_force;
        let (state, error, help) = match (&self.fault, &self.refused) {
            (Some((fault, _)), _) => {
                (fault.kind.name(), Some(fault.message.clone()), Some(fault.help.clone()))
            }
            (None, Some(refused)) => ("refused", Some(refused.why.clone()), None),
            (None, None) if waits && self.spec.apply == Apply::Auto => ("new", None, None),
            (None, None) if waits => ("waits", None, Some(self.advice())),
            (None, None) if in_force.is_none() => ("starting", None, None),
            (None, None) => ("in force", None, None),
        };
        Source {
            name: self.spec.name.clone(),
            kind: kind(&self.spec).to_owned(),
            state: state.to_owned(),
            revision: in_force,
            newest,
            delivered_s: self.delivered.map(|at| at.elapsed().as_secs()),
            failing_s: self.failing_since().map(|since| since.elapsed().as_secs()),
            error,
            help,
        }
    }

    /// Time at which the fault began or the newest set was refused.
    fn failing_since(&self) -> Option<Instant> {
        let fault = self.fault.as_ref().map(|(_, since)| *since);
        fault.or_else(|| self.refused.as_ref().map(|refused| refused.at))
    }

    fn advice(&self) -> String {
        format!("`tidegate apply --source {}` puts it in force", self.spec.name)
    }
}

/// The kind of the source, as written in policy files.
pub(super) const fn kind(spec: &SourceSpec) -> &'static str {
    match spec.kind {
        SourceKind::Directory { .. } => "directory",
        SourceKind::Etcd { .. } => "etcd",
        SourceKind::Ldap { .. } => "ldap",
    }
}
