//! Writes a set of policies into a directory. Each file is first written under a temporary name.
//! Then all files are renamed. The commit marker is written last.
//!
//! This file has methods of `Directory`, whose fields are in `directory.rs`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use tidegate_config::Item;
use tidegate_config::policy_file::is_usable_name;

use super::Directory;
use super::read::{MARKER, is_of_set, unusable};
use crate::{Fault, FaultKind, NodeReport};

/// Subdirectory for the reports of gateways. The operator creates it to get reports.
const REPORTS: &str = "status";

impl Directory {
    /// Replaces the set by `items` and commits it. Returns the new revision.
    pub(super) fn write(&self, items: &[Item]) -> Result<String, Fault> {
        let names = names(items)?;
        let at = |error| unusable(&self.path, &error);
        let directory = File::open(&self.path).map_err(at)?;
        directory.try_lock().map_err(|_| {
            let message = format!("another push to {} is running", self.path.display());
            Fault::new(FaultKind::Unusable, message).help("push again when it has ended")
        })?;
        if self.path.join(MARKER).is_symlink() {
            let message = format!("{} is a symbolic link", self.path.join(MARKER).display());
            let help = "push to the directory that is linked from here, with the tool that makes the links";
            return Err(Fault::new(FaultKind::Unusable, message).help(help));
        }
        for (name, item) in &names {
            prepare(&self.path, name, item.text().as_bytes()).map_err(at)?;
        }
        let kept: BTreeSet<_> = names.iter().map(|(name, _)| OsString::from(name)).collect();
        for (name, _) in &names {
            put_in_place(&self.path, name).map_err(at)?;
        }
        for entry in fs::read_dir(&self.path).map_err(at)? {
            let name = entry.map_err(at)?.file_name();
            if is_of_set(&name) && !kept.contains(&name) {
                fs::remove_file(self.path.join(&name)).map_err(at)?;
            }
        }
        directory.sync_all().map_err(at)?;
        let number = self.next_number();
        prepare(&self.path, MARKER, format!("{number}\n").as_bytes()).map_err(at)?;
        put_in_place(&self.path, MARKER).map_err(at)?;
        directory.sync_all().map_err(at)?;
        self.read().map(|snapshot| snapshot.revision)
    }

    /// The number in the marker plus one, or 1 if the marker holds no number.
    fn next_number(&self) -> u64 {
        let text = fs::read_to_string(self.path.join(MARKER)).unwrap_or_default();
        text.trim().parse().unwrap_or(0u64).saturating_add(1)
    }

    /// Writes the report of a gateway, if there is a directory for reports.
    pub(super) fn write_report(&self, report: &NodeReport) -> Result<(), Fault> {
        let reports = self.path.join(REPORTS);
        if !reports.is_dir() {
            return Ok(());
        }
        if !is_usable_name(&report.node) || report.node.starts_with('.') {
            let message = format!("`{}` cannot name a report", report.node.escape_debug());
            return Err(Fault::new(FaultKind::Unusable, message));
        }
        let name = format!("{}.json", report.node);
        let text = serde_json::to_vec_pretty(report).map_err(io::Error::from);
        let written = text.and_then(|text| {
            prepare(&reports, &name, &text)?;
            put_in_place(&reports, &name)
        });
        written.map_err(|error| unusable(&reports.join(&name), &error))
    }
}

/// The file name for each item.
fn names(items: &[Item]) -> Result<Vec<(String, &Item)>, Fault> {
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for item in items {
        if !is_usable_name(&item.name) {
            let message = format!("`{}` cannot name a {}", item.name.escape_debug(), item.kind);
            return Err(Fault::new(FaultKind::Malformed, message));
        }
        let name = format!("{}-{}.toml", item.kind, item.name);
        if !seen.insert(name.clone()) {
            let message = format!("the set has {} `{}` twice", item.kind, item.name);
            return Err(Fault::new(FaultKind::Malformed, message));
        }
        names.push((name, item));
    }
    Ok(names)
}

/// The hidden name under which a file is first written.
fn temporary(name: &str) -> String {
    format!(".{name}.new")
}

/// Writes a file under its hidden name, and flushes it to the disk.
fn prepare(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(directory.join(temporary(name)))?;
    file.write_all(content)?;
    file.sync_all()
}

/// Renames a prepared file to its final name. Replaces any file of that name.
fn put_in_place(directory: &Path, name: &str) -> io::Result<()> {
    fs::rename(directory.join(temporary(name)), directory.join(name))
}
