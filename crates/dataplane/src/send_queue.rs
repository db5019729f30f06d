//! The number of bytes that a TCP socket has sent or queued and the peer has not acknowledged.
//!
//! Source: Linux, `tcp(7)`, `SIOCOUTQ`, and `net/ipv4/tcp.c` (`tcp_ioctl`): a FIN counts as one
//! byte.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes in the send queue of `socket`; an unacknowledged FIN counts as one byte. Zero means that
/// the peer has acknowledged all data.
///
/// # Errors
///
/// If `socket` is not a TCP socket.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one int to a variable that outlives it. The descriptor is borrowed.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    /// Catches: the length of the receive queue returned instead of the send queue; a count that
    /// does not fall after all data is acknowledged.
    #[test]
    fn acknowledged_bytes_are_no_longer_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        let block = vec![7; 1 << 20];
        let mut written = 0;
        // Writes until the buffers of both ends are full.
        while let Ok(bytes) = client.write(&block) {
            written += bytes;
        }
        assert!(unacknowledged(&client).unwrap() > 0);
        client.shutdown(Shutdown::Write).unwrap();
        let mut read = 0;
        let mut buffer = vec![0; 1 << 20];
        while read < written {
            read += server.read(&mut buffer).unwrap();
        }
        assert_eq!(server.read(&mut buffer).unwrap(), 0);
        while unacknowledged(&client).unwrap() > 0 {
            std::thread::yield_now();
        }
        assert!(unacknowledged(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
