//! Helpers of the tests: configurations of sources, items (policies, classes, trunks), and answers
//! of a watch.

use std::sync::Arc;
use std::time::Duration;

use tidegate_config::source::{Access, Apply, Commit, SourceKind, SourceSpec};
use tidegate_config::{Item, ItemKind, items};
use tidegate_core::Bytes;
use tidegate_repository::{Fault, FaultKind, PolicyRepository, Snapshot, Snapshots, open};
use tokio::time::timeout;

/// A source at `urls`, otherwise with the default configuration.
pub(crate) fn spec(urls: &[String]) -> SourceSpec {
    SourceSpec {
        name: "central".to_owned(),
        kind: SourceKind::Etcd { urls: urls.to_vec(), prefix: "/t/".to_owned() },
        access: Access::default(),
        roles: Vec::new(),
        apply: Apply::default(),
        commit: Commit::Marker,
        poll: Duration::from_secs(1),
        max_size: Bytes(64 << 20),
        max_policies: 100_000,
    }
}

pub(crate) fn source(url: &str) -> Arc<dyn PolicyRepository> {
    open(&spec(&[url.to_owned()])).unwrap()
}

pub(crate) fn policy(name: &str, priority: i64) -> Item {
    let fields = toml::toml! { action = "pass" };
    let mut item = Item { kind: ItemKind::Policy, name: name.to_owned(), fields };
    item.fields.insert("priority".to_owned(), priority.into());
    item
}

/// The items of a snapshot.
pub(crate) fn held(snapshot: &Snapshot) -> Vec<Item> {
    let mut all: Vec<Item> = snapshot.parts.iter().flat_map(|part| items(part).unwrap()).collect();
    sort(&mut all);
    all
}

pub(crate) fn sort(items: &mut [Item]) {
    items.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
}

/// The next answer of a watch. Fails if no answer comes.
pub(crate) async fn next(snapshots: &mut Snapshots) -> Result<Snapshot, Fault> {
    timeout(Duration::from_secs(30), snapshots.recv())
        .await
        .expect("no answer")
        .expect("the watch has ended")
}

/// The next snapshot of a watch. Skips faults before it, and fails if no snapshot comes.
pub(crate) async fn next_snapshot(snapshots: &mut Snapshots) -> Snapshot {
    loop {
        if let Ok(snapshot) = next(snapshots).await {
            return snapshot;
        }
    }
}

/// Asserts that no answer comes within 600 ms, which is longer than `QUIET`.
pub(crate) async fn nothing(snapshots: &mut Snapshots) {
    let answer = timeout(Duration::from_millis(600), snapshots.recv()).await;
    assert!(answer.is_err(), "{answer:?}");
}

/// The fault in `answer`. Fails unless `answer` is a fault of this kind.
#[track_caller]
pub(crate) fn fault<T: std::fmt::Debug>(answer: Result<T, Fault>, kind: FaultKind) -> Fault {
    let fault = answer.unwrap_err();
    assert_eq!(fault.kind, kind, "{fault}");
    fault
}
