//! Each id of a requirement or expectation that a file cites, such as `R001-9` or `A000-16`, has a
//! paragraph in `docs/ledger.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders in which cited ids are searched.
const CITING: &[&str] =
    &["crates", "tests", "fuzz", "experiments", "python", "validate", "docs", "bpf"];

/// Extensions of the files that are searched.
const KINDS: &[&str] = &["rs", "py", "md", "toml", "c", "h"];

/// Folders of tools, which contain copies of files.
const NOT_OURS: &[&str] = &["target", ".venv", "node_modules", "__pycache__"];

/// The ids that `text` cites: `R` or `A`, three digits for the paper, a dash and a number.
fn cited(text: &str) -> BTreeSet<&str> {
    let mut ids = BTreeSet::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
        let Some(rest) = word.strip_prefix(['R', 'A']) else { continue };
        let Some((paper, number)) = rest.split_once('-') else { continue };
        // After the number, a range may follow ("A001-1-4"), or the remainder of a compound word.
        let digits = number.chars().take_while(char::is_ascii_digit).count();
        let is_paper = paper.len() == 3 && paper.starts_with("00");
        if is_paper && paper.bytes().all(|byte| byte.is_ascii_digit()) && digits > 0 {
            let end = 1 + paper.len() + 1 + digits;
            ids.insert(&word[..end]);
        }
    }
    ids
}

/// The ids that have a paragraph: headings of the third level.
fn explained(ledger: &str) -> BTreeSet<&str> {
    ledger.lines().filter_map(|line| line.strip_prefix("### ")).map(str::trim).collect()
}

/// The ids in `text` that have no paragraph in `ledger`.
fn unexplained(path: &str, text: &str, ledger: &str) -> Vec<String> {
    let explained = explained(ledger);
    let missing = cited(text).into_iter().filter(|id| !explained.contains(id));
    missing
        .map(|id| format!("{path}: `{id}` has no paragraph in docs/ledger.md; add one, `### {id}`"))
        .collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !NOT_OURS.contains(&name) {
            collect(&path, paths);
        } else if path.extension().is_some_and(|it| KINDS.iter().any(|kind| it == *kind)) {
            paths.push(path);
        }
    }
}

#[test]
fn every_id_has_a_paragraph_in_the_ledger() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let ledger = fs::read_to_string(root.join("docs/ledger.md")).unwrap();
    let mut paths = Vec::new();
    for folder in CITING {
        collect(&root.join(folder), &mut paths);
    }
    paths.sort();
    let complaints: Vec<String> = paths
        .iter()
        // This file cites ids that do not exist.
        .filter(|path| !path.ends_with("architecture/ledger.rs"))
        .flat_map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            unexplained(&name, &text, &ledger)
        })
        .collect();
    assert!(explained(&ledger).len() > 100, "the ledger is nearly empty");
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Catches: an id that is not recognised before a full stop, in a range or in brackets; an id
/// with a number of two digits, of which only the first is read.
#[test]
fn an_id_without_a_paragraph_is_refused() {
    let ledger = "# The ledger\n\n### R001-9\n\nThree rules.\n";
    let refused = |text| unexplained("a.rs", text, ledger).join("\n");
    assert_eq!(refused("// (`postack`, R001-9), RFC 2001-9, AF001-3, R01-4."), "");
    for text in ["see A009-1.", "(A009-1)", "A009-1: \"x\"", "A009-1-a", "`A009-1`"] {
        assert!(refused(text).contains("`A009-1` has no paragraph"), "{text}");
    }
    assert!(refused("R001-91").contains("`R001-91`"));
}
