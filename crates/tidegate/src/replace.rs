//! Replaces a file with another text at one moment: readers see the old text or the new one.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// A text on the disk beside the file whose text it is to become. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Staged {
    new: PathBuf,
    file: PathBuf,
}

impl Staged {
    /// Writes `text` beside the file at `path`, with its mode and owner. A symbolic link to the file stays.
    ///
    /// At most one text per process may be staged for a file.
    ///
    /// # Errors
    ///
    /// If the file does not exist or is not a regular file, or if its directory cannot be written.
    pub(crate) fn beside(path: &Path, text: &str) -> io::Result<Self> {
        let file = fs::canonicalize(path)?;
        let old = fs::metadata(&file)?;
        if !old.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut name = OsString::from(".");
        name.push(file.file_name().unwrap_or_default());
        name.push(format!(".new-{}", std::process::id()));
        let new = file.with_file_name(name);
        // A process with the same number was killed and left it.
        let _ = fs::remove_file(&new);
        let staged = Self { new, file };
        write(&staged.new, text, &old)?;
        Ok(staged)
    }

    /// Replaces the text of the file. Readers see the old text or the new one.
    ///
    /// # Errors
    ///
    /// If the file cannot be replaced. Its old text then stays.
    pub(crate) fn put(self) -> io::Result<()> {
        fs::rename(&self.new, &self.file)?;
        let synced = self.file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all());
        if let Err(error) = synced {
            let file = self.file.display();
            tracing::warn!("the new text of {file} may not outlast a power failure: {error}");
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After `put` there is none.
        let _ = fs::remove_file(&self.new);
    }
}

/// Writes `text` to a new file with the mode and owner of `old`.
fn write(path: &Path, text: &str, old: &fs::Metadata) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        fchown(&file, Some(old.uid()), Some(old.gid()))?;
    }
    file.set_permissions(Permissions::clone(&old.permissions()))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn replace(path: &Path, text: &str) -> io::Result<()> {
        Staged::beside(path, text)?.put()
    }

    /// Kills: replacing a link in place of its file; a changed mode; a file left by a text that is
    /// only staged; a refusal because of the file of a killed process.
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
        std::mem::forget(Staged::beside(&link, "newer").unwrap());
        replace(&link, "newest").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "newest");
        assert_eq!(fs::read_dir(folder.join("real")).unwrap().count(), 1);
        for wrong in [folder.join("none"), folder.join("real")] {
            assert!(replace(&wrong, "new").is_err());
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
