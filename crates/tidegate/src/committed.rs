//! Files of the repository that are generated from the code. Tests keep them equal.

use std::path::Path;
use std::{env, fs};

/// Checks that the file at `path`, from the root of the repository, contains `text`. Writes it if
/// `UPDATE` is set.
pub(crate) fn holds(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if env::var_os("UPDATE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "{path} is out of date: run the tests with UPDATE=1");
}
