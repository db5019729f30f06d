//! Copies the permissions of a file: owner, group, mode and access control list (ACL).
//!
//! In a file with an ACL, the group bits of the mode are the ACL's mask: the maximum rights of any
//! named user or group. Copying the mode without the ACL would grant these rights to the file's
//! group.
//!
//! Source: Linux, acl(5), "Correspondence between ACL entries and file permission bits".

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use rustix::fs::{XattrFlags, fremovexattr, fsetxattr, getxattr};
use rustix::io::Errno;

/// The extended attribute that holds a file's ACL. Source: Linux, `XATTR_NAME_POSIX_ACL_ACCESS`.
const ACL: &str = "system.posix_acl_access";

/// Maximum size of an extended attribute in bytes. Source: Linux, `XATTR_SIZE_MAX`.
const MOST: usize = 64 << 10;

/// Gives `new` the permissions of the file at `path`, whose metadata is `old`. Before that, the
/// mode of `new` is 0600.
pub(super) fn copy(path: &Path, old: &Metadata, new: &File) -> io::Result<()> {
    give(new, old)?;
    // The ACL is set before the mode. The group bits of the mode then set the ACL's mask.
    copy_acl(path, new)?;
    new.set_permissions(Permissions::clone(&old.permissions()))
}

/// Gives `file` the owner and group of `old`.
fn give(file: &File, old: &Metadata) -> io::Result<()> {
    let (new, owner, group) = (file.metadata()?, old.uid(), old.gid());
    if (new.uid(), new.gid()) == (owner, group) {
        return Ok(());
    }
    fchown(file, Some(owner), Some(group)).map_err(|error| {
        let (user, own) = (new.uid(), new.gid());
        let message = format!(
            "it belongs to user {owner} and group {group}, and the gateway, of user {user} and group {own}, may not \
             give files to them: {error}"
        );
        io::Error::new(error.kind(), message)
    })
}

/// Gives `new` the ACL of the file at `path`. If that file has no ACL, removes the ACL that `new`
/// may have inherited from its folder.
fn copy_acl(path: &Path, new: &File) -> io::Result<()> {
    let mut acl = vec![0_u8; MOST];
    let copied = match getxattr(path, ACL, acl.as_mut_slice()) {
        Ok(length) => {
            fsetxattr(new, ACL, acl.get(..length).unwrap_or_default(), XattrFlags::empty())
        }
        Err(Errno::NODATA) => fremovexattr(new, ACL),
        Err(error) => Err(error),
    };
    match copied {
        // The file system has no ACLs, or the new file inherited none.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NODATA) => Ok(()),
        Err(error) => Err(io::Error::new(
            io::Error::from(error).kind(),
            format!("its access control list: {error}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use rustix::fs::setxattr;

    use super::*;
    use crate::replace::Staged;

    /// An ACL in which user 12345 may read and write, and the group has no rights. Source: Linux,
    /// `include/uapi/linux/posix_acl_xattr.h`: version 2, then tag, rights and user in each entry.
    fn of_one_user() -> Vec<u8> {
        const NOBODY: u32 = u32::MAX;
        let entries =
            [(1, 6, NOBODY), (2, 6, 12_345), (4, 0, NOBODY), (16, 6, NOBODY), (32, 0, NOBODY)];
        let entry = |(tag, rights, user): (u16, u16, u32)| {
            [tag.to_le_bytes(), rights.to_le_bytes()].concat().into_iter().chain(user.to_le_bytes())
        };
        2_u32.to_le_bytes().into_iter().chain(entries.into_iter().flat_map(entry)).collect()
    }

    fn acl(path: &Path) -> Option<Vec<u8>> {
        let mut acl = vec![0_u8; MOST];
        let length = getxattr(path, ACL, acl.as_mut_slice()).ok()?;
        Some(acl[..length].to_vec())
    }

    /// Catches: the ACL's mask granted to the group; a file without an ACL that gets one from its
    /// folder.
    #[test]
    fn a_file_keeps_its_access_control_list() {
        let folder = env::temp_dir().join(format!("tidegate-rights-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("policies.toml");
        fs::write(&file, "old").unwrap();
        let replace = || Staged::beside(&file, "new").unwrap().put().unwrap();
        match setxattr(&file, ACL, &of_one_user(), XattrFlags::empty()) {
            // This file system has no ACLs, so the test ends.
            Err(Errno::OPNOTSUPP) => return fs::remove_dir_all(&folder).unwrap(),
            set => set.unwrap(),
        }
        replace();
        assert_eq!(acl(&file), Some(of_one_user()));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o660);

        fs::remove_file(&file).unwrap();
        fs::write(&file, "old").unwrap();
        let of_folder = "system.posix_acl_default";
        setxattr(&folder, of_folder, &of_one_user(), XattrFlags::empty()).unwrap();
        replace();
        assert_eq!(acl(&file), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
