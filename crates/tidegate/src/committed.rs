//! Files of the repository that are made from the code, held equal by tests.

use std::path::Path;
use std::{env, fs};

/// Checks that `path`, from the root of the repository, says `text`; writes it if `UPDATE` is set.
pub(crate) fn holds(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if env::var_os("UPDATE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "{path} is out of date: run the tests with UPDATE=1");
}
