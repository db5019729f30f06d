//! Replaces the text of a file atomically: a reader sees either the old text or the new one.
//!
//! The new text is first written to another file in the same folder, `.NAME.new-PID-N`. `N` counts
//! the attempts of this process. If an attempt hangs and ends late, it thus never changes the text
//! of a later attempt.

mod rights;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;

/// Number of attempts of this process.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);

/// A new text, in a temporary file in the folder of the file that it will replace. Dropping the
/// value removes the temporary file.
#[derive(Debug)]
pub(crate) struct Staged {
    new: PathBuf,
    file: PathBuf,
    /// `put` has replaced the file.
    put: bool,
    /// For tests: `put` waits until the sender is dropped, like a file system that hangs.
    #[cfg(test)]
    pub(crate) hang: Option<std::sync::mpsc::Receiver<()>>,
}

impl Staged {
    /// Writes `text` to a temporary file in the folder of the file at `path`. The temporary file
    /// has the same owner, group, mode and access control list. A symbolic link at `path` is
    /// followed. Temporary files of dead processes are removed.
    ///
    /// # Errors
    ///
    /// If the file is missing or not regular, if the folder is not writable, or if the process may
    /// not give the new file the same owner and group.
    pub(crate) fn beside(path: &Path, text: &str) -> io::Result<Self> {
        let file = fs::canonicalize(path)?;
        let old = fs::metadata(&file)?;
        if !old.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let stem = stem(&file);
        sweep(&file, &stem);
        let number = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
        let mut name = stem;
        name.push(format!("{}-{number}", std::process::id()));
        let new = file.with_file_name(name);
        // A killed process with the same number may have left this file. The result is ignored,
        // because usually there is no such file.
        let _ = fs::remove_file(&new);
        let staged = Self {
            new,
            file,
            put: false,
            #[cfg(test)]
            hang: None,
        };
        write(&staged.new, text, &staged.file, &old)?;
        Ok(staged)
    }

    /// Replaces the file by the staged text.
    ///
    /// # Errors
    ///
    /// If the file cannot be replaced. It then keeps its old text.
    pub(crate) fn put(mut self) -> io::Result<()> {
        #[cfg(test)]
        if let Some(hang) = &self.hang {
            let _ = hang.recv();
        }
        fs::rename(&self.new, &self.file)?;
        self.put = true;
        let synced = self.file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all());
        if let Err(error) = synced {
            let file = self.file.display();
            tracing::warn!("the new text of {file} may not outlast a power failure: {error}");
        }
        Ok(())
    }
}

impl Drop for Staged {
    /// Removes the temporary file, unless it has replaced the target. In an async runtime, another
    /// thread removes it, so no task is delayed.
    fn drop(&mut self) {
        if self.put {
            return;
        }
        let new = std::mem::take(&mut self.new);
        let remove = move || drop(fs::remove_file(new));
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// The beginning of the names of all files staged for `file`.
fn stem(file: &Path) -> OsString {
    let mut stem = OsString::from(".");
    stem.push(file.file_name().unwrap_or_default());
    stem.push(".new-");
    stem
}

/// Removes files that dead processes staged for `file`. The names begin with `stem`.
fn sweep(file: &Path, stem: &OsStr) {
    let entries = file.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.as_encoded_bytes().strip_prefix(stem.as_encoded_bytes());
        let process = rest.and_then(|rest| process(std::str::from_utf8(rest).ok()?));
        if process.is_some_and(is_dead) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The process number in `rest`, the end of a staged file's name: `PID-N`, or `PID` in earlier
/// versions.
fn process(rest: &str) -> Option<u32> {
    let (process, number) = rest.split_once('-').unwrap_or((rest, "0"));
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

/// Returns `true` if no process has the number `process`. Returns `false` if there is no `/proc`.
fn is_dead(process: u32) -> bool {
    let proc = Path::new("/proc");
    proc.join("self").exists() && !proc.join(process.to_string()).exists()
}

/// Writes `text` to a new file at `path`. Copies the permissions of `file`, whose metadata is
/// `old`.
fn write(path: &Path, text: &str, file: &Path, old: &Metadata) -> io::Result<()> {
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    new.write_all(text.as_bytes())?;
    rights::copy(file, old, &new)?;
    new.sync_all()
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn replace(path: &Path, text: &str) -> io::Result<()> {
        Staged::beside(path, text)?.put()
    }

    /// Catches: a symbolic link replaced instead of its target; a changed mode; a staged file that
    /// stays although it was never put.
    #[test]
    fn a_file_keeps_its_links_and_its_mode() {
        let folder = env::temp_dir().join(format!("tidegate-replace-{}", std::process::id()));
        fs::create_dir_all(folder.join("real")).unwrap();
        let (file, link) = (folder.join("real/policies.toml"), folder.join("policies.toml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.join("real")).unwrap().count(), 1);
        drop(Staged::beside(&link, "newer").unwrap());
        assert_eq!(fs::read_dir(folder.join("real")).unwrap().count(), 1);
        for wrong in [folder.join("none"), folder.join("real")] {
            assert!(replace(&wrong, "new").is_err());
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Catches: two attempts that use the same file name. The first attempt, which ends late, would
    /// then remove the text of the second.
    #[test]
    fn a_late_attempt_does_not_change_the_text_of_the_next_attempt() {
        let folder = env::temp_dir().join(format!("tidegate-replace-late-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("policies.toml");
        fs::write(&file, "old").unwrap();
        let late = Staged::beside(&file, "late").unwrap();
        let next = Staged::beside(&file, "next").unwrap();
        drop(late);
        next.put().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "next");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Catches: a temporary file of a killed process that is never removed; a file of a running
    /// process or an operator that is removed.
    #[test]
    fn texts_of_dead_processes_are_removed() {
        let folder = env::temp_dir().join(format!("tidegate-replace-dead-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("policies.toml");
        fs::write(&file, "old").unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let (dead, lives) = (child.id(), std::process::id());
        let name = |rest: String| folder.join(format!(".policies.toml.new-{rest}"));
        let left = [name(format!("{dead}")), name(format!("{dead}-7"))];
        let stay = [name(format!("{lives}-{}", u64::MAX)), name(format!("{dead}-draft"))];
        for path in left.iter().chain(&stay) {
            fs::write(path, "other").unwrap();
        }
        replace(&file, "new").unwrap();
        assert!(left.iter().all(|path| !path.exists()) && stay.iter().all(|path| path.exists()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
