//! A network interface of this host, with its properties and its state.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A network interface in the network namespace of the thread that looked it up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    name: String,
    index: u32,
}

/// The reason why a request to an interface failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// No interface has this name.
    #[error("there is no interface `{name}` here; `ip link` lists the interfaces")]
    NotFound {
        /// The unknown name.
        name: String,
    },
    /// The process lacks the privilege.
    #[error(
        "no privilege to {doing} `{name}`; run as root, grant CAP_NET_ADMIN and CAP_NET_RAW, or try \
         it without root under `unshare -Urn`"
    )]
    NoPrivilege {
        /// The interface.
        name: String,
        /// The attempted request.
        doing: &'static str,
    },
    /// The interface does not support the request.
    #[error("`{name}` cannot {doing}: its driver has no such function")]
    Unsupported {
        /// The interface.
        name: String,
        /// The attempted request.
        doing: &'static str,
    },
    /// The kernel returned another error.
    #[error("could not {doing} `{name}`: {source}")]
    System {
        /// The interface.
        name: String,
        /// The attempted request.
        doing: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl Interface {
    /// The interface called `name`.
    ///
    /// # Errors
    ///
    /// [`InterfaceError::NotFound`] if there is no such interface.
    pub fn find(name: &str) -> Result<Self, InterfaceError> {
        let found = Self { name: name.to_owned(), index: 0 };
        let request = found.ioctl("look up", libc::SIOCGIFINDEX, |_| {})?;
        // SAFETY: SIOCGIFINDEX fills in the index; every bit pattern of it is a valid integer.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        let missing = || InterfaceError::NotFound { name: name.to_owned() };
        Ok(Self { index: u32::try_from(index).map_err(|_| missing())?, ..found })
    }

    /// The interface with the number `index` in this network namespace, under its current name.
    ///
    /// # Errors
    ///
    /// If it no longer exists.
    pub fn numbered(index: u32) -> io::Result<Self> {
        let mut name = [0_u8; libc::IF_NAMESIZE];
        // SAFETY: the kernel writes a zero-terminated name into the field, which is long enough for
        // any name.
        let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
        if found.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { name: text(&name), index })
    }

    /// Creates the interface `name` by the request `code` on the descriptor `of`.
    pub(crate) fn make(
        name: &str,
        of: BorrowedFd<'_>,
        code: libc::c_ulong,
        fill: impl FnOnce(&mut libc::ifreq),
    ) -> Result<Self, InterfaceError> {
        Self { name: name.to_owned(), index: 0 }.request("make", of, code, fill)?;
        Self::find(name)
    }

    /// The interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's number in this network namespace.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Length of the longest packet that the interface sends, without the link-layer header.
    ///
    /// # Errors
    ///
    /// If the interface no longer exists.
    pub fn mtu(&self) -> Result<u32, InterfaceError> {
        let request = self.ioctl("read the MTU of", libc::SIOCGIFMTU, |_| {})?;
        // SAFETY: SIOCGIFMTU fills in the MTU.
        Ok(unsafe { request.ifr_ifru.ifru_mtu }.unsigned_abs())
    }

    /// The interface's MAC address.
    ///
    /// # Errors
    ///
    /// If the interface no longer exists.
    pub fn mac(&self) -> Result<[u8; 6], InterfaceError> {
        let request = self.ioctl("read the address of", libc::SIOCGIFHWADDR, |_| {})?;
        // SAFETY: SIOCGIFHWADDR fills in the address.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr }.sa_data;
        Ok(std::array::from_fn(|i| address[i].to_ne_bytes()[0]))
    }

    /// Returns `true` if this host has an IPv4 address on the interface.
    #[must_use]
    pub fn has_address(&self) -> bool {
        self.ioctl("read the address of", libc::SIOCGIFADDR, |_| {}).is_ok()
    }

    /// Returns `true` if the interface is up.
    ///
    /// # Errors
    ///
    /// If the interface no longer exists.
    pub fn is_up(&self) -> Result<bool, InterfaceError> {
        Ok(self.flags()? & UP != 0)
    }

    /// Sets the interface up or down.
    ///
    /// # Errors
    ///
    /// Without CAP_NET_ADMIN, or if the interface no longer exists.
    pub fn set_up(&self, up: bool) -> Result<(), InterfaceError> {
        let flags = if up { self.flags()? | UP } else { self.flags()? & !UP };
        self.ioctl("change the state of", libc::SIOCSIFFLAGS, |request| {
            request.ifr_ifru.ifru_flags = flags;
        })?;
        Ok(())
    }

    fn flags(&self) -> Result<libc::c_short, InterfaceError> {
        let request = self.ioctl("read the state of", libc::SIOCGIFFLAGS, |_| {})?;
        // SAFETY: SIOCGIFFLAGS fills in the flags.
        Ok(unsafe { request.ifr_ifru.ifru_flags })
    }

    /// Makes one request about this interface. `fill` sets the fields after the name.
    pub(crate) fn ioctl(
        &self,
        doing: &'static str,
        code: libc::c_ulong,
        fill: impl FnOnce(&mut libc::ifreq),
    ) -> Result<libc::ifreq, InterfaceError> {
        let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(|e| self.error(doing, e))?;
        self.request(doing, socket.as_fd(), code, fill)
    }

    /// Makes one request about this interface on the descriptor `of`.
    fn request(
        &self,
        doing: &'static str,
        of: BorrowedFd<'_>,
        code: libc::c_ulong,
        fill: impl FnOnce(&mut libc::ifreq),
    ) -> Result<libc::ifreq, InterfaceError> {
        // SAFETY: an ifreq is plain data, and all zeroes is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let room = request.ifr_name.len() - 1;
        if self.name.is_empty() || self.name.len() > room || self.name.contains('\0') {
            return Err(InterfaceError::NotFound { name: self.name.clone() });
        }
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        fill(&mut request);
        // SAFETY: `request` is a whole ifreq for the request `code`. A pointer that `fill` stored
        // in it outlives the call.
        let result = unsafe { libc::ioctl(of.as_raw_fd(), code, &raw mut request) };
        check(result).map_err(|e| self.error(doing, e))?;
        Ok(request)
    }

    /// Translates an operating-system `error` of the request `doing` into the error for the
    /// operator.
    pub(crate) fn error(&self, doing: &'static str, error: io::Error) -> InterfaceError {
        let name = self.name.clone();
        match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => InterfaceError::NotFound { name },
            Some(libc::EPERM | libc::EACCES) => InterfaceError::NoPrivilege { name, doing },
            Some(libc::EOPNOTSUPP) => InterfaceError::Unsupported { name, doing },
            _ => InterfaceError::System { name, doing, source: error },
        }
    }
}

#[expect(clippy::as_conversions, reason = "the constant fits; the field of ifreq is a short")]
const UP: libc::c_short = libc::IFF_UP as libc::c_short;

/// The text in a fixed-size field, up to the first zero byte.
pub(crate) fn text(field: &[u8]) -> String {
    CStr::from_bytes_until_nul(field).map_or_else(|_| String::new(), |s| s.to_string_lossy().into())
}

/// Opens a socket that is closed on exec and never blocks.
pub(crate) fn open(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes no pointers.
    let fd = check(unsafe { libc::socket(family, kind, protocol) })?;
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The result of a system call, or its error.
pub(crate) fn check(result: RawFd) -> io::Result<RawFd> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_with_its_properties() {
        let lo = Interface::find("lo").unwrap();
        assert!(lo.index() > 0 && lo.mtu().unwrap() >= 1_280);
        assert_eq!(lo.mac().unwrap(), [0; 6]);
        assert_eq!(Interface::numbered(lo.index()).unwrap(), lo);
        assert!(Interface::numbered(u32::MAX).is_err());
        assert_eq!(lo.has_address(), lo.is_up().unwrap());
    }

    #[test]
    fn the_error_for_an_unknown_interface_states_its_name() {
        for name in ["no-such-port", "", "a\0b", "much-longer-than-an-interface-name"] {
            let error = Interface::find(name).unwrap_err();
            assert!(matches!(&error, InterfaceError::NotFound { name: n } if n == name));
            assert!(error.to_string().contains("ip link"));
        }
    }
}
