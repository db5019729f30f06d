//! The crates of the workspace: compares the diagram and the table in ARCHITECTURE.md with cargo.
//!
//! The table states exactly which other crates of the workspace each crate uses. In the diagram, a
//! crate uses only crates in lower lines. cargo itself refuses circular dependencies.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Foreign crates that the crates in [`MECHANISMS`] may use, for tasks that should not be
/// implemented again.
const MECHANISMS_MAY_USE: &[&str] =
    &["foldhash", "hashbrown", "ipnet", "rand_core", "rand_pcg", "serde", "thiserror"];

/// The crates that contain the algorithms (the *mechanisms*), without I/O.
const MECHANISMS: &[&str] = &["base", "tcp", "core", "gateway"];

/// The only crates that may use an async executor, or libraries that need one.
const ONLY_ASYNC: &[&str] = &["tidegate", "api", "repository"];

/// Async executors, and libraries that need one.
const EXECUTORS: &[&str] = &["axum", "hyper", "hyper-util", "tokio"];

/// A crate, and the crates that its manifest names.
struct Crate {
    /// Name without the prefix `tidegate-`.
    name: String,
    ours: Vec<String>,
    /// Names of foreign crates, with `true` if only tests use them.
    foreign: Vec<(String, bool)>,
}

#[test]
fn the_architecture_page_shows_the_crates_of_cargo() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut crates = of_cargo(&root.join("Cargo.toml"));
    crates.extend(of_cargo(&root.join("fuzz/Cargo.toml")));
    assert!(crates.len() > 10, "cargo shows {} crates", crates.len());
    let complaints = [shown(&crates, &page), foreign(&crates)].concat();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// The crates of the workspace with this manifest.
fn of_cargo(manifest: &Path) -> Vec<Crate> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"]);
    let said = cargo.arg(manifest).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let known: Value = serde_json::from_slice(&said.stdout).unwrap();
    known["packages"].as_array().unwrap().iter().map(of_package).collect()
}

fn of_package(package: &Value) -> Crate {
    let name = package["name"].as_str().unwrap();
    let mut it = Crate { name: short(name).to_owned(), ours: Vec::new(), foreign: Vec::new() };
    for dependency in package["dependencies"].as_array().unwrap() {
        let name = dependency["name"].as_str().unwrap();
        if name.starts_with(OURS) {
            it.ours.push(short(name).to_owned());
        } else {
            it.foreign.push((name.to_owned(), dependency["kind"] == "dev"));
        }
    }
    it.ours.sort();
    it.ours.dedup();
    it
}

/// Prefix of the names of this workspace's crates.
const OURS: &str = "tidegate";

/// The name of a crate without the prefix. The name `tidegate` does not change.
fn short(name: &str) -> &str {
    name.strip_prefix("tidegate-").unwrap_or(name)
}

/// Complains unless the table has a row for each crate, and the row names the crates that it uses.
/// Also complains unless the diagram shows each crate above the crates that it uses.
fn shown(crates: &[Crate], page: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let (rows, lines) = (rows(page), lines(page));
    let line_of = |name: &str| lines.iter().position(|line| line.contains(&name));
    for krate in crates {
        let name = &krate.name;
        let uses = if krate.ours.is_empty() { "nothing".to_owned() } else { krate.ours.join(", ") };
        match rows.iter().find(|(of, _)| of == name) {
            None => complaints.push(format!(
                "ARCHITECTURE.md: crate `{name}` has no row in the table of crates; it uses {uses}"
            )),
            Some((_, listed)) if *listed != krate.ours => complaints.push(format!(
                "ARCHITECTURE.md: the row of `{name}` states that it uses {}, and cargo {uses}",
                listed.join(", ")
            )),
            Some(_) => {}
        }
        let Some(own) = line_of(name) else {
            complaints.push(format!("ARCHITECTURE.md: crate `{name}` is not in the diagram"));
            continue;
        };
        for used in krate.ours.iter().filter(|used| line_of(used).is_some_and(|at| at <= own)) {
            complaints.push(format!(
                "`{name}` must not use `{used}`, which is not below it in the diagram of ARCHITECTURE.md; move what both need down"
            ));
        }
    }
    let known = |name: &&str| crates.iter().any(|it| it.name == *name);
    for name in lines.iter().flatten().filter(|name| !known(name)) {
        complaints.push(format!("ARCHITECTURE.md: the diagram shows `{name}`, which is no crate"));
    }
    complaints
}

/// The rows of the table in `page`: the name of the crate, and the crates in the last column.
///
/// The folder of a crate is `crates/NAME`, `fuzz/`, or `tests/` for the crate `e2e`.
fn rows(page: &str) -> Vec<(String, Vec<String>)> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').collect();
        let place = cells[0].split('`').next()?;
        let name = match place {
            "tests/" => "e2e",
            "fuzz/" => "fuzz",
            other => other.strip_prefix("crates/").filter(|name| !name.contains(['/', '.']))?,
        };
        let mut uses: Vec<String> =
            cells.get(2)?.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        uses.sort();
        Some((name.to_owned(), uses))
    };
    let table = page.split("\n## ").find(|part| part.starts_with("Crates"));
    table.unwrap_or_default().lines().filter_map(row).collect()
}

/// The crate names in each line of the diagram. The diagram is the first code block in the chapter
/// "Crates". Text after three spaces is ignored.
fn lines(page: &str) -> Vec<Vec<&str>> {
    let chapter = page.split("\n## ").find(|part| part.starts_with("Crates")).unwrap_or_default();
    let diagram = chapter.split("```").nth(1).unwrap_or_default();
    diagram.lines().map(names).collect()
}

/// The crate names in a line of the diagram.
fn names(line: &str) -> Vec<&str> {
    let names = line.split("   ").next().unwrap_or_default();
    names.split('·').map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Complains about foreign crates that the mechanisms may not use, and about executors in crates
/// that may not have one.
fn foreign(crates: &[Crate]) -> Vec<String> {
    let mut complaints = Vec::new();
    for krate in crates {
        let name = krate.name.as_str();
        for (used, for_tests) in &krate.foreign {
            let used = used.as_str();
            if MECHANISMS.contains(&name) && !for_tests && !MECHANISMS_MAY_USE.contains(&used) {
                complaints.push(format!(
                    "`{name}` must not use `{used}`: the mechanisms stay small and pure; do it in a driver, or argue for it in docs/decisions.md"
                ));
            } else if EXECUTORS.contains(&used) && !ONLY_ASYNC.contains(&name) {
                complaints.push(format!(
                    "`{name}` must not use `{used}`: executors live in the program alone; hand the crate what it needs as arguments"
                ));
            }
        }
    }
    complaints
}

/// A crate for a test, with the crates of the workspace and the foreign crates that it uses.
fn example(name: &str, ours: &[&str], foreign: &[(&str, bool)]) -> Crate {
    Crate {
        name: name.to_owned(),
        ours: ours.iter().map(|it| (*it).to_owned()).collect(),
        foreign: foreign.iter().map(|(it, for_tests)| ((*it).to_owned(), *for_tests)).collect(),
    }
}

/// Catches: a row that is not compared; a crate in the same line of the diagram that counts as
/// lower.
#[test]
fn a_page_that_differs_from_cargo_is_refused() {
    let page = "# Map\n\n## Crates\n\n```\ntidegate   the program\nsim · wire\ncore\n```\n\n\
        | where | contents | uses |\n|---|---|---|\n| `crates/core` | all | |\n\
        | `crates/wire` | bytes | `core` |\n| `crates/sim` | time | `core` |\n\
        | `crates/tidegate` | commands | `core`, `sim` |\n\n## Next\n";
    let of = |sim: &[&str], more: Option<Crate>| {
        let mut all = vec![
            example("core", &[], &[]),
            example("wire", &["core"], &[]),
            example("sim", sim, &[]),
            example("tidegate", &["core", "sim"], &[]),
        ];
        all.extend(more);
        shown(&all, page).join("\n")
    };
    assert_eq!(of(&["core"], None), "");
    let beside = of(&["core", "wire"], None);
    assert!(beside.contains("states that it uses core, and cargo core, wire"), "{beside}");
    assert!(beside.contains("`sim` must not use `wire`"), "{beside}");
    let new = of(&["core"], Some(example("new", &["core"], &[])));
    assert!(new.contains("`new` has no row") && new.contains("not in the diagram"), "{new}");
}

/// Catches: a dependency that only tests use, and that is refused; an executor that any crate may
/// use.
#[test]
fn a_foreign_crate_in_the_mechanisms_and_an_executor_elsewhere_are_refused() {
    let of = |name, used, for_tests| foreign(&[example(name, &[], &[(used, for_tests)])]).concat();
    assert!(of("core", "log", false).contains("stay small and pure"));
    assert_eq!(of("core", "toml", true), "");
    assert_eq!(of("core", "serde", false), "");
    assert!(of("dataplane", "tokio", false).contains("program alone"));
    assert_eq!(of("api", "tokio", false), "");
}
