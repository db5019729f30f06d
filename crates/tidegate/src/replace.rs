//! Replaces a file with another text at one moment: readers see the old text or the new one.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

/// Replaces the text of the file at `path`. Its mode and owner stay, and so does a symbolic link to it.
///
/// # Errors
///
/// If the file does not exist or is not a regular file, or if its directory cannot be written. The old
/// text then stays.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let file = fs::canonicalize(path)?;
    let old = fs::metadata(&file)?;
    if !old.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut name = OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".new-{}", std::process::id()));
    let new = file.with_file_name(name);
    let written = write(&new, text, &old).and_then(|()| fs::rename(&new, &file));
    if written.is_err() {
        // The first error counts.
        let _ = fs::remove_file(&new);
    }
    written?;
    match file.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
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

    /// Kills: a link that is replaced in place of its file; a mode that changes; a file left behind.
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
        for wrong in [folder.join("none"), folder.join("real")] {
            assert!(replace(&wrong, "new").is_err());
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
