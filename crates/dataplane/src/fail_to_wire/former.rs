//! Traces of earlier versions, which pinned their links and counters: the files are removed.
//!
//! The links themselves are found by their number, since their pins may be in another mount namespace.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::kernel::Loaded;
use crate::interface::Interface;

/// The directory of the pins, a BPF file system of its own.
const DIRECTORY: &str = "/run/tidegate/bpf";

/// The pins of an interface, in file names after its network namespace and index.
const PINS: [&str; 4] = ["native", "generic", "tc", "bypassed"];

/// Names of the programs, which together with the names of their maps make them ours.
const PROGRAMS: [&str; 2] = ["wire", "swallow"];
const MAPS: [&str; 2] = ["life", "bypassed"];

/// Whether `program` is one of an earlier version.
pub(super) fn is_ours(program: &Loaded) -> bool {
    PROGRAMS.contains(&program.name.as_str()) && MAPS.iter().all(|map| program.map(map).is_some())
}

/// Removes the pins of `interface` that can be seen from here; with the last of all, their directory.
/// Says whether there were any.
pub(super) fn unpin(interface: &Interface) -> io::Result<bool> {
    let directory = Path::new(DIRECTORY);
    let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
    let mut any = false;
    for pin in PINS {
        let name = format!("{namespace:x}-{}-{pin}", interface.index());
        match fs::remove_file(directory.join(name)) {
            Ok(()) => any = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    if any && is_unused(directory)? {
        let path = CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: the path ends in a zero and outlives the call.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        // A directory that is still a mount point stays, and harms nobody.
        let _ = fs::remove_dir(directory);
    }
    Ok(any)
}

/// Whether nothing is in `directory` but what the kernel puts into each BPF file system.
fn is_unused(directory: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        if entry?.path().extension().is_none_or(|end| end != "debug") {
            return Ok(false);
        }
    }
    Ok(true)
}
