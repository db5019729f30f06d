//! What an interface's driver can do for XDP, as the kernel says it (Linux 6.3 and later).
//!
//! Source: Linux `Documentation/netlink/specs/netdev.yaml`, `dev-get`; generic netlink,
//! `include/uapi/linux/genetlink.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::interface::{Interface, open};

/// What a driver can do for XDP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Features(u64);

impl Features {
    const BASIC: u64 = 1;
    const NDO_XMIT: u64 = 1 << 2;

    /// What the driver of `interface` can do; `None` if the kernel does not say.
    pub(super) fn of(interface: &Interface) -> Option<Self> {
        let socket = open(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC).ok()?;
        let family = ask(socket.as_fd(), &request(CONTROL, GET_FAMILY, FAMILY_NAME, b"netdev\0"))?;
        let family = u16::from_ne_bytes(attribute(&family, FAMILY_ID)?.try_into().ok()?);
        let index = interface.index().to_ne_bytes();
        let device = ask(socket.as_fd(), &request(family, GET_DEVICE, DEVICE_INDEX, &index))?;
        let features = attribute(&device, XDP_FEATURES)?.try_into().ok()?;
        Some(Self(u64::from_ne_bytes(features)))
    }

    /// It runs XDP programs itself.
    pub(super) const fn native(self) -> bool {
        self.0 & Self::BASIC != 0
    }

    /// It sends frames that an XDP program redirects to it. A veth does as long as its other end
    /// has GRO on or an XDP program of its own; else it loses them all without a word.
    pub(super) const fn takes_redirected(self) -> bool {
        self.0 & Self::NDO_XMIT != 0
    }
}

const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;

/// `struct nlmsghdr`, `struct genlmsghdr`, `struct nlattr`.
const HEADERS: usize = 16 + 4;
const ATTRIBUTE: usize = 4;

/// A request with one attribute.
fn request(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let len = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let padded = value.len().next_multiple_of(4);
    let total = u32::from(len(HEADERS + ATTRIBUTE + padded));
    let flags = u16::try_from(libc::NLM_F_REQUEST).unwrap_or(0);
    let mut message = Vec::new();
    message.extend(total.to_ne_bytes());
    message.extend([family.to_ne_bytes(), flags.to_ne_bytes()].concat());
    message.extend([0; 8]); // sequence number and sender
    message.extend([command, 1, 0, 0]);
    message.extend([len(ATTRIBUTE + value.len()).to_ne_bytes(), attribute.to_ne_bytes()].concat());
    message.extend(value);
    message.resize(message.len() + padded - value.len(), 0);
    message
}

/// The answer to `request`; `None` if it is an error.
fn ask(socket: BorrowedFd<'_>, request: &[u8]) -> Option<Vec<u8>> {
    let (fd, mut answer) = (socket.as_raw_fd(), vec![0_u8; 16_384]);
    // SAFETY: the kernel reads no more than the length of `request`.
    let sent = unsafe { libc::send(fd, request.as_ptr().cast(), request.len(), 0) };
    length(sent).ok()?;
    // SAFETY: the kernel writes no more than the length of `answer`.
    let received = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) };
    answer.truncate(length(received).ok()?);
    (answer.get(4..6)? == request.get(4..6)?).then_some(answer)
}

fn length(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// The value of the attribute of this `kind` in `answer`.
fn attribute(answer: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = answer.get(HEADERS..)?;
    loop {
        let field = |at| Some(u16::from_ne_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        let (len, found) = (usize::from(field(0)?), field(2)?);
        if found == kind {
            return rest.get(ATTRIBUTE..len);
        }
        rest = rest.get(len.max(ATTRIBUTE).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_an_attribute_behind_others_and_none_in_a_torn_answer() {
        let mut answer = request(7, 1, FAMILY_NAME, b"netdev\0");
        answer.extend(&request(7, 1, FAMILY_ID, &[5, 0])[HEADERS..]);
        assert_eq!(attribute(&answer, FAMILY_ID), Some([5, 0].as_slice()));
        assert_eq!(attribute(&answer, FAMILY_NAME), Some(b"netdev\0".as_slice()));
        assert_eq!(attribute(&answer, 9), None);
        for len in 0..answer.len() {
            let _ = attribute(&answer[..len], FAMILY_ID);
        }
        assert_eq!(attribute(&[0; 64], FAMILY_ID), None);
    }
}
