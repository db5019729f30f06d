//! A directory of TOML files as a policy repository.
//!
//! The policy set consists of the files whose names end in `.toml`. The file `COMMIT` is the
//! *marker*: writing it commits the set, and its content names the revision. With `commit =
//! "each-change"`, no marker is needed. A change then counts as committed when no file has changed
//! for [`QUIET`].
//!
//! A reader never mixes two commits. The marker must be the same before and after the read, and no
//! file may be newer than the marker. As Kubernetes does it, the marker may be a symbolic link to a
//! file in another directory. Then the target's directory is read, because it is always replaced as
//! a whole.
//!
//! Inotify reports changes. In addition, the directory is inspected every `poll`. An inspection
//! finds a directory that was deleted and created again, and a symbolic link that now points to
//! another directory.

mod committed;
mod read;
mod write;

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tidegate_config::Item;
use tidegate_config::source::{Commit, SourceSpec};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use self::committed::Committed;
use crate::{Answer, Fault, FaultKind, NodeReport, PolicyRepository, QUIET, Snapshot, Snapshots};

/// A directory of TOML files.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    commit: Commit,
    poll: Duration,
    max_size: u64,
    max_policies: usize,
    /// The last set that any clone of this value has read.
    committed: Arc<Mutex<Committed>>,
}

impl Directory {
    pub(crate) fn new(path: PathBuf, spec: &SourceSpec) -> Self {
        Self {
            path,
            commit: spec.commit,
            poll: spec.poll.max(SHORTEST_POLL),
            max_size: spec.max_size.0,
            max_policies: spec.max_policies,
            committed: Arc::default(),
        }
    }
}

impl PolicyRepository for Directory {
    fn watch(self: Arc<Self>) -> Snapshots {
        let (to, snapshots) = mpsc::channel(1);
        tokio::spawn(Watch::new(Self::clone(&self)).run(to));
        snapshots
    }

    fn pull(&self) -> Answer<'_, Snapshot> {
        let this = self.clone();
        Box::pin(aside(move || this.read()))
    }

    fn push(&self, items: Vec<Item>) -> Answer<'_, String> {
        let this = self.clone();
        Box::pin(aside(move || this.write(&items)))
    }

    fn report(&self, report: &NodeReport) -> Answer<'_, ()> {
        let (this, report) = (self.clone(), report.clone());
        Box::pin(aside(move || this.write_report(&report)))
    }
}

/// Runs blocking file-system `work` on another thread.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let stopped = |_| Fault::new(FaultKind::Unusable, "the runtime stops");
    spawn_blocking(work).await.map_err(stopped)?
}

/// Shortest interval between two inspections. One inspection takes about 10 system calls.
const SHORTEST_POLL: Duration = Duration::from_millis(50);

/// Changes within this time share one inspection. With 1,000 new markers a second, there are thus
/// 50 inspections a second.
const COALESCE: Duration = Duration::from_millis(20);

/// Longest time between a new marker and the read of its commit, even if further markers follow.
const LONGEST_QUIET: Duration = Duration::from_secs(1);

/// First and longest wait after a fault. The wait doubles with each further fault.
const RETRY: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// The task that watches a directory.
struct Watch {
    directory: Directory,
    /// The inotify events of the watched directory; `None` while the directory is missing.
    events: Option<(PathBuf, AsyncFd<Events>)>,
    /// The state of the directory at the last inspection.
    seen: Option<read::Look>,
}

impl Watch {
    const fn new(directory: Directory) -> Self {
        Self { directory, events: None, seen: None }
    }

    /// Sends snapshots and faults until the receiver is dropped.
    async fn run(mut self, to: mpsc::Sender<Result<Snapshot, Fault>>) {
        let mut sent: Option<Result<Snapshot, Fault>> = None;
        let mut retry = RETRY[0];
        self.look().await;
        loop {
            let directory = self.directory.clone();
            let answer = aside(move || directory.read()).await;
            let waits = matches!(&answer, Err(fault) if fault.kind == FaultKind::Uncommitted);
            // After the first commit, files may change before the next marker is written. This is
            // not a fault, because the next marker will commit the changes.
            let pending = waits && matches!(sent, Some(Ok(_))) && self.has_marker();
            if !pending && sent.as_ref() != Some(&answer) {
                if to.send(answer.clone()).await.is_err() {
                    return;
                }
                sent = Some(answer.clone());
            }
            let again = match answer {
                Ok(_) => {
                    retry = RETRY[0];
                    None
                }
                Err(_) => {
                    let wait = retry;
                    retry = (retry * 2).min(RETRY[1]);
                    Some(wait)
                }
            };
            tokio::select! {
                () = to.closed() => return,
                () = self.next_commit(again) => {}
            }
        }
    }

    /// Returns `true` if the marker existed at the last inspection.
    fn has_marker(&self) -> bool {
        self.seen.as_ref().is_some_and(read::Look::has_marker)
    }

    /// Waits until a commit may have been made, and no further commit has followed for [`QUIET`].
    /// Ends after the time `again` at the latest.
    async fn next_commit(&mut self, again: Option<Duration>) {
        let again = again.map(|wait| Instant::now() + wait);
        while !self.changed(again).await {
            if again.is_some_and(|again| Instant::now() >= again) {
                return;
            }
        }
        let latest = Instant::now() + LONGEST_QUIET;
        let mut quiet = Instant::now() + QUIET;
        while Instant::now() < quiet.min(latest) {
            if self.changed(Some(quiet.min(latest))).await {
                quiet = Instant::now() + QUIET;
            }
        }
    }

    /// Waits for an event, for the next inspection, or for `deadline`. Returns `true` if there may
    /// be a new commit.
    async fn changed(&mut self, deadline: Option<Instant>) -> bool {
        let due = Instant::now() + self.directory.poll;
        let due = deadline.map_or(due, |deadline| deadline.min(due));
        let file_changed = match &self.events {
            Some((_, events)) => {
                let found = timeout_at(due, of_files(events)).await;
                if found.is_ok() {
                    sleep(COALESCE).await;
                }
                found.unwrap_or(false)
            }
            None => {
                sleep_until(due).await;
                false
            }
        };
        let moved = self.look().await;
        moved || file_changed && self.directory.commit == Commit::EachChange
    }

    /// Inspects the directory and its marker. Returns `true` if they differ from the last
    /// inspection.
    async fn look(&mut self) -> bool {
        let directory = self.directory.clone();
        let look = aside(move || Ok(directory.look())).await.ok().flatten();
        let current = look.as_ref().map(|look| look.directory().to_owned());
        let watched = self.events.as_ref().map(|(current, _)| current.clone());
        let remade =
            look.as_ref().map(read::Look::identity) != self.seen.as_ref().map(read::Look::identity);
        if current != watched || remade {
            self.events = current.and_then(|current| Some((current.clone(), events_of(&current)?)));
        }
        let moved = look != self.seen;
        self.seen = look;
        moved
    }
}

/// An inotify instance for use with tokio.
struct Events(Inotify);

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Watches `directory`. Returns `None` if the kernel has no more inotify watches. Changes are then
/// found by inspections only.
#[expect(
    deprecated,
    reason = "`Events` owns its descriptor and never replaces it, which its successor asks to promise"
)]
fn events_of(directory: &Path) -> Option<AsyncFd<Events>> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
    let what = AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    inotify.add_watch(directory, what).ok()?;
    AsyncFd::new(Events(inotify)).ok()
}

/// Waits for events and consumes them. Returns `true` if a file of the set may be among the changed
/// files.
async fn of_files(events: &AsyncFd<Events>) -> bool {
    let Ok(mut ready) = events.readable().await else { return false };
    // Hidden names belong to temporary files, except for `..data`, the symbolic link that
    // Kubernetes replaces.
    let of_set = |name: &OsStr| read::is_of_set(name) || name == "..data";
    let mut found = false;
    for _ in 0..MOST_READS {
        let Ok(list) = events.get_ref().0.read_events() else {
            ready.clear_ready();
            break;
        };
        found |= list.iter().any(|event| event.name.as_deref().is_none_or(of_set));
    }
    found
}

/// Maximum number of consecutive reads of events. Each read returns up to 4 KiB of events.
const MOST_READS: u32 = 64;
