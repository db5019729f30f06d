//! Rules for the structure of the workspace, checked like any other behaviour.
//!
//! Each rule is a function that takes the source files and returns complaints. A complaint says how
//! to correct the fault. The first test runs all rules on the workspace. The other tests show that
//! each rule finds faults.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources has failed")]

#[path = "architecture/ack_control.rs"]
mod ack_control;
#[path = "architecture/crates.rs"]
mod crates;
#[path = "architecture/examples.rs"]
mod examples;
#[path = "architecture/ledger.rs"]
mod ledger;
#[path = "architecture/names.rs"]
mod names;

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of lines of a source file.
const MAX_LINES: usize = 600;

/// Words that are forbidden in the core, and their replacements.
const NOT_IN_CORE: &[(&str, &str)] = &[
    ("Instant", "time is an input: take `now: Time`"),
    ("SystemTime", "time is an input: take `now: Time`"),
    ("std::thread", "the core is single-threaded: let the driver own threads"),
    ("thread_local!", "nothing is global: hold it in the state machine"),
    ("static mut", "nothing is global: hold it in the state machine"),
    ("Mutex", "the core is single-threaded: take `&mut self`"),
    ("std::fs", "the core does no I/O: let the program read, and pass the value in"),
    ("std::io", "the core does no I/O: let the driver do it"),
    ("std::env", "configuration is an input: pass the value in"),
    ("std::process", "the core does no I/O: let the program do it"),
    ("TcpStream", "the core does no I/O: let the driver do it"),
    ("UdpSocket", "the core does no I/O: let the driver do it"),
    ("println!", "the core does no I/O: report through counters"),
    ("std::collections::HashMap", "its order is random: use `hashbrown` with the seed, or a `Vec`"),
    ("std::collections::HashSet", "its order is random: use `hashbrown` with the seed, or a `Vec`"),
    ("RandomState", "chance is an input: take a seed"),
];

/// Words that are forbidden in `tidegate-config` and `tidegate-scenario`, because these crates do
/// no I/O: they take text and return findings.
const NOT_IN_CONFIG: &[&str] = &[
    "Instant",
    "SystemTime",
    "std::thread",
    "static mut",
    "std::fs",
    "std::io",
    "std::env",
    "std::process",
    "TcpStream",
    "UdpSocket",
    "println!",
];

/// Paths in which `unsafe` is permitted.
const UNSAFE: &[&str] = &["crates/dataplane/", "crates/sim/src/prefetch.rs"];

/// Keys of the papers that `Source:` may cite.
const PAPERS: &[&str] = &["aggregates", "postack", "itcp", "trunking", "marking"];

/// Beginnings of other sources that `Source:` may cite: those that a reader can find, and
/// measurements that a reader can repeat.
const STANDARDS: &[&str] = &[
    "RFC ",
    "draft-",
    "IEEE ",
    "IANA",
    "ITU-T ",
    "Linux",
    "ns-2",
    "virtio ",
    "3GPP TS ",
    "Prometheus",
    "etcd 3.4",
    "gRPC",
    "NSDI ",
    "SIGCOMM ",
    "SOSP ",
    "doi 10.",
    "tc-cake(8)",
    "measured",
];

/// A source file of the workspace, or an example in a test.
struct File {
    /// Path relative to the root of the workspace, with `/`.
    path: String,
    text: String,
}

type Complaints = Vec<String>;

#[test]
fn the_workspace_keeps_its_shape() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["crates", "tests", "fuzz"] {
        collect(&root, &root.join(folder), &mut files);
    }
    assert!(files.iter().any(|file| file.path == "crates/core/src/lib.rs"), "no sources found");
    let rules = [
        beginnings,
        lengths,
        order_of_modules,
        purity,
        unsafety,
        sources,
        names::type_names,
        names::methods,
        ack_control::field_count,
        ack_control::constant_count,
        ack_control::no_choices,
    ];
    let complaints: Complaints = rules.iter().flat_map(|rule| rule(&files)).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Collects the source files in `folder`.
fn collect(root: &Path, folder: &Path, files: &mut Vec<File>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" {
            collect(root, &path, files);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.push(File { path, text });
        }
    }
}

fn rust(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.path.ends_with(".rs"))
}

/// Each file begins with a `//!` line that states its purpose.
fn beginnings(files: &[File]) -> Complaints {
    rust(files)
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| format!("{}: begin with `//!` and one sentence on what it is for", file.path))
        .collect()
}

/// No file is longer than [`MAX_LINES`].
fn lengths(files: &[File]) -> Complaints {
    rust(files)
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(file, lines)| {
            format!(
                "{}: {lines} lines; split it by what it does into files of at most {MAX_LINES}",
                file.path
            )
        })
        .collect()
}

/// In the core and in the gateway's crate, a module uses only modules of its own layer and of earlier
/// layers, in the order of `lib.rs`.
fn order_of_modules(files: &[File]) -> Complaints {
    ["crates/core/src/", "crates/gateway/src/"].iter().flat_map(|it| order_in(files, it)).collect()
}

/// The complaints of [`order_of_modules`] about the crate with its sources in `folder`.
fn order_in(files: &[File], folder: &str) -> Complaints {
    let path = format!("{folder}lib.rs");
    let Some(lib) = files.iter().find(|file| file.path == path) else {
        return Complaints::new();
    };
    let layers = layers(&lib.text);
    let rank =
        |module: &str| layers.iter().position(|layer| layer.iter().any(|name| name == module));
    let mut complaints: Complaints = modules(&lib.text)
        .filter(|module| rank(module).is_none())
        .map(|module| {
            format!(
                "{path}: module `{module}` is not in the list of layers above; give it its place"
            )
        })
        .collect();
    for file in rust(files) {
        let Some(inside) = file.path.strip_prefix(folder) else { continue };
        let module = inside.split(['/', '.']).next().unwrap();
        let Some(own) = rank(module).filter(|_| !inside.contains("tests")) else { continue };
        let code: String = production(&file.text).lines().map(code_of).collect();
        for used in used_by(&code) {
            let home = reexported_from(&lib.text, used).unwrap_or(used);
            if rank(home).is_some_and(|at| at > own) {
                complaints.push(format!(
                    "{}: `{module}` must not use `{home}` (as `crate::{used}`), which lies below it in the list of lib.rs; move what both need up",
                    file.path
                ));
            }
        }
    }
    complaints
}

/// The layers as the documentation of `lib.rs` lists them: module names in backticks, with `·`
/// between layers.
fn layers(lib: &str) -> Vec<Vec<String>> {
    let doc: Vec<&str> = lib.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let doc = doc.join(" ");
    let list = doc.split_once("in this list:").map_or("", |(_, list)| list);
    let names = |layer: &str| layer.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    list.split('·').map(names).collect()
}

fn modules(lib: &str) -> impl Iterator<Item = &str> {
    lib.lines().filter_map(|line| {
        let name = line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod "))?;
        name.strip_suffix(';')
    })
}

/// The module from which `lib.rs` re-exports `name`.
fn reexported_from<'a>(lib: &'a str, name: &str) -> Option<&'a str> {
    let uses = lib.split("pub use ").skip(1).filter_map(|rest| rest.split_once(';'));
    uses.filter_map(|(path, _)| path.split_once("::"))
        .find(|(_, items)| words(items).any(|word| word == name))
        .map(|(module, _)| module)
}

/// The first path segment after each `crate::` in `code`, including those in braces.
fn used_by(code: &str) -> Vec<&str> {
    let after = code.split("crate::").skip(1);
    after
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(list) => listed(list),
            None => vec![rest],
        })
        .filter_map(|path| words(path).next())
        .collect()
}

/// The items of a list in braces. `list` begins after the opening brace.
fn listed(list: &str) -> Vec<&str> {
    let (mut items, mut start, mut depth) = (Vec::new(), 0, 0_u32);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        if c == '}' && start == at + 1 {
            break;
        }
    }
    items
}

/// The mechanisms read no clock, do no I/O and have no globals. The crates that read files use
/// neither a clock nor I/O.
fn purity(files: &[File]) -> Complaints {
    let mut complaints = Complaints::new();
    let mechanisms =
        ["crates/base/src/", "crates/tcp/src/", "crates/core/src/", "crates/gateway/src/"];
    let of_mechanisms = |file: &&File| mechanisms.iter().any(|it| file.path.starts_with(it));
    for file in rust(files).filter(of_mechanisms) {
        for (word, remedy) in NOT_IN_CORE {
            if contains_word(production(&file.text), word) {
                complaints.push(format!("{}: no `{word}` in the core; {remedy}", file.path));
            }
        }
    }
    let written = |file: &&File| {
        ["crates/config/src/", "crates/scenario/src/"].iter().any(|it| file.path.starts_with(it))
            && !file.path.contains("/tests")
    };
    for file in rust(files).filter(written) {
        for word in NOT_IN_CONFIG {
            if contains_word(production(&file.text), word) {
                complaints.push(format!(
                    "{}: no `{word}` where files are understood; let the program read, and pass the text in",
                    file.path
                ));
            }
        }
    }
    complaints
}

/// `unsafe` occurs only where ARCHITECTURE.md permits it.
fn unsafety(files: &[File]) -> Complaints {
    let is_lifted = |file: &&File| {
        let code: String = file.text.lines().map(code_of).collect();
        code.match_indices("unsafe_code").any(|(at, _)| {
            let attribute = code[..at].rsplit('[').next().unwrap();
            ["expect(", "allow(", "warn("].iter().any(|level| attribute.contains(level))
        })
    };
    // The tests of this rule contain examples.
    let own = "crates/core/tests/architecture";
    rust(files)
        .filter(|file| !UNSAFE.iter().any(|it| file.path.starts_with(it)))
        .filter(|file| !file.path.starts_with(own))
        .filter(is_lifted)
        .map(|file| {
            format!("{}: `unsafe_code` is denied outside of {}", file.path, UNSAFE.join(" and "))
        })
        .collect()
}

/// Each `Source:` cites a source that a reader can find.
fn sources(files: &[File]) -> Complaints {
    let mut complaints = Complaints::new();
    for file in rust(files) {
        let comments: Vec<Option<&str>> = file.text.lines().map(comment_of).collect();
        for (at, comment) in comments.iter().enumerate() {
            if !comment.is_some_and(|text| text.starts_with("Source:")) {
                continue;
            }
            // The citation ends at an empty line or with the comment.
            let lines =
                comments[at..].iter().map_while(|line| line.filter(|text| !text.is_empty()));
            let cited: String = lines.collect::<Vec<_>>().join(" ");
            let known = PAPERS.iter().any(|key| cited.contains(&format!("`{key}`")))
                || STANDARDS.iter().any(|start| cited.contains(start));
            if !known {
                complaints.push(format!(
                    "{}:{}: name a source a reader can find: a paper's key in backticks ({}), or one of {STANDARDS:?}, and the section",
                    file.path,
                    at + 1,
                    PAPERS.join(", "),
                ));
            }
        }
    }
    complaints
}

/// The source text without its unit tests.
fn production(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(production, _)| production)
}

/// The text of a comment line. `None` for other lines.
fn comment_of(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']).trim())
}

/// A line of code without its comment.
fn code_of(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// Returns `true` if the code of `text` contains `word` as a whole word. Comments are ignored.
fn contains_word(text: &str, word: &str) -> bool {
    let longer = |c: char| c.is_alphanumeric() || c == '_';
    text.lines().map(code_of).any(|code| {
        code.match_indices(word).any(|(at, _)| {
            let (before, after) = (&code[..at], &code[at + word.len()..]);
            !before.ends_with(longer) && (word.ends_with('!') || !after.starts_with(longer))
        })
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The complaints of `rule` about a workspace with these files.
fn about(rule: fn(&[File]) -> Complaints, files: &[(&str, &str)]) -> String {
    let file =
        |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
    rule(&files.iter().map(file).collect::<Vec<_>>()).join("\n")
}

#[test]
fn a_file_without_purpose_or_beyond_its_length_is_refused() {
    assert!(about(beginnings, &[("crates/x/src/a.rs", "use std;")]).contains("begin with"));
    assert_eq!(about(beginnings, &[("crates/x/src/a.rs", "//! Why.\nuse std;")]), "");
    let long = "//! Long.\n".repeat(MAX_LINES + 1);
    assert!(about(lengths, &[("crates/x/src/a.rs", &long)]).contains("split it"));
    assert_eq!(about(lengths, &[("crates/x/src/a.rs", "//! Short.\n")]), "");
}

#[test]
fn a_module_that_uses_a_later_layer_is_refused() {
    let lib = "//! Order.\n//!\n//! Only those above in this list: `time`, `units` ·\n//! `meter` · `policy`.\n\n\
        pub mod time;\npub mod units;\nmod meter;\nmod policy;\npub use policy::{Policy, Filter};\npub use time::Time;\n";
    let about =
        |path, text| about(order_of_modules, &[("crates/core/src/lib.rs", lib), (path, text)]);
    let meter = |text| about("crates/core/src/meter/bucket.rs", text);
    assert!(meter("use crate::policy::Rule;").contains("`meter` must not use `policy`"));
    assert!(meter("use crate::{Time, Filter};").contains("`policy` (as `crate::Filter`)"));
    assert!(meter("use crate::{units::{A, B}, policy};").contains("must not use `policy`"));
    assert!(meter("fn f() -> crate::Policy {}").contains("must not use `policy`"));
    assert_eq!(
        meter("use crate::{Time, units::{Filter, B}};\nfn f() -> crate::meter::Policy {}"),
        ""
    );
    assert_eq!(
        meter("/// See [`crate::policy`].\n#[cfg(test)]\nmod tests {\nuse crate::policy::Rule;\n}"),
        ""
    );
    assert_eq!(about("crates/core/src/time.rs", "use crate::units::Rate;"), "");
}

#[test]
fn unsafe_code_outside_its_places_is_refused() {
    let about = |path, text| about(unsafety, &[(path, text)]);
    let lifted = "#![expect(\n    dead_code,\n    unsafe_code,\n)]\n";
    assert!(about("crates/lab/src/lib.rs", lifted).contains("denied outside"));
    assert!(about("crates/sim/src/lib.rs", "#[allow(unsafe_code)]").contains("denied outside"));
    assert_eq!(about("crates/dataplane/src/lib.rs", lifted), "");
    assert_eq!(about("crates/sim/src/prefetch.rs", lifted), "");
    assert_eq!(about("crates/lab/src/lib.rs", "#![forbid(unsafe_code)]"), "");
}

#[test]
fn a_module_without_a_layer_is_refused() {
    let lib = "//! Only those above in this list: `time`.\nmod time;\nmod later;\n";
    let complaints = about(order_of_modules, &[("crates/core/src/lib.rs", lib)]);
    assert!(complaints.contains("`later` is not in the list"), "{complaints}");
}

#[test]
fn clocks_and_io_and_globals_in_the_core_are_refused() {
    let core = |text| about(purity, &[("crates/core/src/a.rs", text)]);
    assert!(core("let now = Instant::now();").contains("take `now: Time`"));
    assert!(core("println!(\"x\");").contains("counters"));
    assert!(core("use std::collections::HashMap;").contains("its order is random"));
    assert_eq!(core("// An Instant is never read.\nstruct Instantly;"), "");
    assert_eq!(about(purity, &[("crates/dataplane/src/a.rs", "Instant::now()")]), "");
    let config = |path, text| about(purity, &[(path, text)]);
    assert!(config("crates/config/src/a.rs", "use std::fs;").contains("pass the text in"));
    assert_eq!(config("crates/config/src/a/tests.rs", "use std::fs;"), "");
}

#[test]
fn a_source_that_cannot_be_found_is_refused() {
    let cited = |text| about(sources, &[("crates/core/src/a.rs", text)]);
    assert!(
        cited("/// Source: a talk.\n///\n/// RFC 2475 is unrelated.")
            .contains("a.rs:1: name a source")
    );
    assert!(cited("//! Source: `aggregate`, section 5.").contains("name a source"));
    assert_eq!(cited("//! Source: *Fair rate control*\n//! (`aggregates`), section 5."), "");
    assert_eq!(cited("/// Source: RFC 6298, section 2."), "");
}
