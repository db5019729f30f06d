//! What outlives the gateway: links and counters, pinned in a BPF file system.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aya::programs::links::PinnedLink;

use super::{WireError, filter};
use crate::interface::{Interface, check};

/// Kinds of what is pinned for an interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pin {
    /// The link of a native XDP program.
    Native,
    /// The link of a generic XDP program.
    Generic,
    /// The link of a tc program.
    Tc,
    /// The counts of frames that went straight across.
    Bypassed,
}

impl Pin {
    const ALL: [Self; 4] = [Self::Native, Self::Generic, Self::Tc, Self::Bypassed];

    const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Tc => "tc",
            Self::Bypassed => "bypassed",
        }
    }
}

/// A directory for pins, on a BPF file system.
///
/// File names begin with the network namespace and the number of the interface, which unlike its
/// name belong to nobody else while the interface exists.
#[derive(Clone, Debug)]
pub(super) struct Pins {
    directory: PathBuf,
    namespace: u64,
}

/// What `statfs` says of a BPF file system.
///
/// Source: Linux `include/uapi/linux/magic.h`, `BPF_FS_MAGIC`.
const BPF_FS_MAGIC: libc::c_long = 0xcafe_4a11;

impl Pins {
    /// The pins in `directory`, which is made, and gets a BPF file system, if need be.
    pub(super) fn open(directory: &Path) -> Result<Self, WireError> {
        let failed = |source| WireError::Directory { path: directory.to_path_buf(), source };
        fs::create_dir_all(directory).map_err(failed)?;
        if !is_bpf(directory).map_err(failed)? {
            mount_bpf(directory).map_err(failed)?;
        }
        Self::existing(directory).map_err(failed)
    }

    /// The pins in `directory`, as it is.
    pub(super) fn existing(directory: &Path) -> io::Result<Self> {
        let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
        Ok(Self { directory: directory.to_path_buf(), namespace })
    }

    /// Whether what is pinned stays when this process ends: the file system is also there for the
    /// first process of the machine, and not just mounted where only this one sees it.
    pub(super) fn stay(&self) -> bool {
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        let Ok(directory) = self.directory.canonicalize() else { return false };
        let Ok(below) = directory.strip_prefix("/") else { return false };
        device(&directory) == device(&Path::new("/proc/1/root").join(below))
    }

    pub(super) fn path(&self, interface: &Interface, pin: Pin) -> PathBuf {
        let name = format!("{:x}-{}-{}", self.namespace, interface.index(), pin.name());
        self.directory.join(name)
    }

    /// Removes `pin`, and with a link's pin the program from its interface, also where a filter
    /// stands for the link; says whether it was there.
    pub(super) fn remove(&self, interface: &Interface, pin: Pin) -> io::Result<bool> {
        let filtered = pin == Pin::Tc && filter::remove(interface)?;
        Ok(self.unpin(interface, pin)? || filtered)
    }

    /// Removes `pin`, and nothing that stands for it; says whether it was there.
    pub(super) fn unpin(&self, interface: &Interface, pin: Pin) -> io::Result<bool> {
        let path = self.path(interface, pin);
        // Held open, a link ends when it is closed here, and not some time after its file went.
        let link = PinnedLink::from_pin(&path);
        let removed = match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        };
        drop(link);
        removed
    }

    /// Removes `pins` of `interface` where they are there.
    pub(super) fn forget(&self, interface: &Interface, pins: &[Pin]) -> Result<(), WireError> {
        for pin in pins {
            self.remove(interface, *pin).map_err(|source| WireError::Directory {
                path: self.path(interface, *pin),
                source,
            })?;
        }
        Ok(())
    }

    /// Removes every pin of `interface`; says whether there were any.
    pub(super) fn remove_all(&self, interface: &Interface) -> io::Result<bool> {
        let mut any = false;
        for pin in Pin::ALL {
            any |= self.remove(interface, pin)?;
        }
        Ok(any)
    }
}

fn is_bpf(directory: &Path) -> io::Result<bool> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: a statfs is plain data, and all zeroes is one.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends in a zero, and `found` is a whole statfs.
    check(unsafe { libc::statfs(path.as_ptr(), &raw mut found) })?;
    Ok(found.f_type == BPF_FS_MAGIC)
}

fn mount_bpf(directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let (kind, options) = (c"bpf".as_ptr(), c"mode=0700".as_ptr());
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: every string ends in a zero and outlives the call.
    check(unsafe { libc::mount(kind, path.as_ptr(), kind, flags, options.cast()) }).map(drop)
}
