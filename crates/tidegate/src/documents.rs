//! The texts of one generation of the configuration: the policy file, its included files, and the
//! sets of policies that its sources (policy repositories) have delivered.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_config::policy_file::{self, Head};
use tidegate_config::source::SourceSpec;
use tidegate_config::{Findings, Host, Part};
use tidegate_repository::{Snapshot, select};

use crate::code::Code;
use crate::config::Config;
use crate::files;
use crate::output::Failure;

/// The texts of one generation.
#[derive(Clone, Debug)]
pub(crate) struct Documents {
    /// The policy file.
    pub(crate) file: PathBuf,
    /// The content of the policy file.
    pub(crate) text: Arc<str>,
    /// The included files, in the order of their names.
    pub(crate) included: Arc<[Part]>,
    /// The sets of the policy sources, by source name.
    pub(crate) sets: BTreeMap<String, Arc<Snapshot>>,
}

impl Documents {
    /// The policy file `file` with content `text`, and the current content of its included files.
    /// There are no sets yet.
    pub(crate) fn gather(file: &Path, text: String) -> Result<Self, Failure> {
        let head = Head::of(&text);
        let folder = file.parent().unwrap_or_else(|| Path::new("."));
        let included = include(folder, &head.includes, files::MOST.saturating_sub(text.len()))?;
        let (file, text) = (file.to_owned(), text.into());
        Ok(Self { file, text, included: included.into(), sets: BTreeMap::new() })
    }

    /// The sources that the policy file names.
    pub(crate) fn sources(&self) -> Vec<SourceSpec> {
        Head::of(&self.text).sources
    }

    /// Returns `true` if `other` has the same policy file and the same included files. The sets of
    /// sources are not compared.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        self.text == other.text && self.included == other.included
    }

    /// Compiles the texts. Leaves out items for roles that their source does not have, and sets of
    /// sources that the policy file does not name.
    pub(crate) fn parse(&self, host: Option<&Host>) -> (Option<Config>, Findings) {
        let parts = |head: &Head| {
            let of_source = |source: &SourceSpec| {
                let set = self.sets.get(&source.name).into_iter().flat_map(|set| &set.parts);
                set.map(|part| select(part, &source.roles)).collect::<Vec<_>>()
            };
            let of_sources = head.sources.iter().flat_map(of_source);
            self.included.iter().cloned().chain(of_sources).collect()
        };
        policy_file::parse_parts(&self.file.display().to_string(), &self.text, parts, host)
    }
}

/// The files that match `patterns` in `folder`, each once. Together they may have at most `most`
/// bytes.
fn include(folder: &Path, patterns: &[String], most: usize) -> Result<Vec<Part>, Failure> {
    let mut parts: Vec<Part> = Vec::new();
    let mut left = most;
    for pattern in patterns {
        for path in matches(folder, pattern)? {
            let origin = path.display().to_string();
            if parts.iter().any(|part| part.origin == origin) {
                continue;
            }
            let text = files::read_regular(&path, left).map_err(|error| error.of(&path))?.text;
            left -= text.len();
            parts.push(Part { origin, text });
        }
    }
    Ok(parts)
}

/// The files that match `pattern`, sorted. A pattern without a wildcard is the name of a file.
fn matches(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, Failure> {
    let bad = |why: String| {
        let message = format!("`include` cannot take `{}`: {why}", pattern.escape_debug());
        Failure::input(Code::NoSuchFile, message)
    };
    if !pattern.contains(['*', '?', '[']) {
        return Ok(vec![folder.join(pattern)]);
    }
    let folder = glob::Pattern::escape(&folder.display().to_string());
    let whole = Path::new(&folder).join(pattern);
    let found = glob::glob(&whole.display().to_string()).map_err(|error| bad(error.to_string()))?;
    found.map(|path| path.map_err(|error| bad(error.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    /// Catches: files in another order; a file included twice; a wildcard character in the name of
    /// the folder that is treated as a wildcard.
    #[test]
    fn included_files_are_sorted_and_read_once() {
        let folder = env::temp_dir().join(format!("tidegate-include-[{}]", std::process::id()));
        fs::create_dir_all(folder.join("d")).unwrap();
        let policy = |name: &str| format!("[[policy]]\nname = \"{name}\"\naction = \"pass\"\n");
        fs::write(folder.join("d/2.toml"), policy("two")).unwrap();
        fs::write(folder.join("d/1.toml"), policy("one")).unwrap();
        fs::write(folder.join("d/3.txt"), "not TOML").unwrap();
        let gateway = "[gateway]\nlan = \"l\"\nwan = \"w\"\n";
        let text = format!("include = [\"d/*.toml\", \"d/1.toml\"]\n{gateway}{}", policy("zero"));
        let documents = Documents::gather(&folder.join("main.toml"), text).unwrap();
        let (config, found) = documents.parse(None);
        let config = config.unwrap_or_else(|| panic!("{}", found.render(false)));
        let names: Vec<_> = config.policies.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["zero", "one", "two"]);

        let missing = format!("include = \"d/9.toml\"\n{gateway}");
        let failure = Documents::gather(&folder.join("main.toml"), missing).unwrap_err();
        assert!(failure.message.contains("d/9.toml"), "{}", failure.message);
        fs::remove_dir_all(&folder).unwrap();
    }
}
