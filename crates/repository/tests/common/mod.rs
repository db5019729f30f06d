//! Helpers for the tests of every kind of repository.

#![allow(dead_code, reason = "not every kind of repository needs all of them")]

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tidegate_config::policy_file::canonical;
use tidegate_config::testing::{document, item_sets, respelled};
use tidegate_config::{Item, Part};
use tidegate_repository::PolicyRepository;

/// The canonical text of `parts`. Equal sets have the same canonical text.
pub(crate) fn canonical_text(parts: &[Part]) -> String {
    canonical(parts).unwrap_or_else(|found| panic!("{}", found.render(false)))
}

/// The canonical text of `items`.
pub(crate) fn text_of(items: &[Item]) -> String {
    canonical_text(&[Part { origin: "set".to_owned(), text: document(items) }])
}

/// Random sets of policies, the same in each run.
pub(crate) fn random_sets(number: usize) -> Vec<Vec<Item>> {
    let mut runner = TestRunner::deterministic();
    let sets = item_sets();
    (0..number).map(|_| sets.new_tree(&mut runner).unwrap().current()).collect()
}

/// Pushes random sets into `repository`, each in a random spelling, pulls them, and compares the
/// canonical texts.
///
/// Catches: an item or a field that the repository loses, adds or changes; an item of an earlier
/// set that stays; a push and the next pull that return different revisions.
pub(crate) async fn sets_come_back_the_same(repository: &Arc<dyn PolicyRepository>, sets: usize) {
    for (seed, set) in (0u64..).zip(random_sets(sets)) {
        let revision = repository.push(respelled(&set, seed)).await.unwrap();
        let pulled = repository.pull().await.unwrap();
        assert_eq!(canonical_text(&pulled.parts), text_of(&set));
        assert_eq!(pulled.revision, revision);
    }
}

/// The next snapshot or fault of a watched repository. Fails after 10 s.
pub(crate) async fn next<T>(snapshots: &mut tokio::sync::mpsc::Receiver<T>) -> T {
    let next = tokio::time::timeout(Duration::from_secs(10), snapshots.recv());
    next.await.expect("nothing within 10 s").expect("the watch has ended")
}
