//! Locks a port against other gateways. Each lock covers one byte of a file that all gateways
//! share. The kernel releases it when the process ends, so no stale lock remains.
//!
//! Source: Linux `fcntl(2)`, "Open file description locks".

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::interface::{Interface, check};

/// An exclusive lock on an interface. It is released when this value is dropped.
#[derive(Debug)]
pub struct PortLock(#[expect(dead_code, reason = "held, and not used")] OwnedFd);

impl PortLock {
    /// Locks `interface` in `file`, which is created if necessary. Returns `None` if another
    /// gateway has locked the interface.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn take(file: &Path, interface: &Interface) -> io::Result<Option<Self>> {
        let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = OwnedFd::from(options.open(file)?);
        match check(lock_byte(&file, place(namespace, interface.index()))) {
            Ok(_) => Ok(Some(Self(file))),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// The file offset of an interface's byte. It consists of the 32-bit inode number of the network
/// namespace and the 31-bit index of the interface; file offsets have 63 bits.
fn place(namespace: u64, index: u32) -> i64 {
    let place = (namespace & u64::from(u32::MAX)) << 31 | u64::from(index & (u32::MAX >> 1));
    // The last offset cannot be locked with a length of one byte. No namespace has the inode number
    // that would give this offset.
    place.cast_signed().min(i64::MAX - 1)
}

fn lock_byte(file: &OwnedFd, at: i64) -> i32 {
    let short = |value: i32| libc::c_short::try_from(value).unwrap_or(0);
    let lock = libc::flock {
        l_type: short(libc::F_WRLCK),
        l_whence: short(libc::SEEK_SET),
        l_start: at,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the kernel reads one whole flock, which outlives the call.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: interfaces of different namespaces with the same offset, because the offset ignores
    /// the inode number or loses its upper bits.
    #[test]
    fn every_interface_of_every_namespace_has_its_own_offset() {
        let all = [(0xf000_0000, 1), (0xf000_0000, 2), (0xf000_0001, 1), (1, 1), (0, i32::MAX)];
        let mut places: Vec<_> =
            all.into_iter().map(|(space, index)| place(space, index.cast_unsigned())).collect();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() == all.len() && places[0] >= 0, "{places:?}");
        assert!(place(u64::MAX, u32::MAX) < i64::MAX);
    }

    #[test]
    fn a_port_is_locked_once_until_its_lock_is_dropped() {
        let file = std::env::temp_dir().join(format!("tidegate-ports-{}", std::process::id()));
        let lo = Interface::find("lo").unwrap();
        let held = PortLock::take(&file, &lo).unwrap();
        assert!(held.is_some());
        assert!(PortLock::take(&file, &lo).unwrap().is_none());
        drop(held);
        assert!(PortLock::take(&file, &lo).unwrap().is_some());
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        fs::remove_file(&file).unwrap();
    }
}
