//! Live test: a set of policies has the same canonical text in every kind of repository.

use std::path::Path;
use std::{env, fs};

use tidegate_e2e::{Testbed, run, witnessed_beside_others};

use crate::site::{KINDS, LIMIT, PASSWORD, Site, prepare};

/// Catches: an item or a field that a push, a server or a pull loses or changes.
#[test]
fn examples_come_back_the_same() {
    if KINDS.iter().all(|kind| kind.is_here()) {
        witnessed_beside_others(|bed| {
            prepare(bed);
            let sites = KINDS.map(|kind| Site::start(bed, kind));
            for example in ["table1", "campus", "guarantees"] {
                for site in &sites {
                    comes_back_the_same(bed, site, example);
                }
            }
        });
    }
}

fn comes_back_the_same(bed: &Testbed, site: &Site<'_>, example: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(example);
    let text = fs::read_to_string(path.with_extension("toml")).unwrap();
    let (head, set) = text.split_at(text.find("\n[[").unwrap());
    let set = bed.file("set.toml", set);
    let file = bed.file("push.toml", &format!("{head}\n{}", site.source(PASSWORD)));
    let tidegate = |words: &[&str], path: &Path| run(bed.tidegate(words).arg(path), LIMIT);
    let canonical = |path: &Path| tidegate(&["plan", "--canonical"], path);
    let pushed =
        ["policy", "push", "central", &set.display().to_string(), "--in"].map(str::to_owned);
    let said = tidegate(&pushed.each_ref().map(String::as_str), &file);
    assert!(said.contains("of central"), "{said}");
    let pulled = bed.file("pulled.toml", &tidegate(&["policy", "pull", "central", "--in"], &file));
    let (before, after) = (canonical(&set), canonical(&pulled));
    assert!(before.matches("[[policy]]").count() > 2, "{before}");
    assert_eq!(after, before, "{example} by {:?}", site.kind);
}
