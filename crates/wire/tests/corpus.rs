//! Runs the fuzzers' checks on each initial input, and on each input that failed before.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/src/checks.rs"]
mod checks;

use std::fs;
use std::path::Path;

/// Runs `check` on each file of a corpus. Returns the number of files.
fn replay(target: &str, check: fn(&[u8])) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(folder).expect("the corpus is committed");
    files.map(|file| check(&fs::read(file.unwrap().path()).unwrap())).count()
}

#[test]
fn the_corpus_of_describe_holds() {
    assert!(replay("describe", checks::describe_any) >= 40);
}

#[test]
fn the_corpus_of_rewrite_holds() {
    assert!(replay("rewrite", checks::rewrite_any) >= 40);
}

#[test]
fn the_corpus_of_trunk_holds() {
    assert!(replay("trunk", checks::trunk_any) >= 5);
}

#[test]
fn the_corpus_of_aggregate_holds() {
    assert!(replay("aggregate", checks::aggregate_any) >= 10);
}

#[test]
fn the_corpus_of_trackers_holds() {
    assert!(replay("trackers", checks::trackers_any) >= 5);
}

#[test]
fn the_corpus_of_adjuster_holds() {
    assert!(replay("adjuster", checks::adjuster_any) >= 8);
}
