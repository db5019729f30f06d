//! Reads a directory of policies: the files of one commit, within limits of size and number. A
//! commit is made by writing the *marker*, the file `COMMIT`.
//!
//! Methods of `Directory`, whose fields are in `directory.rs`.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::fcntl::OFlag;
use tidegate_config::source::Commit;
use tidegate_config::{Part, items};

use super::Directory;
use super::committed::{Committed, Found};
use crate::{Fault, FaultKind, Snapshot};

/// File name of the marker, which commits the set.
pub(super) const MARKER: &str = "COMMIT";

/// Maximum size of the marker, in bytes. The marker holds one line of text: the revision.
const LONGEST_MARKER: u64 = 4 << 10;

/// Number of characters of the marker's first line that name the revision.
const LONGEST_REVISION: usize = 64;

/// Number of attempts to read a set that other programs change meanwhile.
const ATTEMPTS: u32 = 5;

/// Returns `true` if a file of this name belongs to the set. Hidden files and backup files of
/// editors do not belong to it.
pub(super) fn is_of_set(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.ends_with(b".toml") && !name.starts_with(b".") && !name.starts_with(b"#")
}

/// Identifies the version of a file. After any change of the file, the value differs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Version {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Time since 1970 of the last change of content, name or permissions.
    pub changed: Duration,
    pub modified: Duration,
}

impl Version {
    fn of(data: &Metadata) -> Self {
        Self {
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            changed: time(data.ctime(), data.ctime_nsec()),
            modified: time(data.mtime(), data.mtime_nsec()),
        }
    }
}

fn time(seconds: i64, nanos: i64) -> Duration {
    let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    seconds + Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

/// The state of a directory without the contents of its files. Between two equal states, no commit
/// was made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Look {
    directory: PathBuf,
    itself: Version,
    /// Path, version and content of the marker; `None` if markers are not used.
    marker: Option<(PathBuf, Version, Vec<u8>)>,
    commit: Commit,
}

impl Look {
    /// The directory, without symbolic links.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Device and inode of the directory.
    pub(super) const fn identity(&self) -> (u64, u64) {
        (self.itself.device, self.itself.inode)
    }

    pub(super) const fn has_marker(&self) -> bool {
        self.marker.is_some()
    }

    /// The directory that holds the files. If the marker is a symbolic link, this is the directory
    /// of the link's target.
    fn holder(&self) -> &Path {
        let marker = self.marker.as_ref().and_then(|(path, ..)| path.parent());
        marker.unwrap_or(&self.directory)
    }

    /// The state without the parts that change when temporary files are written. With markers, the
    /// size and the times of the directory itself are left out.
    fn comparable(mut self) -> Self {
        if self.commit == Commit::Marker {
            self.itself = Version {
                size: 0,
                changed: Duration::ZERO,
                modified: Duration::ZERO,
                ..self.itself
            };
        }
        self
    }
}

impl Directory {
    /// Inspects the directory; `None` if this fails.
    pub(super) fn look(&self) -> Option<Look> {
        self.try_look().ok()
    }

    fn try_look(&self) -> Result<Look, Fault> {
        let directory = fs::canonicalize(&self.path).map_err(|error| self.missing(&error))?;
        let itself = fs::metadata(&directory).map_err(|error| self.missing(&error))?;
        if !itself.is_dir() {
            let message = format!("{} is not a directory", self.path.display());
            return Err(Fault::new(FaultKind::Unusable, message));
        }
        let marker = match self.commit {
            Commit::EachChange => None,
            Commit::Marker => marker(&directory)?,
        };
        Ok(Look { directory, itself: Version::of(&itself), marker, commit: self.commit }
            .comparable())
    }

    fn missing(&self, error: &io::Error) -> Fault {
        let fault = unusable(&self.path, error);
        match error.kind() {
            io::ErrorKind::NotFound => fault.help("make this directory, or mend `path`"),
            _ => fault,
        }
    }

    /// Reads the committed set.
    pub(super) fn read(&self) -> Result<Snapshot, Fault> {
        for attempt in 1..=ATTEMPTS {
            let before = self.try_look()?;
            let revision = revision(&before, self.commit)?;
            let listed = self.list(&before)?;
            let found = self.found(&before, &listed)?;
            let parts = self.files(&listed)?;
            let after = self.try_look()?;
            // If only the marker changed during the read, the files are still the files that the
            // first marker commits.
            let steady = after == before
                || attempt == ATTEMPTS
                    && before.marker.is_some()
                    && after.holder() == before.holder();
            if let Some(parts) = parts.filter(|_| steady)
                && self.list(&before)? == listed
            {
                found.iter().for_each(|found| self.committed().keep(found));
                return self.snapshot(&revision, parts);
            }
        }
        let message = format!("{} kept changing while it was read", self.path.display());
        Err(Fault::new(FaultKind::Unsteady, message))
    }

    /// The files of the set with their versions, in the order of their names.
    ///
    /// # Errors
    ///
    /// If a file is newer than the marker, or is not a regular file.
    fn list(&self, look: &Look) -> Result<Vec<(PathBuf, Version)>, Fault> {
        let holder = look.holder();
        let mut files = Vec::new();
        for entry in fs::read_dir(holder).map_err(|error| unusable(holder, &error))? {
            let entry = entry.map_err(|error| unusable(holder, &error))?;
            if !is_of_set(&entry.file_name()) {
                continue;
            }
            let path = entry.path();
            let data = match fs::metadata(&path) {
                Ok(data) => data,
                Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
                    continue;
                }
                Err(error) => return Err(unusable(&path, &error)),
            };
            if !data.is_file() {
                return Err(not_a_file(&path));
            }
            files.push((path, Version::of(&data)));
            if files.len() > self.max_policies {
                return Err(self.too_many());
            }
        }
        files.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        self.is_committed(look, &files)?;
        Ok(files)
    }

    /// Refuses files that were changed, added or removed after the marker was written.
    fn is_committed(&self, look: &Look, files: &[(PathBuf, Version)]) -> Result<(), Fault> {
        let newer = |found: &Found<'_>| {
            let newer = self.committed().newer(found, now()).map(Path::to_owned);
            let (marker, ..) = look.marker.as_ref()?;
            Some(uncommitted(&newer?, marker))
        };
        let found = self.found(look, files)?;
        found.and_then(|found| newer(&found)).map_or(Ok(()), Err)
    }

    /// The state to compare with the marker. `None` if no comparison is needed: there is no marker,
    /// or the marker is a symbolic link to a directory that is replaced as a whole.
    fn found<'a>(
        &self,
        look: &'a Look,
        files: &'a [(PathBuf, Version)],
    ) -> Result<Option<Found<'a>>, Fault> {
        let Some((_, marker, content)) = &look.marker else { return Ok(None) };
        if look.holder() != look.directory() {
            return Ok(None);
        }
        let itself = fs::metadata(look.holder()).map_err(|error| self.missing(&error))?;
        let listed = Version::of(&itself).modified;
        Ok(Some(Found { marker: *marker, content, directory: look.holder(), listed, files }))
    }

    fn committed(&self) -> MutexGuard<'_, Committed> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The contents of the files; `None` if a file changed since it was listed.
    fn files(&self, listed: &[(PathBuf, Version)]) -> Result<Option<Vec<Part>>, Fault> {
        let mut parts = Vec::new();
        let mut left = self.max_size;
        for (path, version) in listed {
            let (file, data) = match open(path) {
                Ok(opened) => opened,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(unusable(path, &error)),
            };
            if !data.is_file() {
                return Err(not_a_file(path));
            }
            if Version::of(&data) != *version {
                return Ok(None);
            }
            let mut text = Vec::new();
            let read = file.take(left.saturating_add(1)).read_to_end(&mut text);
            read.map_err(|error| unusable(path, &error))?;
            let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
            left = left.checked_sub(size).ok_or_else(|| {
                let message =
                    format!("{} holds more than {} B", self.path.display(), self.max_size);
                Fault::new(FaultKind::TooLarge, message)
            })?;
            let name = path.file_name().unwrap_or_default();
            let origin = self.path.join(name).display().to_string();
            let text = tidegate_config::text(text)
                .map_err(|error| Fault::new(FaultKind::Malformed, format!("{origin}, {error}")))?;
            parts.push(Part { origin, text });
        }
        Ok(Some(parts))
    }

    /// Makes a snapshot of `parts`. Fails if `parts` contains too many items, or items other than
    /// policies, classes and trunks.
    fn snapshot(&self, revision: &str, parts: Vec<Part>) -> Result<Snapshot, Fault> {
        let mut number = 0;
        let mut digest = blake3::Hasher::new();
        for part in &parts {
            let items = items(part).map_err(|found| {
                let what = found.summary().map(|(_, message, help)| (message, help));
                let (message, help) = what.unwrap_or_default();
                Fault::new(FaultKind::Malformed, message).help(help)
            })?;
            number += items.len();
            for text in [&part.origin, &part.text] {
                digest.update(&text.len().to_le_bytes()).update(text.as_bytes());
            }
        }
        if number > self.max_policies {
            return Err(self.too_many());
        }
        let digest: String = digest.finalize().to_hex().chars().take(DIGEST).collect();
        let revision = if revision.is_empty() { digest } else { format!("{revision}@{digest}") };
        Ok(Snapshot { revision, parts })
    }

    fn too_many(&self) -> Fault {
        let message = format!(
            "{} holds more than {} policies, classes and trunks",
            self.path.display(),
            self.max_policies
        );
        Fault::new(FaultKind::TooLarge, message)
    }
}

/// Length of the digest in a revision, in hexadecimal digits. 64 bits are enough to distinguish two
/// commits.
const DIGEST: usize = 16;

/// The time since 1970.
#[expect(clippy::disallowed_methods, reason = "file systems stamp files with this clock")]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Path, version and content of the marker in `directory`, if there is one.
fn marker(directory: &Path) -> Result<Option<(PathBuf, Version, Vec<u8>)>, Fault> {
    let path = directory.join(MARKER);
    let path = match fs::canonicalize(&path) {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(&path, &error)),
    };
    let (file, data) = match open(&path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(&path, &error)),
    };
    if !data.is_file() {
        return Err(not_a_file(&path));
    }
    let mut content = Vec::new();
    file.take(LONGEST_MARKER).read_to_end(&mut content).map_err(|error| unusable(&path, &error))?;
    Ok(Some((path, Version::of(&data), content)))
}

/// The revision that the marker names in its first line.
fn revision(look: &Look, commit: Commit) -> Result<String, Fault> {
    let Some((_, _, content)) = &look.marker else {
        if commit == Commit::EachChange {
            return Ok(String::new());
        }
        let message = format!("{} does not exist", look.directory.join(MARKER).display());
        return Err(Fault::new(FaultKind::Uncommitted, message));
    };
    let text = String::from_utf8_lossy(content);
    let line = text.lines().next().unwrap_or_default().trim();
    Ok(line.chars().filter(|it| !it.is_control()).take(LONGEST_REVISION).collect())
}

/// Opens a file. Does not block on a pipe without a writer.
fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let data = file.metadata()?;
    Ok((file, data))
}

pub(super) fn unusable(path: &Path, error: &io::Error) -> Fault {
    let fault = Fault::new(FaultKind::Unusable, format!("{}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::PermissionDenied => fault.help("give the user of Tidegate the right to it"),
        _ => fault,
    }
}

fn not_a_file(path: &Path) -> Fault {
    let message = format!("{} is not a regular file", path.display());
    Fault::new(FaultKind::Unusable, message).help("remove it, or give it another name")
}

fn uncommitted(path: &Path, marker: &Path) -> Fault {
    let message = format!("{} was changed after {} was written", path.display(), marker.display());
    Fault::new(FaultKind::Uncommitted, message)
}
