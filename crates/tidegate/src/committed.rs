//! Files in the repository that are generated from code. Tests check that they are up to date.

use std::path::Path;
use std::{env, fs};

/// Checks that the file at `path`, relative to the root of the repository, contains `text`. If the
/// environment variable `UPDATE` is set, writes the file instead.
pub(crate) fn holds(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if env::var_os("UPDATE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "{path} is out of date: run the tests with UPDATE=1");
}
