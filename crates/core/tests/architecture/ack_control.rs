//! The ACK control (the mechanism that holds ACKs or changes their windows) stays small. The rule
//! counts its fields and its tuned constants, and neither number may grow.
//!
//! A field is a named field of a struct, of a variant, or of the macros `parameters!` and
//! `report!`. A constant is tuned if its value was chosen. Sizes of memory, bits of an encoding,
//! and units are not tuned.

use super::{Complaints, File, about, code_of, production, rust};

/// Number of fields today, which is also the maximum. The aim is 60
/// (`docs/decisions.md`, "Special cases of ACK control that stay").
const MOST_FIELDS: usize = 163;

/// Number of tuned constants today, which is also the maximum.
const MOST_CONSTANTS: usize = 13;

/// Constants whose value was not chosen: the file, the name, and the kind.
const NOT_TUNED: &[(&str, &str, &str)] = &[
    ("credit.rs", "AGES", "size"),
    ("hold.rs", "MOST_OF_FLOW", "size"),
    ("hold.rs", "NEVER", "bits"),
    ("virtual_queue.rs", "MOST", "size"),
    ("record.rs", "MOST", "size"),
    ("record.rs", "PLAIN", "bits"),
    ("record.rs", "DUPLICATE", "bits"),
    ("record.rs", "PACKET", "bits"),
    ("record.rs", "WHOLE", "bits"),
    ("record.rs", "NONE", "bits"),
    ("record.rs", "TICK_BITS", "unit"),
    ("paced.rs", "LEAST", "unit"),
    ("gate.rs", "TICK", "unit"),
    ("shares.rs", "LONGEST", "size"),
    ("flow.rs", "KNOWN", "bits"),
    ("flow.rs", "TIMED", "bits"),
    ("flow.rs", "EDGE", "bits"),
    ("flow.rs", "EXTENDED", "bits"),
    ("flow.rs", "COUNTED", "bits"),
    ("flow.rs", "DOUBLES", "bits"),
    ("flow.rs", "BEGUN", "bits"),
    ("flow.rs", "CAPPED", "bits"),
    ("flow.rs", "SIZED", "bits"),
    ("flow.rs", "AGAIN", "bits"),
    ("flow.rs", "ENDED", "bits"),
    ("flow.rs", "PAUSED", "bits"),
    ("flow.rs", "UNHELD", "bits"),
    ("flow.rs", "ECHOES", "bits"),
    ("flow.rs", "STOPPED", "bits"),
    ("window.rs", "LARGEST", "bits"),
    ("tcr.rs", "GREATEST_MSS", "bits"),
];

/// Sources of the ACK control without its tests.
fn of_ack_control(files: &[File]) -> impl Iterator<Item = &File> {
    rust(files).filter(|file| {
        let inside = file.path.strip_prefix("crates/core/src/ack").unwrap_or("-");
        let is_test = inside.contains("tests") || inside.contains("testing");
        (inside == ".rs" || inside.starts_with('/')) && !is_test
    })
}

/// The named fields of the structs, variants, `parameters!` and `report!` of `text`.
fn fields(text: &str) -> Vec<String> {
    let mut opened: Vec<bool> = Vec::new();
    let mut names = Vec::new();
    for line in production(text).lines().map(|line| code_of(line).trim()) {
        let is_type = opens_type(line) || (opened.last() == Some(&true) && line.ends_with('{'));
        if opened.last() == Some(&true) {
            let of_variant =
                line.split_once(" { ").filter(|_| line.trim_end_matches(',').ends_with('}'));
            let declared = of_variant.map_or(line, |(_, inside)| inside);
            let parts =
                declared.split(", ").take(if of_variant.is_some() { usize::MAX } else { 1 });
            names.extend(parts.filter_map(field).map(str::to_owned));
        }
        for c in line.chars() {
            match c {
                '{' => opened.push(is_type),
                '}' => {
                    opened.pop();
                }
                _ => {}
            }
        }
    }
    names
}

/// Returns `true` if `line` begins the body of a struct or an enum, or a struct of `parameters!`
/// or `report!`.
fn opens_type(line: &str) -> bool {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        rest.strip_prefix('(').and_then(|it| it.split_once(')')).map_or(rest, |it| it.1)
    });
    let line = line.trim_start();
    line.ends_with('{')
        && (line.starts_with("struct ")
            || line.starts_with("enum ")
            || line == "Config {"
            || line.ends_with(", summed {"))
}

/// The name of the field that `line` declares.
fn field(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        rest.strip_prefix('(').and_then(|it| it.split_once(')')).map_or(rest, |it| it.1)
    });
    let (name, _) = line.trim_start().split_once(": ")?;
    // Other names of a field of `report!`.
    let name =
        [" as ", " earlier "].iter().find_map(|it| name.split_once(it)).map_or(name, |it| it.0);
    let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_name.then_some(name)
}

/// The names of the constants of `text`.
fn constants(text: &str) -> impl Iterator<Item = &str> {
    let of_line = |line| {
        let (before, rest) = code_of(line).split_once("const ")?;
        // `pub struct A<const B: bool>` declares a parameter.
        let is_visible = before.trim_start().starts_with("pub") && !before.contains('<');
        let is_item = before.trim().is_empty() || is_visible;
        let (name, _) = rest.split_once(": ")?;
        let is_name =
            name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        (is_item && is_name && name != "_").then_some(name)
    };
    production(text).lines().filter_map(of_line)
}

/// Returns `true` if the constant `name` of `path` is a size, bits of an encoding, or a unit.
fn is_no_choice(path: &str, name: &str) -> bool {
    let at = |file: &str| path.ends_with(&format!("/{file}"));
    NOT_TUNED.iter().any(|(file, constant, _)| at(file) && *constant == name)
}

/// Complains if `count` differs from `most`. A smaller count is the new limit. `counted` names the
/// counted things, for the complaint.
fn limit(counted: &str, count: usize, most: usize) -> Complaints {
    let own = "crates/core/tests/architecture/ack_control.rs";
    match count.cmp(&most) {
        std::cmp::Ordering::Greater => {
            vec![format!(
                "ACK control has {count} {counted}, at most {most}; derive one from others"
            )]
        }
        std::cmp::Ordering::Less => {
            vec![format!("{own}: ACK control has {count} {counted} now; lower the limit to that")]
        }
        std::cmp::Ordering::Equal => Complaints::new(),
    }
}

/// The ACK control has no more fields than before.
pub(super) fn field_count(files: &[File]) -> Complaints {
    if of_ack_control(files).next().is_none() {
        return Complaints::new();
    }
    let count = of_ack_control(files).map(|file| fields(&file.text).len()).sum();
    limit("fields", count, MOST_FIELDS)
}

/// The ACK control has no more tuned constants than before.
pub(super) fn constant_count(files: &[File]) -> Complaints {
    if of_ack_control(files).next().is_none() {
        return Complaints::new();
    }
    let tuned =
        |file: &File| constants(&file.text).filter(|it| !is_no_choice(&file.path, it)).count();
    limit("tuned constants", of_ack_control(files).map(tuned).sum(), MOST_CONSTANTS)
}

/// Every constant in [`NOT_TUNED`] exists.
pub(super) fn no_choices(files: &[File]) -> Complaints {
    let exists = |file: &str, name: &str| {
        of_ack_control(files).any(|it| {
            it.path.ends_with(&format!("/{file}")) && constants(&it.text).any(|each| each == name)
        })
    };
    let missing = NOT_TUNED.iter().filter(|(file, name, _)| !exists(file, name));
    missing
        .map(|(file, name, _)| {
            format!("ack_control.rs: `{name}` of {file} does not exist; remove the entry")
        })
        .collect()
}

/// Catches: a field that is not counted because it is in a variant, in `parameters!` or in
/// `report!`, or has a visibility; an argument, an initializer, a comment or a test that is counted
/// as a field.
#[test]
fn fields_are_counted_and_nothing_else() {
    let text = "/// A doc: of it.\npub(super) struct A {\n    /// x: y\n    pub(crate) a: u32,\n    pub b: Vec<u8>, // c: d\n}\n\
        enum B {\n    C { d: u8 },\n    E {\n        f: u8,\n    },\n    G(u8),\n}\n\
        parameters! {\n    pub Config {\n        rate: Rate = Rate::ZERO;\n    }\n}\n\
        report! {\n    pub Counts, summed {\n        held: u32;\n        late earlier \"slow\": u64 => {\n            gauge \"x\" \"a: b\",\n        };\n    }\n}\n\
        fn g(x: u32) -> A {\n    let y: u32 = 1;\n    A {\n        a: x,\n        b: y,\n    }\n}\n\
        #[cfg(test)]\nmod tests {\n    struct T {\n        u: u8,\n    }\n}\n";
    assert_eq!(fields(text), ["a", "b", "d", "f", "rate", "held", "late"]);
}

/// Catches: a constant of an `impl` block that is not counted; a constant of a test, a function, an
/// assertion, or a parameter of a type that is counted as a constant.
#[test]
fn constants_are_counted_and_nothing_else() {
    let text = "/// const X: u8 = 1;\nconst A: u32 = 8;\npub(super) const B: Duration = Duration::ZERO;\n\
        pub(super) struct S<const F: bool> {}\nimpl C {\n    const D_2: u8 = 1;\n    const fn f(x: u8) -> u8 { x }\n}\nconst _: () = assert!(true);\n\
        #[cfg(test)]\nmod tests {\n    const E: u8 = 1;\n}\n";
    assert_eq!(constants(text).collect::<Vec<_>>(), ["A", "B", "D_2"]);
}

/// Catches: one more field or constant that is accepted; a limit that stays after a removal; a flag
/// that is counted as tuned; a flag of another file that is not counted.
#[test]
fn more_fields_or_constants_and_a_limit_too_high_are_refused() {
    let of = |count: usize| {
        let lines: String = (0..count).map(|n| format!("    field_{n}: u32,\n")).collect();
        let text = format!("struct A {{\n{lines}}}\n");
        about(field_count, &[("crates/core/src/ack/a.rs", &text)])
    };
    assert_eq!(of(MOST_FIELDS), "");
    assert!(of(MOST_FIELDS + 1).contains("derive one from others"));
    assert!(of(MOST_FIELDS - 1).contains("lower the limit"));
    let of = |count: usize, more: &str| {
        let lines: String = (0..count).map(|n| format!("const C_{n}: u32 = 1;\n")).collect();
        about(constant_count, &[("crates/core/src/ack/hold/flow.rs", &(lines + more))])
    };
    assert_eq!(of(MOST_CONSTANTS, "const KNOWN: u16 = 1;\n"), "");
    assert!(of(MOST_CONSTANTS, "const AGES: u16 = 1;\n").contains("derive one from others"));
    assert!(of(MOST_CONSTANTS - 1, "").contains("lower the limit"));
    let elsewhere = [("crates/core/src/class.rs", "const C: u8 = 1;\n")];
    assert_eq!(
        (about(field_count, &elsewhere), about(constant_count, &elsewhere)),
        Default::default()
    );
    assert!(about(no_choices, &elsewhere).contains("`AGES` of credit.rs does not exist"));
}
