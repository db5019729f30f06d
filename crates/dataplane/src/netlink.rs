//! Netlink requests to the kernel, and the kernel's answers.
//!
//! Source: Linux `include/uapi/linux/netlink.h`, `Documentation/userspace-api/netlink/intro.rst`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::interface::open;

/// A request under construction.
#[derive(Debug)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A request of message type `kind`, with `NLM_F_REQUEST | flags` and the fixed header `body`.
    pub(crate) fn new(kind: u16, flags: i32, body: &[u8]) -> Self {
        let flags = u16::try_from(libc::NLM_F_REQUEST | flags).unwrap_or(0);
        let mut message = vec![0; 4];
        message.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].concat());
        message.extend([0; 8]); // sequence number and sender
        message.extend(body);
        Self(message)
    }

    /// Appends an attribute.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend(attribute(kind, value));
        self
    }

    /// Sends the request and returns the answers, each without its `struct nlmsghdr`. A bare
    /// acknowledgement yields no answer.
    ///
    /// # Errors
    ///
    /// The error in the kernel's answer, or an error of the socket.
    pub(crate) fn send(mut self, protocol: i32) -> io::Result<Vec<Vec<u8>>> {
        let total = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&total.to_ne_bytes());
        let socket = open(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
        let (fd, request) = (socket.as_raw_fd(), &self.0);
        // SAFETY: the kernel reads at most the bytes of `request`.
        length(unsafe { libc::send(fd, request.as_ptr().cast(), request.len(), 0) })?;
        let mut answers = Vec::new();
        while !read(&receive(socket.as_fd())?, &mut answers)? {}
        Ok(answers)
    }
}

/// An attribute with its header and padding.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(ATTRIBUTE + value.len()).unwrap_or(u16::MAX);
    let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The value of the first attribute of type `kind` in `attributes`.
pub(crate) fn find(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = attributes;
    loop {
        let (len, found) = (usize::from(half(rest, 0)?), half(rest, 2)?);
        // The two upper bits are flags: nested, network byte order.
        if found & 0x3fff == kind {
            return rest.get(ATTRIBUTE..len);
        }
        rest = rest.get(len.max(ATTRIBUTE).next_multiple_of(4)..)?;
    }
}

/// The 32-bit number in `value`. `None` unless `value` has four bytes.
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `struct nlattr`.
const ATTRIBUTE: usize = 4;

fn receive(socket: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let (fd, mut answer) = (socket.as_raw_fd(), vec![0_u8; 32_768]);
    // SAFETY: the kernel writes at most the bytes of `answer`.
    let received = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) };
    answer.truncate(length(received)?);
    Ok(answer)
}

/// Appends the messages of one datagram to `answers`. Returns `true` after the last message.
fn read(datagram: &[u8], answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    let mut rest = datagram;
    while let Some(len) = rest.get(..4).and_then(number) {
        let len = usize::try_from(len).unwrap_or(usize::MAX).clamp(HEADER, rest.len().max(HEADER));
        let Some(body) = rest.get(HEADER..len) else { break };
        let (kind, flags) = (i32::from(half(rest, 4).unwrap_or(0)), half(rest, 6).unwrap_or(0));
        if kind == libc::NLMSG_ERROR || kind == libc::NLMSG_DONE {
            let code = body.get(..4).and_then(number).map_or(0, u32::cast_signed);
            return if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(true) };
        }
        answers.push(body.to_vec());
        if i32::from(flags) & libc::NLM_F_MULTI == 0 {
            return Ok(true);
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(datagram.is_empty())
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn length(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_found_after_others_and_not_in_a_truncated_answer() {
        let answer = [attribute(2, b"netdev\0"), attribute(1, &[5, 0])].concat();
        assert_eq!(find(&answer, 1), Some([5, 0].as_slice()));
        assert_eq!(find(&answer, 2), Some(b"netdev\0".as_slice()));
        assert_eq!(find(&answer, 9), None);
        for len in 0..answer.len() {
            let _ = find(&answer[..len], 1);
        }
        assert_eq!(find(&[0; 64], 1), None);
    }

    #[test]
    fn an_error_answer_is_returned_and_a_truncated_datagram_ends_the_parsing() {
        let message = |kind: i32, body: &[u8]| {
            let len = u32::try_from(HEADER + body.len()).unwrap();
            let kind = u16::try_from(kind).unwrap();
            [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
        };
        let mut answers = Vec::new();
        let error = read(&message(libc::NLMSG_ERROR, &(-2_i32).to_ne_bytes()), &mut answers);
        assert_eq!(error.unwrap_err().raw_os_error(), Some(2));
        assert!(read(&message(libc::NLMSG_ERROR, &[0; 4]), &mut answers).unwrap());
        assert!(read(&message(20, &[7; 4]), &mut answers).unwrap());
        assert_eq!(answers, [[7; 4]]);
        let whole = message(20, &[7; 4]);
        for len in 0..whole.len() {
            let _ = read(&whole[..len], &mut answers);
        }
    }
}
