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
use std::time::{Duration, SystemTime};

use tidegate_config::source::{Apply, SourceSpec};
use tidegate_repository::{Fault, PolicyRepository, Snapshot, Snapshots, open};
use tokio::sync::Notify;

pub(crate) use store::Store;
use watched::{Refused, Watched};

use super::{Daemon, Installed, Refusal, Turn, aside, whole};
use crate::api::{Applied, Plan, Sources};
use crate::code::Code;
use crate::documents::Documents;
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
}

impl Agent {
    /// An agent that keeps last good sets in `store`, and follows no source yet.
    pub(crate) fn new(store: Store) -> Self {
        Self { store, sources: Mutex::default(), changed: Notify::new() }
    }

    /// Adds the last good sets to `documents`. Waits a moment for sources that have none on the disk.
    ///
    /// Sets that do not compile with the policy file are left out; the sources then have to bring better ones.
    pub(crate) async fn first_sets(&self, documents: &mut Documents) {
        let specs = documents.sources();
        let opened = specs.into_iter().map(|spec| {
            let stored = self.store.load(&spec);
            let (repository, snapshots) = follow(&spec);
            (Watched::new(spec, repository), stored, snapshots)
        });
        let opened: Vec<_> = opened.collect();
        let until = tokio::time::Instant::now() + FIRST;
        for (mut watched, stored, mut snapshots) in opened {
            let set = match stored {
                Some(set) => Some(Arc::new(set)),
                None => first(&mut watched, &mut snapshots, until).await,
            };
            if let Some(set) = set.filter(|_| watched.spec.apply == Apply::Auto) {
                documents.sets.insert(watched.spec.name.clone(), set);
            }
            watched.snapshots = snapshots;
            self.lock().insert(watched.spec.name.clone(), watched);
        }
        let (sets, text) = (documents.sets.clone(), documents.clone());
        let fits = aside(move || text.parse(None).0.is_some()).await.unwrap_or_default();
        if !fits {
            for name in sets.keys() {
                let why = "its last good set does not compile with the policy file as it is now";
                self.refuse(name, None, why.to_owned());
            }
            documents.sets.clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Watched>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the agent that other policies are installed, perhaps with other sources.
    pub(super) fn installed(&self) {
        self.changed.notify_one();
    }

    /// Changes the state of source `name`, if it is followed.
    fn with<R>(&self, name: &str, change: impl FnOnce(&mut Watched) -> R) -> Option<R> {
        self.lock().get_mut(name).map(change)
    }

    /// Records that a set of source `name` was refused, and why.
    fn refuse(&self, name: &str, revision: Option<String>, why: String) {
        tracing::error!(source = name, "{why}");
        self.with(name, |watched| watched.refused = Some(Refused { revision, why }));
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

/// Opens the repository of `spec` and watches it. A repository that cannot be opened is one fault.
fn follow(spec: &SourceSpec) -> (Result<Arc<dyn PolicyRepository>, Fault>, Option<Snapshots>) {
    let repository = open(spec);
    let snapshots = repository.as_ref().ok().map(|it| it.clone().watch());
    (repository, snapshots)
}

/// The first set of `snapshots`, if it comes before `until` and before any fault.
async fn first(
    watched: &mut Watched,
    snapshots: &mut Option<Snapshots>,
    until: tokio::time::Instant,
) -> Option<Arc<Snapshot>> {
    let next = tokio::time::timeout_at(until, snapshots.as_mut()?.recv()).await.ok()??;
    match next {
        Ok(snapshot) => Some(watched.deliver(snapshot)),
        Err(fault) => {
            watched.fail(fault);
            None
        }
    }
}

impl Daemon {
    /// Follows the sources of the policy file in force, whichever these are, until dropped.
    pub(crate) async fn follow_sources(self: &Arc<Self>) {
        loop {
            let documents = self.installed().await.documents.clone();
            self.reconcile(&documents.sources());
            self.agent.changed.notified().await;
        }
    }

    /// Follows `specs`: ends what is followed and not among them, and begins the others.
    fn reconcile(self: &Arc<Self>, specs: &[SourceSpec]) {
        let mut sources = self.agent.lock();
        sources.retain(|_, watched| specs.contains(&watched.spec));
        for spec in specs {
            let watched = sources.entry(spec.name.clone()).or_insert_with(|| {
                let (repository, snapshots) = follow(spec);
                Watched { snapshots, ..Watched::new(spec.clone(), repository) }
            });
            if let Some(snapshots) = watched.snapshots.take() {
                let (daemon, name) = (self.clone(), spec.name.clone());
                watched.task = Some(watched::AbortOnDrop(tokio::spawn(async move {
                    daemon.take_all(&name, snapshots).await;
                })));
            }
        }
    }

    /// Takes what source `name` proposes. A newer commit replaces one that waits for another change.
    async fn take_all(self: &Arc<Self>, name: &str, mut snapshots: Snapshots) {
        let mut waits = self.agent.with(name, |watched| watched.newest.clone()).flatten();
        loop {
            let retry = async {
                match &waits {
                    Some(snapshot) => Some(snapshot.clone()),
                    None => std::future::pending().await,
                }
            };
            if let Some(snapshot) = waits.clone()
                && self.take(name, snapshot).await
            {
                waits = None;
                continue;
            }
            let next = tokio::select! {
                next = snapshots.recv() => next,
                _ = async { tokio::time::sleep(RETRY).await; retry.await } => continue,
            };
            match next {
                Some(Ok(snapshot)) => {
                    waits = self.agent.with(name, |watched| watched.deliver(snapshot));
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
        let same = running.documents.sets.get(name).is_some_and(|set| set.parts == snapshot.parts);
        if same && confirm_ms.is_some() {
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

    /// What would run with `snapshot` as the set of source `name`. Live changes of classes that stay as they are
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
            for spec in installed.documents.sources() {
                if let Some(set) = installed.documents.sets.get(&spec.name) {
                    agent.store.keep(&spec, set);
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

/// Seconds since 1970.
fn since_1970(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The name of this host, for reports to sources.
fn node() -> String {
    let name = std::fs::read_to_string(Path::new("/proc/sys/kernel/hostname"));
    name.map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}
