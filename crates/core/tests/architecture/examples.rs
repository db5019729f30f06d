//! Checks of the documentation: the main public types have an example that runs, and the workspace
//! has many examples.

use std::fs;
use std::path::Path;

/// The file and the declaration of each type whose documentation must state its contract and an
/// example.
const EXPLAINED: &[(&str, &str)] = &[
    ("crates/gateway/src/gateway.rs", "pub struct Gateway {"),
    ("crates/core/src/machine.rs", "pub trait Machine {"),
    ("crates/gateway/src/policy/set.rs", "pub struct PolicySet {"),
    ("crates/core/src/qdisc.rs", "pub trait Qdisc:"),
    ("crates/core/src/allocation.rs", "pub trait Allocation:"),
    ("crates/core/src/ack.rs", "pub trait AckControl:"),
    ("crates/core/src/marking.rs", "pub trait Marking:"),
    ("crates/core/src/scheduler.rs", "pub trait Scheduler:"),
    ("crates/tcp/src/congestion.rs", "pub trait CongestionControl:"),
    ("crates/core/src/class.rs", "pub struct ClassTree {"),
    ("crates/core/src/trunk.rs", "pub struct Trunk {"),
    ("crates/sim/src/simulation.rs", "pub struct Simulation<"),
];

/// Sections that this documentation must have.
const PARTS: &[&str] = &["# Call order", "# Time", "# Example"];

/// Least number of examples in the documentation of the workspace.
const LEAST: usize = 40;

/// Number of examples in the documentation comments of `text` that `cargo test --doc` runs.
fn examples(text: &str) -> usize {
    let mut inside = false;
    let mut count = 0;
    for line in text.lines().map(str::trim_start) {
        let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            inside = false;
            continue;
        };
        let Some(language) = doc.trim_start().strip_prefix("```") else { continue };
        count += usize::from(!inside && ["", "should_panic"].contains(&language.trim()));
        inside = !inside;
    }
    count
}

/// The documentation comment directly before `declaration`.
fn documentation(text: &str, declaration: &str) -> Option<String> {
    let (before, _) = text.split_once(&format!("\n{declaration}"))?;
    let rows = before.lines().rev().take_while(|line| line.starts_with(['/', '#']));
    Some(rows.collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n"))
}

/// Complaints about the documentation of `declaration` in `text`.
fn unexplained(path: &str, text: &str, declaration: &str) -> Vec<String> {
    let Some(doc) = documentation(text, declaration) else {
        return vec![format!("{path}: `{declaration}` does not exist; change EXPLAINED")];
    };
    let missing = PARTS.iter().filter(|part| !doc.contains(*part));
    let mut complaints: Vec<_> =
        missing.map(|part| format!("{path}: `{declaration}` lacks `{part}`")).collect();
    if examples(&doc) == 0 {
        complaints.push(format!("{path}: `{declaration}` has no example that runs"));
    }
    complaints
}

fn count_in(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: std::path::PathBuf| match path.extension() {
        None if path.is_dir() => count_in(&path),
        Some(kind) if kind == "rs" => examples(&fs::read_to_string(&path).unwrap()),
        _ => 0,
    };
    entries.map(count).sum()
}

#[test]
fn the_main_types_have_a_contract_and_an_example_that_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let complaints: Vec<_> = EXPLAINED
        .iter()
        .flat_map(|(path, declaration)| {
            unexplained(path, &fs::read_to_string(root.join(path)).unwrap(), declaration)
        })
        .collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let count: usize = crates.map(|each| count_in(&each.join("src"))).sum();
    assert!(count >= LEAST, "{count} examples in documentation, of at least {LEAST}");
}

/// Catches: a count that includes closing fences, or examples that do not run; a type without an
/// example that is accepted.
#[test]
fn a_missing_example_is_found() {
    let runs =
        "/// # Call order\n/// # Time\n/// # Example\n///\n/// ```\n/// assert!(true);\n/// ```\n";
    let text = |doc: &str| format!("use x;\n\n{doc}#[derive(Debug)]\npub struct A {{\n}}\n");
    let check = |doc: &str| unexplained("a.rs", &text(doc), "pub struct A {").len();
    assert_eq!((check(runs), check(""), check("/// # Call order\n/// # Example\n")), (0, 4, 2));
    assert_eq!(check(&runs.replace("/// ```\n/// assert", "/// ```text\n/// assert")), 1);
    assert_eq!(unexplained("a.rs", "", "pub struct A {").len(), 1);
    assert_eq!(examples(&[runs, runs].concat()), 2);
    let others = ["text", "ignore", "no_run", "compile_fail", "toml"];
    let fenced = |language| examples(&format!("//! ```{language}\n//! x\n//! ```\n"));
    assert_eq!(others.map(fenced), [0; 5]);
}
