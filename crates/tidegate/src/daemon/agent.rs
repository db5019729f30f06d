//! The policy agent: it follows the sources of the policy file, and puts what they commit in force.
//!
//! Each commit replaces the set of its source. The agent merges all sets with the policy file, compiles one
//! generation, and installs it whole. Whatever fails leaves the last good generation in force, and raises one alarm
//! for the source. The last good sets are on the disk, so that a restart needs no server.
//!
//! Source: the policy agent of `aggregates`, section 6.

mod reports;
mod store;
mod watched;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_config::source::{Apply, SourceSpec};
use tidegate_repository::{Snapshot, Snapshots};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub(crate) use store::Store;
use watched::Watched;

use super::{Daemon, Installed, Refusal, Turn, aside, whole};
use crate::api::{Applied, Plan, Sources};
use crate::code::Code;
use crate::documents::Documents;
use crate::host;
use crate::output::Failure;

/// Time to confirm a commit of a source with `apply = "confirm"`: as long as a person needs to look.
const CONFIRM_MS: u64 = 60_000;

/// Interval between two tries to put a commit in force while another change is unconfirmed.
const RETRY: Duration = Duration::from_millis(500);

/// How long a first start waits for sources without a set on the disk, before frames are managed.
const FIRST: Duration = Duration::from_secs(3);

/// The agent's view of its sources.
pub(crate) struct Agent {
    store: Store,
    sources: Mutex<BTreeMap<String, Watched>>,
    /// The sources of the policy file may have changed.
    changed: Notify,
    /// Counts installed generations: each may have removed what a refused set collides with.
    installs: watch::Sender<u64>,
}

impl Agent {
    /// An agent that keeps last good sets in `store`, and follows no source yet.
    pub(crate) fn new(store: Store) -> Self {
        let installs = watch::Sender::new(0);
        Self { store, sources: Mutex::default(), changed: Notify::new(), installs }
    }

    /// Adds the last good sets to `documents`. Waits a moment for sources that have none on the disk.
    ///
    /// Sets that do not compile with the policy file, on this host if it has to fit, are left out; the sources then
    /// have to bring better ones.
    pub(crate) async fn first_sets(&self, documents: &mut Documents, fits_host: bool) {
        let followed = documents.sources().into_iter().map(Watched::follow).collect::<Vec<_>>();
        let until = Instant::now() + FIRST;
        for mut watched in followed {
            let set = match self.store.load(&watched.spec) {
                Some(set) => Some(Arc::new(set)),
                None if watched.spec.apply == Apply::Auto => watched.first(until).await,
                None => None,
            };
            let name = watched.spec.name.clone();
            documents.sets.extend(set.map(|set| (name.clone(), set)));
            self.lock().insert(name, watched);
        }
        self.leave_out(documents, fits_host).await;
    }

    /// Leaves sets out of `documents` until these compile.
    async fn leave_out(&self, documents: &mut Documents, fits_host: bool) {
        let fits = async |documents: &Documents| {
            let all = documents.clone();
            let parsed = aside(move || all.parse(fits_host.then(host::look).as_ref()).0.is_some());
            parsed.await.unwrap_or_default()
        };
        if documents.sets.is_empty() || fits(documents).await {
            return;
        }
        let mut left = std::mem::take(&mut documents.sets);
        // A set may need what another one defines: as long as one fits, the others are tried again.
        loop {
            let before = left.len();
            for (name, set) in std::mem::take(&mut left) {
                documents.sets.insert(name.clone(), set.clone());
                if !fits(documents).await {
                    documents.sets.remove(&name);
                    left.insert(name, set);
                }
            }
            if left.is_empty() || left.len() == before {
                break;
            }
        }
        for name in left.keys() {
            let why = "its last good set does not compile with the policy file as it is now";
            self.refuse(name, None, why.to_owned());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Watched>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the agent that other policies are installed, perhaps with other sources.
    pub(super) fn installed(&self) {
        self.changed.notify_one();
        self.installs.send_modify(|count| *count += 1);
    }

    /// Changes the state of source `name`, if it is followed.
    fn with<R>(&self, name: &str, change: impl FnOnce(&mut Watched) -> R) -> Option<R> {
        self.lock().get_mut(name).map(change)
    }

    /// Records that a set of source `name` was refused, and why.
    fn refuse(&self, name: &str, revision: Option<String>, why: String) {
        tracing::error!(source = name, "{why}");
        self.with(name, |watched| watched.refuse(revision, why));
    }

    /// One alarm for each source that is not in order.
    pub(super) fn alarms(&self) -> Vec<String> {
        self.lock().values().filter_map(Watched::alarm).chain(self.store.alarm()).collect()
    }

    /// The newest set of source `name`.
    fn newest(&self, name: &str) -> Result<Arc<Snapshot>, Failure> {
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
    /// Follows the sources of the policy file in force, whichever these are, until dropped.
    pub(crate) async fn follow_sources(self: &Arc<Self>) {
        loop {
            let installed = self.installed().await;
            self.reconcile(&installed.config.sources);
            self.agent.changed.notified().await;
        }
    }

    /// Follows `specs`: ends what is followed and not among them, and begins the others.
    fn reconcile(self: &Arc<Self>, specs: &[SourceSpec]) {
        let mut sources = self.agent.lock();
        sources.retain(|_, watched| specs.contains(&watched.spec));
        for spec in specs {
            let follow = || Watched::follow(spec.clone());
            let watched = sources.entry(spec.name.clone()).or_insert_with(follow);
            if let Some(snapshots) = watched.snapshots.take() {
                let (daemon, name) = (self.clone(), spec.name.clone());
                watched.task = Some(watched::AbortOnDrop(tokio::spawn(async move {
                    daemon.take_all(&name, snapshots).await;
                })));
            }
        }
    }

    /// Takes what source `name` proposes. A newer commit replaces one that waits for another change. A refused set is
    /// tried again whenever another generation is installed.
    async fn take_all(self: &Arc<Self>, name: &str, mut snapshots: Snapshots) {
        let mut waiting = self.agent.with(name, |watched| watched.newest.clone()).flatten();
        let mut installs = self.agent.installs.subscribe();
        loop {
            installs.mark_unchanged();
            if let Some(snapshot) = &waiting
                && self.take(name, snapshot.clone()).await
            {
                waiting = None;
            }
            let next = tokio::select! {
                next = snapshots.recv() => next,
                () = tokio::time::sleep(RETRY), if waiting.is_some() => continue,
                _ = installs.changed() => {
                    let refused = || self.agent.with(name, |watched| watched.refused_set()).flatten();
                    waiting = waiting.or_else(refused);
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

    /// Puts a commit of source `name` in force as the policy file wants it. False while another change has to be
    /// confirmed first.
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
            return true;
        }
        let put = self.put(name, snapshot, confirm_ms).await;
        !put.is_err_and(|refusal| refusal.is(Code::Unconfirmed))
    }

    /// Puts `snapshot` of source `name` in force. A refusal raises its alarm.
    async fn put(
        self: &Arc<Self>,
        name: &str,
        snapshot: Arc<Snapshot>,
        confirm_ms: Option<u64>,
    ) -> Result<Applied, Refusal> {
        let turn = self.patient_turn().await?;
        let revision = snapshot.revision.clone();
        let applied = self.put_in(turn, name, snapshot, confirm_ms).await;
        match &applied {
            Ok(_) => {
                self.agent.with(name, |watched| watched.refused = None);
                if confirm_ms.is_none() {
                    self.keep_sets().await;
                }
            }
            Err(refusal) if refusal.is(Code::Unconfirmed) => {}
            Err(refusal) => self.agent.refuse(name, Some(revision), refusal.text()),
        }
        applied
    }

    async fn put_in(
        self: &Arc<Self>,
        _turn: Turn<'_>,
        name: &str,
        snapshot: Arc<Snapshot>,
        confirm_ms: Option<u64>,
    ) -> Result<Applied, Refusal> {
        self.must_be_confirmed().await?;
        let next = Arc::new(self.with_set(name, snapshot).await?);
        let daemon = self.clone();
        whole(async move { daemon.replace(next, confirm_ms).await }).await
    }

    /// The configuration with `snapshot` as the set of source `name`. Live changes of classes that stay as they are
    /// written stay in force.
    async fn with_set(&self, name: &str, snapshot: Arc<Snapshot>) -> Result<Installed, Refusal> {
        let running = self.installed().await;
        let mut documents = running.documents.clone();
        documents.sets.insert(name.to_owned(), snapshot);
        let mut next = self.compile(documents).await?;
        let written = |installed: &Installed, name: &str| {
            installed.config.classes.classes().iter().find(|class| class.name == name).cloned()
        };
        let stays = |name: &&String| written(&running, name) == written(&next, name);
        let live = running.live.keys().filter(stays).cloned().collect::<Vec<_>>();
        next.live = live
            .into_iter()
            .filter_map(|it| Some((it.clone(), running.live.get(&it)?.clone())))
            .collect();
        Ok(next)
    }

    /// Writes the sets in force to the disk.
    pub(super) async fn keep_sets(&self) {
        let installed = self.installed().await;
        let agent = self.agent.clone();
        let kept = aside(move || {
            for spec in &installed.config.sources {
                if let Some(set) = installed.documents.sets.get(&spec.name) {
                    agent.store.keep(spec, set);
                }
            }
        });
        if let Err(failure) = kept.await {
            tracing::error!("{failure}");
        }
    }

    /// The differences that the newest set of source `name` would make.
    pub(crate) async fn plan_source(&self, name: &str) -> Result<Plan, Refusal> {
        let _turn = self.turn().await?;
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

/// The name of this host, for reports to sources.
fn node() -> String {
    let name = std::fs::read_to_string(Path::new("/proc/sys/kernel/hostname"));
    name.map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}
