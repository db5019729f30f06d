//! Replays the corpora of the fuzzers: their initial inputs, and all inputs on which they failed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/src/files.rs"]
mod files;

use std::fs;
use std::path::Path;

/// Runs `check` on every file in the corpus of `target`. Returns the number of files.
fn replay(target: &str, check: fn(&[u8])) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(folder).expect("the corpus is committed");
    files.map(|file| check(&fs::read(file.unwrap().path()).unwrap())).count()
}

#[test]
fn the_policy_fuzzer_passes_its_corpus() {
    assert!(replay("policy", files::policy_any) >= 10);
}

#[test]
fn the_scenario_fuzzer_passes_its_corpus() {
    assert!(replay("scenario", files::scenario_any) >= 40);
}
