//! Removes the pins of earlier versions of Tidegate. Those versions pinned their BPF links and
//! counters as files in a BPF file system.
//!
//! A pin may be in another mount namespace, out of reach. The links themselves are therefore found
//! by their ids, in `survey.rs`.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::kernel::Loaded;
use crate::interface::Interface;

/// The directory of the pins, the mount point of a BPF file system.
const DIRECTORY: &str = "/run/tidegate/bpf";

/// Suffixes of the pins of an interface. A file name is `NAMESPACE-INDEX-SUFFIX`.
const PINS: [&str; 4] = ["native", "generic", "tc", "bypassed"];

/// Names of the programs and maps of earlier versions. A program counts as ours only if it has both
/// maps.
const PROGRAMS: [&str; 2] = ["wire", "swallow"];
const MAPS: [&str; 2] = ["life", "bypassed"];

/// True if `program` belongs to an earlier version.
pub(super) fn is_ours(program: &Loaded) -> bool {
    PROGRAMS.contains(&program.name.as_str()) && MAPS.iter().all(|map| program.map(map).is_some())
}

/// Removes the pins of `interface` in this mount namespace. Removes the directory together with its
/// last pin. Returns `true` if there were pins.
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
        // A directory that is still a mount point stays. It is harmless.
        let _ = fs::remove_dir(directory);
    }
    Ok(any)
}

/// True if `directory` holds only the `*.debug` files that the kernel puts into each BPF file
/// system.
fn is_unused(directory: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        if entry?.path().extension().is_none_or(|end| end != "debug") {
            return Ok(false);
        }
    }
    Ok(true)
}
