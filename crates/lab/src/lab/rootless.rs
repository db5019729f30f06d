//! The records of labs, and labs without root.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process;
use crate::code::Code;
use crate::output::Failure;

/// The folder with the records of labs.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

/// Environment variable of processes in a user namespace of this program. Its value is the folder
/// of the records.
const INSIDE: &str = "TIDEGATE_LABS";

const PREFIX: &str = "lab-";

impl Place {
    /// The place of this user's labs.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made, or belongs to another user.
    pub fn open() -> anyhow::Result<Self> {
        let user = user()?;
        let path = match std::env::var_os(INSIDE) {
            Some(path) => PathBuf::from(path),
            None if user == 0 => PathBuf::from("/run/tidegate"),
            // `lab down` finds this folder in any environment.
            None => PathBuf::from(format!("/tmp/tidegate-{user}")),
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        let about = || fs::symlink_metadata(&path);
        let is_mine = made.is_ok() && about().is_ok_and(|it| it.is_dir() && it.uid() == user);
        if !is_mine {
            let message = format!("cannot keep labs in {}", path.display());
            return Err(Failure::new(Code::LabFailed, message).into());
        }
        Ok(Self(path))
    }

    /// Prevents others from taking labs down until the returned file is dropped.
    pub(super) fn lock(&self) -> io::Result<File> {
        let file = File::create(self.0.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// Makes the folder of the lab called `name`, with the files that `fill` writes. Readers find
    /// all of them, or no folder.
    pub(super) fn folder(
        &self,
        name: &str,
        fill: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<PathBuf> {
        let new = self.0.join(format!("new-{}-{name}", std::process::id()));
        let folder = self.0.join(format!("{PREFIX}{name}"));
        DirBuilder::new().mode(0o700).create(&new)?;
        let filled = fill(&new).and_then(|()| {
            fs::rename(&new, &folder).map_err(|error| match error.kind() {
                ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => {
                    Failure::new(Code::LabIsUp, format!("a lab called `{name}` is up")).into()
                }
                _ => error.into(),
            })
        });
        if filled.is_err() {
            fs::remove_dir_all(&new)?;
        }
        filled.map(|()| folder)
    }

    /// The folders of all labs.
    pub(super) fn folders(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PREFIX) && entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
        folders.sort();
        Ok(folders)
    }
}

/// Returns `true` if this process runs in a user namespace of this program.
pub(super) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// The user of this process.
fn user() -> anyhow::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

/// This program with its arguments, run in a user namespace where it may build networks. `None` if
/// this process may build networks itself.
///
/// # Errors
///
/// If this process is in such a namespace, but cannot mount a `/run` of its own.
pub fn inside() -> anyhow::Result<Option<Command>> {
    if is_inside() {
        settle()?;
        return Ok(None);
    }
    if user()? == 0 {
        return Ok(None);
    }
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut command = Command::new("unshare");
    command.args(["-U", "-r", "-n", "-m", "--"]).arg(process::this_program()?).args(args);
    command.env(INSIDE, Place::open()?.0);
    Ok(Some(command))
}

/// Mounts a `/run` of its own in this mount namespace: `ip netns` keeps its names there.
fn settle() -> anyhow::Result<()> {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "tidegate", "/run"]);
    let status = mount.status().map_err(|error| process::missing(&mount, &error))?;
    if !status.success() {
        let message = "cannot make a /run of its own in a user namespace";
        return Err(Failure::new(Code::LabFailed, message).into());
    }
    Ok(())
}
