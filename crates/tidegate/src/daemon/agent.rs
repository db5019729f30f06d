//! The policy agent follows the sources (policy repositories) that the policy file names.
//!
//! A source delivers all its policies together, as one set. Each new set is a *commit*, and it
//! replaces the previous set of this source. The agent merges the newest sets of all sources with
//! the policy file. It compiles the result into one generation of the configuration, and installs
//! this generation as a whole. After a failure, the last good generation stays in force, and the
//! source has an alarm. The last good sets are stored on the disk, so a restart needs no server.
//!
//! Source: the policy agent of the paper `aggregates`, section 6.
//!
//! This file has methods of `Daemon`, whose fields are in `daemon.rs`.

mod reports;
mod store;
mod watched;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_config::source::{Apply, SourceSpec};
use tidegate_repository::{Snapshot, Snapshots};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub(crate) use store::Store;
use watched::Watched;

use super::{Daemon, Installed, Live, LongPermit, Refusal, aside, policy_set, whole};
use crate::api::{Applied, Plan, Sources};
use crate::code::Code;
use crate::documents::Documents;
use crate::host;
use crate::output::Failure;

/// Time limit for confirming a commit of a source with `apply = "confirm"`. It must give an
/// operator time to check the result.
const CONFIRM_MS: u64 = 60_000;

/// Interval between two attempts to put a commit in force while another change is unconfirmed.
const RETRY: Duration = Duration::from_millis(500);

/// Time for which the first start waits for sources that have no set on the disk.
const FIRST: Duration = Duration::from_secs(3);

/// Interval between two attempts to open a source whose files cannot be used. After a repair, an
/// operator waits no longer than this.
const REOPEN: Duration = Duration::from_secs(5);

/// The sources that the agent follows, and their state.
pub(crate) struct Agent {
    store: Store,
    sources: Mutex<BTreeMap<String, Watched>>,
    /// Wakes the agent: the list of sources may have changed.
    changed: Notify,
    /// A policy file was put in force, so credentials that a server refused must be read again.
    renewing: AtomicBool,
    /// Notifies the task of each source that a configuration was installed. A set that was refused
    /// before may compile with it.
    installs: watch::Sender<()>,
    /// Wakes the task that writes the sets in force to the disk.
    unwritten: Notify,
}

impl Agent {
    /// An agent that keeps the last good sets in `store`. It follows no source yet.
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            sources: Mutex::default(),
            changed: Notify::new(),
            renewing: AtomicBool::new(false),
            installs: watch::Sender::new(()),
            unwritten: Notify::new(),
        }
    }

    /// Adds the last good sets to `documents`. Waits up to [`FIRST`] for sources without a set on
    /// the disk.
    ///
    /// A set that does not compile with the policy file is left out. With `fits_host`, a set that
    /// does not suit this host is left out too. These sets are tried again when the policy file
    /// changes.
    pub(crate) async fn first_sets(&self, documents: &mut Documents, fits_host: bool) {
        let followed = documents.sources().into_iter().map(Watched::follow).collect::<Vec<_>>();
        let until = Instant::now() + FIRST;
        let mut sets = BTreeMap::new();
        for mut watched in followed {
            let set = match self.store.load(&watched.spec) {
                Some(set) => Some(set),
                None if watched.spec.apply == Apply::Auto => watched.first(until).await,
                None => None,
            };
            let name = watched.spec.name.clone();
            sets.extend(set.map(|set| (name.clone(), set)));
            self.lock().insert(name, watched);
        }
        for (name, (set, why)) in add_fitting(documents, sets, fits_host).await {
            let why =
                format!("its last good set does not compile with the current policy file: {why}");
            self.refuse(&name, None, why);
            self.with(&name, |watched| watched.newest.get_or_insert(set).clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Watched>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the agent that a configuration was installed, perhaps with other sources.
    pub(super) fn installed(&self) {
        self.changed.notify_one();
        self.installs.send_replace(());
    }

    /// Notifies the agent that an operator has put a policy file in force, perhaps with other
    /// credentials.
    pub(super) fn renew(&self) {
        self.renewing.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Changes the state of source `name`, if it is followed.
    fn with<R>(&self, name: &str, change: impl FnOnce(&mut Watched) -> R) -> Option<R> {
        self.lock().get_mut(name).map(change)
    }

    /// Reports a fault of source `name`, for tests.
    #[cfg(test)]
    pub(super) fn fail(&self, name: &str, fault: tidegate_repository::Fault) {
        self.with(name, |watched| watched.fail(fault));
    }

    /// Records that a set of source `name` was refused, and why.
    fn refuse(&self, name: &str, revision: Option<String>, why: String) {
        tracing::error!(source = name, "{why}");
        self.with(name, |watched| watched.refuse(revision, why));
    }

    /// One alarm for each source with a fault.
    pub(super) fn alarms(&self) -> Vec<String> {
        self.lock().values().filter_map(Watched::alarm).chain(self.store.alarm()).collect()
    }

    /// The newest set of source `name`.
    pub(super) fn newest(&self, name: &str) -> Result<Arc<Snapshot>, Failure> {
        let found = self.with(name, |watched| watched.newest.clone());
        let found = found.ok_or_else(|| {
            let names: Vec<_> = self.lock().keys().cloned().collect();
            let message = format!("there is no source `{}`", name.escape_debug());
            let help = format!("the policy file names: {}", names.join(", "));
            Failure { help, ..Failure::input(Code::UnknownName, message) }
        })?;
        found.ok_or_else(|| {
            let message = format!("source `{name}` has not delivered a set yet");
            Failure {
                help: "see `tidegate source`".to_owned(),
                ..Failure::new(Code::NoSet, message)
            }
        })
    }
}

impl Daemon {
    /// Follows the sources of the policy file in force, until dropped.
    pub(crate) async fn follow_sources(self: &Arc<Self>) {
        tokio::join!(self.follow_named_sources(), self.write_when_notified());
    }

    async fn follow_named_sources(self: &Arc<Self>) {
        loop {
            let installed = self.installed().await;
            let renew = self.agent.renewing.swap(false, Ordering::Relaxed);
            self.reconcile(&installed.config.sources, renew);
            // The sources are checked after a change, and at the latest after this time.
            let _ = tokio::time::timeout(REOPEN, self.agent.changed.notified()).await;
        }
    }

    /// Writes the sets to the disk, one after another, so an older set never replaces a newer one.
    async fn write_when_notified(&self) {
        loop {
            self.agent.unwritten.notified().await;
            self.write_sets().await;
        }
    }

    /// Follows exactly the sources `specs`. Opens a source again if it could not be opened before.
    /// With `renew`, also opens each source again whose server refuses its credentials.
    fn reconcile(self: &Arc<Self>, specs: &[SourceSpec], renew: bool) {
        let mut sources = self.agent.lock();
        sources.retain(|_, watched| specs.contains(&watched.spec));
        for spec in specs {
            let follow = || Watched::follow(spec.clone());
            let watched = sources.entry(spec.name.clone()).or_insert_with(follow);
            if watched.repository.is_none() || renew && watched.is_locked_out() {
                watched.reopen();
            }
            if let Some(snapshots) = watched.snapshots.take() {
                let (daemon, name) = (self.clone(), spec.name.clone());
                watched.task = Some(watched::AbortOnDrop(tokio::spawn(async move {
                    daemon.take_all(&name, snapshots).await;
                })));
            }
        }
    }

    /// Puts the commits of source `name` in force. If a commit must wait until an operator confirms
    /// another change, a newer commit replaces it. A refused set is tried again after each
    /// installation of a configuration.
    async fn take_all(self: &Arc<Self>, name: &str, mut snapshots: Snapshots) {
        let mut installs = self.agent.installs.subscribe();
        let mut waiting = self.agent.with(name, |watched| watched.newest.clone()).flatten();
        loop {
            if let Some(snapshot) = &waiting
                && self.take(name, snapshot.clone()).await
            {
                waiting = None;
            }
            let next = tokio::select! {
                next = snapshots.recv() => next,
                () = tokio::time::sleep(RETRY), if waiting.is_some() => continue,
                Ok(()) = installs.changed(), if waiting.is_none() => {
                    waiting = self.agent.with(name, |watched| watched.refused_set()).flatten();
                    continue;
                }
            };
            match next {
                Some(Ok(snapshot)) => {
                    waiting = self.agent.with(name, |watched| watched.deliver(snapshot));
                }
                Some(Err(fault)) => {
                    tracing::warn!(source = name, "{fault}");
                    self.agent.with(name, |watched| watched.fail(fault));
                }
                None => return,
            }
        }
    }

    /// Puts a commit of source `name` in force, in the way that the policy file demands. Returns
    /// `false` if another change must be confirmed first.
    async fn take(self: &Arc<Self>, name: &str, snapshot: Arc<Snapshot>) -> bool {
        let Some(apply) = self.agent.with(name, |watched| watched.spec.apply) else { return true };
        let confirm_ms = match apply {
            Apply::Auto => None,
            Apply::Confirm => Some(CONFIRM_MS),
            Apply::Manual => return true,
        };
        let running = self.installed().await;
        if running.documents.sets.get(name) == Some(&snapshot) {
            self.agent.with(name, |watched| watched.refused = None);
            self.keep_sets();
            return true;
        }
        // After a fault, a source sends its last set again. If this set was applied before and no
        // operator confirmed it, the agent does not apply it again.
        let tried = |watched: &mut Watched| watched.tried.as_ref() == Some(&snapshot);
        if confirm_ms.is_some() && self.agent.with(name, tried).unwrap_or_default() {
            return true;
        }
        let put = self.put(name, snapshot.clone(), confirm_ms).await;
        if put.is_ok() {
            self.agent.with(name, |watched| watched.tried = Some(snapshot));
        }
        !put.is_err_and(|refusal| refusal.is(Code::Unconfirmed))
    }

    /// Puts `snapshot` of source `name` in force. If it is refused, the source has an alarm.
    async fn put(
        self: &Arc<Self>,
        name: &str,
        snapshot: Arc<Snapshot>,
        confirm_ms: Option<u64>,
    ) -> Result<Applied, Refusal> {
        let permit = self.patient_permit().await?;
        let revision = snapshot.revision.clone();
        let applied = self.put_in(permit, name, snapshot, confirm_ms).await;
        match &applied {
            Ok(_) => {
                self.agent.with(name, |watched| watched.refused = None);
                if confirm_ms.is_none() {
                    self.keep_sets();
                }
            }
            Err(refusal) if refusal.is(Code::Unconfirmed) => {}
            Err(refusal) => self.agent.refuse(name, Some(revision), refusal.text()),
        }
        applied
    }

    async fn put_in(
        self: &Arc<Self>,
        _permit: LongPermit<'_>,
        name: &str,
        snapshot: Arc<Snapshot>,
        confirm_ms: Option<u64>,
    ) -> Result<Applied, Refusal> {
        self.must_be_confirmed().await?;
        let next = self.with_set(name, snapshot).await?;
        let daemon = self.clone();
        whole(async move { daemon.replace(next, Live::Kept, confirm_ms, None).await }).await
    }

    /// The configuration with `snapshot` as the set of source `name`. Run-time changes of classes
    /// stay in force, except for classes that the set changes.
    pub(super) async fn with_set(
        &self,
        name: &str,
        snapshot: Arc<Snapshot>,
    ) -> Result<Installed, Refusal> {
        let running = self.installed().await;
        let mut documents = running.documents.clone();
        documents.sets.insert(name.to_owned(), snapshot);
        let mut next = self.compile(documents).await?;
        next.keep_live(&running);
        Ok(next)
    }

    /// Requests that the sets in force are written to the disk. Does not wait for the write, which
    /// takes seconds on a busy disk.
    pub(super) fn keep_sets(&self) {
        self.agent.unwritten.notify_one();
    }

    /// Writes the sets in force to the disk, except those that may still be rolled back.
    pub(super) async fn write_sets(&self) {
        let confirmed = {
            let state = self.state.lock().await;
            state.pending.as_ref().map_or(&state.installed, |pending| &pending.before).clone()
        };
        let agent = self.agent.clone();
        let written = aside(move || {
            for spec in &confirmed.config.sources {
                if let Some(set) = confirmed.documents.sets.get(&spec.name) {
                    agent.store.keep(spec, set);
                }
            }
        });
        if let Err(failure) = written.await {
            tracing::error!("{failure}");
        }
    }

    /// The changes that the newest set of source `name` would make.
    pub(crate) async fn plan_source(&self, name: &str) -> Result<Plan, Refusal> {
        let _permit = self.long_permit().await?;
        let next = self.with_set(name, self.agent.newest(name)?).await?;
        let installed = self.installed().await;
        Ok(aside(move || installed.plan(&next)).await?)
    }

    /// Puts the newest set of source `name` in force.
    pub(crate) async fn apply_source(
        self: &Arc<Self>,
        name: &str,
        confirm_ms: Option<u64>,
    ) -> Result<Applied, Refusal> {
        let newest = self.agent.newest(name)?;
        self.put(name, newest, confirm_ms).await
    }

    /// The state of each source.
    pub(crate) async fn sources(&self) -> Sources {
        let installed = self.installed().await;
        let state = |watched: &Watched| {
            watched.state(installed.documents.sets.get(&watched.spec.name).map(Arc::as_ref))
        };
        Sources { sources: self.agent.lock().values().map(state).collect() }
    }
}

/// Adds to `documents` all of `sets` that compile together. Returns the refused sets, each with the
/// reason.
async fn add_fitting(
    documents: &mut Documents,
    mut sets: BTreeMap<String, Arc<Snapshot>>,
    fits_host: bool,
) -> BTreeMap<String, (Arc<Snapshot>, String)> {
    let all = Documents { sets: sets.clone(), ..documents.clone() };
    if fits(all.clone(), fits_host).await.is_ok() {
        *documents = all;
        return BTreeMap::new();
    }
    // A set may need a class that another set defines. So after each added set, the remaining sets
    // are tried again.
    loop {
        let mut misfits = BTreeMap::new();
        let before = sets.len();
        for (name, set) in sets {
            let mut more = documents.clone();
            more.sets.insert(name.clone(), set.clone());
            match fits(more.clone(), fits_host).await {
                Ok(()) => *documents = more,
                Err(why) => drop(misfits.insert(name, (set, why))),
            }
        }
        if misfits.len() == before {
            return misfits;
        }
        sets = misfits.into_iter().map(|(name, (set, _))| (name, set)).collect();
    }
}

/// Checks that a gateway can run `documents`. Returns the reason if it cannot.
async fn fits(documents: Documents, fits_host: bool) -> Result<(), String> {
    let read = aside(move || {
        let (config, found) = documents.parse(fits_host.then(host::look).as_ref());
        let config = config.ok_or(Refusal::Findings(found))?;
        policy_set(&config)?;
        Installed::read(documents, config)?;
        Ok::<_, Refusal>(())
    });
    read.await.map_err(Refusal::Failure).flatten().map_err(|refusal| refusal.text())
}

/// The name of this host, for reports to sources.
fn node() -> String {
    let name = std::fs::read_to_string(Path::new("/proc/sys/kernel/hostname"));
    name.map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}
