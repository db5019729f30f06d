//! Ensures that only one gateway uses a port. The lock is a file in a directory to which no other
//! user can write.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use nix::unistd::geteuid;
use tidegate_dataplane::{Interface, PortLock as FileLock};

use crate::code::Code;
use crate::output::Failure;

/// The run directory. Only root can create it, or systemd for the service's user.
const DIRECTORY: &str = "/run/tidegate";

/// The lock file in the run directory.
const FILE: &str = "ports";

/// An exclusive lock on a port. It does not depend on the control socket.
#[derive(Debug)]
pub(crate) struct PortLock(#[expect(dead_code, reason = "held, and not used")] Held);

#[derive(Debug)]
#[expect(dead_code, reason = "held, and not used")]
enum Held {
    File(FileLock),
    /// The name of an abstract Unix socket. It is local to a network namespace that no other user
    /// can enter.
    Name(UnixDatagram),
}

impl PortLock {
    /// Locks `interface`; fails if another gateway holds the lock.
    ///
    /// In a user namespace without write access to `/run`, the lock is an abstract socket name.
    /// There, no other user can enter the network namespace and take the name.
    pub(crate) fn take(interface: &Interface) -> Result<Self, Failure> {
        let held = match in_directory(Path::new(DIRECTORY), interface) {
            Err(error) if in_user_namespace() && is_denied(&error) => by_name(interface),
            held => held,
        };
        match held {
            Ok(Some(held)) => Ok(Self(held)),
            Ok(None) => {
                let message = format!("a gateway runs on `{}` already", interface.name());
                let help = "change it with `tidegate apply FILE`, or stop it first".to_owned();
                Err(Failure { help, ..Failure::new(Code::AlreadyRuns, message) })
            }
            Err(error) => {
                let message = format!("cannot lock `{}`: {error}", interface.name());
                let help = format!(
                    "run as root, or let systemd make {DIRECTORY} for its user (RuntimeDirectory=)"
                );
                Err(Failure { help, ..Failure::new(Code::NoBackend, message) })
            }
        }
    }
}

/// Locks `interface` in `directory`, which is created if necessary. Returns `None` if the interface
/// is already locked.
fn in_directory(directory: &Path, interface: &Interface) -> io::Result<Option<Held>> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let about = fs::symlink_metadata(directory)?;
    let mine = geteuid().as_raw();
    // Users who can write to the directory could replace our file.
    if !about.is_dir() || about.uid() != mine || about.mode() & 0o022 != 0 {
        let why = format!("{} is not a directory that only we write to", directory.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(FileLock::take(&directory.join(FILE), interface)?.map(Held::File))
}

fn by_name(interface: &Interface) -> io::Result<Option<Held>> {
    let address = SocketAddr::from_abstract_name(format!("tidegate/port/{}", interface.index()))?;
    match UnixDatagram::bind_addr(&address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        bound => bound.map(|socket| Some(Held::Name(socket))),
    }
}

fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Returns `true` unless this process is in the initial user namespace, whose map of user ids is
/// the identity.
///
/// Source: Linux `user_namespaces(7)`.
fn in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/thread-self/uid_map").unwrap_or_default();
    !map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("tidegate-lock-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_locked_port_is_refused_to_a_second_gateway() {
        let (folder, lo) = (folder("twice"), Interface::find("lo").unwrap());
        let held = in_directory(&folder, &lo).unwrap();
        assert!(held.is_some());
        assert!(in_directory(&folder, &lo).unwrap().is_none());
        drop(held);
        assert!(in_directory(&folder, &lo).unwrap().is_some());
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Outside of user namespaces, any local user could bind an abstract name first.
    ///
    /// Catches: a lock that an abstract socket name of another user prevents.
    #[test]
    fn a_bound_abstract_name_does_not_prevent_the_lock() {
        let lo = Interface::find("lo").unwrap();
        let name = SocketAddr::from_abstract_name(format!("tidegate/port/{}", lo.index())).unwrap();
        let _squatter = UnixDatagram::bind_addr(&name);
        if in_user_namespace() || fs::metadata("/proc/self").unwrap().uid() != 0 {
            return eprintln!("skipped: without root there is no run directory");
        }
        let held = PortLock::take(&lo);
        assert!(held.is_ok(), "{}", held.unwrap_err().message);
    }

    /// Catches: a lock taken in a directory to which other users can write.
    #[test]
    fn a_directory_writable_by_other_users_is_refused() {
        let (folder, lo) = (folder("open"), Interface::find("lo").unwrap());
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let error = in_directory(&folder, &lo).unwrap_err();
        assert!(error.to_string().contains("only we write to"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
