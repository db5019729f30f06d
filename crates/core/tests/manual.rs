//! Generates the manual page of all mechanisms, and the functions of the Python package that create
//! them.
//!
//! Both are generated from the declarations of parameters. With `UPDATE=1`, the tests write the
//! files. Otherwise they compare the files.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the files has failed")]

#[path = "manual/page.rs"]
mod page;
#[path = "manual/python.rs"]
mod python;

use std::path::Path;
use std::{env, fs};

use tidegate_core::ack::AckSpec;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::itcp;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::marking::tracker::TrackerSpec;
use tidegate_core::parameters::{Mechanism, Registered};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::{SchedulerSpec, Term};
use tidegate_core::tcp::congestion::CongestionSpec;
use tidegate_core::trunk::MOST_WEIGHT;

/// A registry: its title, the file fields that name its mechanisms, its Python module, and its
/// mechanisms.
struct Registry {
    title: &'static str,
    fields: &'static str,
    /// A sentence about file fields that accept fewer mechanisms or have another default. May be
    /// empty.
    differs: String,
    module: &'static str,
    mechanisms: Vec<Mechanism>,
    /// The terms of classes under each mechanism. Empty unless the mechanisms are schedulers.
    terms: Vec<&'static [Term]>,
}

fn registry<T: Registered>(
    title: &'static str,
    fields: &'static str,
    module: &'static str,
) -> Registry {
    let (mechanisms, terms) = (T::mechanisms(), Vec::new());
    Registry { title, fields, differs: String::new(), module, mechanisms, terms }
}

fn registries() -> Vec<Registry> {
    vec![
        registry::<QdiscSpec>("Queue disciplines", "`queue`", "queue"),
        registry::<AllocationSpec>("Allocations", "`allocation`", "allocation"),
        registry::<AckSpec>("ACK control", "`ack_control`", "ack_control"),
        registry::<MarkingSpec>("Markings", "`marking`", "marking"),
        registry::<TrackerSpec>("Trackers of markings", "`tracker` of a marking", "tracker"),
        Registry {
            terms: SchedulerSpec::terms_of_each().to_vec(),
            ..registry::<SchedulerSpec>("Schedulers", "`scheduler`", "scheduler")
        },
        registry::<CongestionSpec>("Congestion controls", "`tcp.congestion`", "congestion"),
        Registry {
            title: "Rate adjusters",
            fields: "`weight` of trunks and aggregate connections",
            differs: format!(
                "A trunk takes only `fixed` and `measured`, from a `weight` of 4 and with a `most` \
                 of {MOST_WEIGHT}, which is also the largest value of both."
            ),
            module: "weight",
            mechanisms: itcp::mechanisms(),
            terms: Vec::new(),
        },
    ]
}

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

/// Breaks `text` into lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let last = lines.last_mut().unwrap();
        if last.is_empty() {
            *last = word.to_owned();
        } else if last.len() + 1 + word.len() <= width {
            *last += &format!(" {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[test]
fn the_manual_lists_every_mechanism_with_its_parameters() {
    holds("docs/operate/mechanisms.md", &page::page(&registries()));
}

#[test]
fn the_python_package_names_every_mechanism_with_its_parameters() {
    for registry in registries() {
        let path = format!("python/tidegate/mechanisms/{}.py", registry.module);
        holds(&path, &python::module(&registry));
    }
    holds("python/tidegate/mechanisms/__init__.py", &python::package(&registries()));
}
