//! A TUN device: exchanges IP packets between this host's network stack and the process.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::InterfaceError;
use crate::interface::Interface;

/// A TUN device, removed when dropped. `receive` returns the packets that the host routes to it,
/// and `send` delivers packets to the host.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// Creates the device `name` in the network namespace of this thread. The device is down and
    /// has no address.
    ///
    /// # Errors
    ///
    /// Without CAP_NET_ADMIN, without `/dev/net/tun`, or if an interface with this name exists.
    pub fn create(name: &str) -> Result<Self, InterfaceError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let failed =
            |source| InterfaceError::System { name: name.to_owned(), doing: "make", source };
        let file = options.open("/dev/net/tun").map_err(failed)?;
        Interface::make(name, file.as_fd(), libc::TUNSETIFF, |request| {
            request.ifr_ifru.ifru_flags = FLAGS;
        })?;
        Ok(Self(file))
    }

    /// Reads the next packet and returns its length. `None` if no packet waits.
    ///
    /// # Errors
    ///
    /// If the device is down or no longer exists.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.0).read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            result => result.map(Some),
        }
    }

    /// Delivers `packet` to the host.
    ///
    /// # Errors
    ///
    /// If the device is down or no longer exists, or `packet` is not an IP packet.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.0).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Flags of the device: it carries IP packets, without a driver header before each packet.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "the constants fit; the field of ifreq is a short"
)]
const FLAGS: libc::c_short = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
