//! Where labs are written down, and how one is built without root.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process;
use crate::code::Code;
use crate::output::Failure;

/// Where labs are written down.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

/// Set for a process that runs in a user namespace of our making, to where labs are written down.
const INSIDE: &str = "TIDEGATE_LABS";

const PREFIX: &str = "lab-";

impl Place {
    /// The place of this user's labs.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made, or is somebody else's.
    pub fn open() -> anyhow::Result<Self> {
        let user = user()?;
        let path = match std::env::var_os(INSIDE) {
            Some(path) => PathBuf::from(path),
            None if user == 0 => PathBuf::from("/run/tidegate"),
            // Where `lab down` finds it, too, whatever its environment says.
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

    /// Keeps everybody else from taking labs down while what it gives is held.
    pub(super) fn lock(&self) -> io::Result<File> {
        let file = File::create(self.0.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// Makes the folder of the lab called `name`, with what `fill` writes there: whoever looks finds
    /// all of that, or no folder.
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

/// Returns `true` if this process runs in a user namespace of our making.
pub(super) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// The user this process acts for.
fn user() -> anyhow::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

/// The command that does what this process was told to in a user namespace where it may build
/// networks; `None` if it may do so here.
///
/// # Errors
///
/// If it is in such a namespace, but cannot make itself at home there.
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

/// Gives this mount namespace a `/run` of its own: `ip netns` keeps its names there.
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
