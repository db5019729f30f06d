//! Each crate uses a type name only once, and methods stand in the file of their type's fields.

use std::collections::{BTreeMap, BTreeSet};

use super::{Complaints, File, about, production, rust};

/// Type names that the macro `registry!` requires in each module of a mechanism. A registry lists
/// the mechanisms (algorithms) of one kind.
const OF_REGISTRIES: &[&str] = &["Config"];

/// Files with methods of a type whose fields are in another branch of the module tree.
const FAR_FROM_FIELDS: &[(&str, &str)] = &[
    ("crates/dataplane/src/driver.rs", "Live"),
    ("crates/dataplane/src/offload.rs", "Interface"),
    ("crates/repository/src/etcd/push.rs", "Operation"),
    ("crates/sim/src/draw.rs", "Distribution"),
    ("crates/sim/src/engine/conservation.rs", "Network"),
];

/// The sources of all crates without tests, as pairs of crate name and file.
fn of_crates(files: &[File]) -> impl Iterator<Item = (&str, &File)> {
    rust(files).filter_map(|file| {
        let (krate, inside) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
        let is_test = inside.ends_with("tests.rs") || inside.contains("tests/");
        (!is_test && !inside.contains("testing")).then_some((krate, file))
    })
}

/// The name of the type that a line without indentation defines.
fn defined(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let rest =
            if rest.starts_with('(') { rest.split_once(')').map_or(rest, |it| it.1) } else { rest };
        rest.trim_start()
    });
    let rest =
        ["struct ", "enum ", "trait ", "type "].iter().find_map(|it| line.strip_prefix(it))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The name of the type whose inherent `impl` block begins in `line`.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generics) => generics.split_once("> ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next()?;
    let after = rest[name.len()..].trim_start();
    let is_inherent = !after.contains(" for ") && !after.starts_with("for ");
    is_inherent.then(|| name.rsplit("::").next().unwrap_or(name))
}

/// The names of the types that `text` defines, at the left margin or in the macros `choice!`,
/// `parameters!` and `terms!`.
fn definitions(text: &str) -> Vec<&str> {
    let mut declares = false;
    let mut names = Vec::new();
    for line in text.lines() {
        match line {
            "choice! {" | "parameters! {" | "terms! {" => declares = true,
            "}" => declares = false,
            _ => {}
        }
        let inner = line.strip_prefix("    ").filter(|_| declares);
        names.extend(
            defined(line).or_else(|| inner.and_then(|it| defined(it).or_else(|| declared(it)))),
        );
    }
    names
}

/// The name of the struct in a line of `parameters!`, such as `pub Config, checked {`.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let is_head = line.ends_with('{') || line.ends_with("{}");
    let name = line.split(|c: char| !c.is_alphanumeric()).next()?;
    (is_head && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some(name)
}

/// The files that define a type, by crate and type name.
fn types(files: &[File]) -> BTreeMap<(&str, &str), Vec<&str>> {
    let mut types: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (krate, file) in of_crates(files) {
        for name in definitions(production(&file.text)) {
            types.entry((krate, name)).or_default().push(&*file.path);
        }
    }
    types
}

/// Complains about two types of a crate that have the same name.
pub(super) fn type_names(files: &[File]) -> Complaints {
    let mut complaints = Complaints::new();
    for ((_, name), paths) in types(files) {
        if paths.len() < 2 || OF_REGISTRIES.contains(&name) {
            continue;
        }
        complaints.push(format!(
            "{}: `{name}` is also a type of {}; name each after its noun in the field",
            paths[0],
            paths[1..].join(", "),
        ));
    }
    complaints
}

/// Complains about methods that stand neither in the file of the fields nor in a child module whose
/// header names that file.
pub(super) fn methods(files: &[File]) -> Complaints {
    let types = types(files);
    let mut complaints = Complaints::new();
    for (krate, file) in of_crates(files) {
        let mut before = BTreeSet::new();
        for name in production(&file.text).lines().filter_map(implemented) {
            let Some(homes) = types.get(&(krate, name)) else { continue };
            if homes.contains(&&*file.path) || !before.insert(name) {
                continue;
            }
            let parent = homes.iter().find(|home| {
                let folder = home.trim_end_matches(".rs").trim_end_matches("/mod");
                file.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
            });
            let header = file.text.lines().take_while(|line| line.starts_with("//!"));
            let says = header.collect::<Vec<_>>().join(" ").replace("//! ", "");
            let far = FAR_FROM_FIELDS.contains(&(&*file.path, name));
            let home = parent.or_else(|| homes.first().filter(|_| far));
            let Some(home) = home else {
                complaints.push(format!(
                    "{}: the fields of `{name}` are in {}; move the methods there or into a child of it",
                    file.path,
                    homes.join(", "),
                ));
                continue;
            };
            let home = home.rsplit('/').next().unwrap_or(home);
            if !(says.contains(&format!("`{name}`")) && says.contains(&format!("`{home}`"))) {
                complaints.push(format!(
                    "{}: add to the header: Methods of `{name}`, whose fields are in `{home}`.",
                    file.path
                ));
            }
        }
    }
    complaints
}

/// Catches: types that are compared within one file only; types of other crates or of tests that
/// are counted; a `pub(crate)` type that is not found; a name required by registries that is
/// refused.
#[test]
fn a_type_name_used_twice_in_a_crate_is_refused() {
    let twice = |a, b: &str| {
        about(type_names, &[(a, "pub(crate) struct State;"), ("crates/x/src/b.rs", b)])
    };
    for b in [
        "enum State {}",
        "pub trait State {}",
        "type State = u8;",
        "pub(super) struct State<T>(T);",
    ] {
        assert!(
            twice("crates/x/src/a.rs", b).contains("`State` is also a type of crates/x/src/b.rs"),
            "{b}"
        );
    }
    assert_eq!(
        twice("crates/x/src/a.rs", "struct Stateful;\n// enum State\n    struct State;"),
        ""
    );
    assert_eq!(twice("crates/y/src/a.rs", "enum State {}"), "");
    assert_eq!(twice("crates/x/src/a/tests.rs", "enum State {}"), "");
    assert_eq!(twice("crates/x/src/a.rs", "#[cfg(test)]\nmod tests {\nenum State {}"), "");
    let configs =
        [("crates/x/src/a.rs", "struct Config;"), ("crates/x/src/b.rs", "struct Config;")];
    assert_eq!(about(type_names, &configs), "");
}

/// Catches: `impl` blocks with generics that are not found; trait implementations that are refused;
/// a header that names only the type, not the file.
#[test]
fn methods_far_from_their_fields_are_refused() {
    let about = |path, text| {
        about(methods, &[("crates/x/src/a.rs", "pub struct State<T>(T);"), (path, text)])
    };
    let block = "impl<T> super::State<T> {";
    assert!(about("crates/x/src/b.rs", block).contains("are in crates/x/src/a.rs; move"));
    assert!(about("crates/x/src/a/b.rs", block).contains("whose fields are in `a.rs`"));
    assert!(about("crates/x/src/a/b.rs", "//! `State`.\nimpl State<u8> {").contains("`a.rs`"));
    let whole =
        format!("//! Slices. Methods of `State`, whose fields are\n//! in `a.rs`.\n\n{block}");
    assert_eq!(about("crates/x/src/a/b.rs", &whole), "");
    assert_eq!(about("crates/x/src/b.rs", "impl<T> Drop for State<T> {"), "");
    assert_eq!(about("crates/y/src/b.rs", block), "");
}
