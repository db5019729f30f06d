//! The folder that holds the records of labs, and the user namespace in which labs run without
//! root.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process;
use crate::code::Code;
use crate::output::Failure;

/// The folder that holds a record of each lab.
#[derive(Clone, Debug)]
pub struct LabRecords(PathBuf);

/// Environment variable that this program sets for its processes in a user namespace that it has
/// created. Its value is the folder of lab records.
const INSIDE: &str = "TIDEGATE_LABS";

const PREFIX: &str = "lab-";

impl LabRecords {
    /// Opens the folder for the labs of this user. Creates it if necessary.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created, or belongs to another user.
    pub fn open() -> anyhow::Result<Self> {
        let user = user()?;
        let path = match std::env::var_os(INSIDE) {
            Some(path) => PathBuf::from(path),
            None if user == 0 => PathBuf::from("/run/tidegate"),
            // The path must not depend on the environment. Otherwise `lab down` might not find the
            // folder.
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

    /// Locks the folder until the returned file is dropped. Meanwhile no other process can take a
    /// lab down.
    pub(super) fn lock(&self) -> io::Result<File> {
        let file = File::create(self.0.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// Creates the folder of the lab called `name`, with the files that `fill` writes. Other
    /// processes see either the folder with all its files, or no folder.
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

/// Returns `true` if this process runs in a user namespace that this program has created.
pub(super) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// The user of this process.
fn user() -> anyhow::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

/// Returns a command that runs this program again with its arguments, in a user namespace where it
/// may build networks. Returns `None` if this process may already build networks.
///
/// # Errors
///
/// If this process is in such a namespace, but cannot mount its own `/run` there.
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
    command.env(INSIDE, LabRecords::open()?.0);
    Ok(Some(command))
}

/// Mounts a private `/run` in this mount namespace, because `ip netns` keeps its names there.
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
