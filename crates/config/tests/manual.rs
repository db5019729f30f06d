//! Generates the manual page of all mechanisms, and the functions of the Python package that create
//! them.
//!
//! Both are generated from the declarations of parameters. With `UPDATE=1`, the tests write the
//! files. Otherwise they compare the files.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the files has failed")]

#[path = "manual/python.rs"]
mod python;

use std::path::Path;
use std::{env, fs};

use tidegate_config::added::Mechanisms;
use tidegate_config::manual::{page, registries};

/// Asserts that the file at `path`, relative to the root of the repository, contains exactly
/// `text`. Writes the file if `UPDATE` is set.
fn holds(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if env::var_os("UPDATE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "{path} is out of date: run this test with UPDATE=1");
}

#[test]
fn the_manual_lists_every_mechanism_with_its_parameters() {
    holds("docs/operate/mechanisms.md", &page(&Mechanisms::default()));
}

#[test]
fn the_python_package_names_every_mechanism_with_its_parameters() {
    let registries = registries(&Mechanisms::default());
    for registry in &registries {
        let path = format!("python/tidegate/mechanisms/{}.py", registry.module);
        holds(&path, &python::module(registry));
    }
    holds("python/tidegate/mechanisms/__init__.py", &python::package(&registries));
}
