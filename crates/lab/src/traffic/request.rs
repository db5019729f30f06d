//! The messages between client and server: requests for transfers, and reports of received bytes.

use std::io::{self, Read, Write};

/// The end that sends the data of a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sender {
    /// The server: a download.
    Server,
    /// The client: an upload.
    Client,
}

/// A request for a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Request {
    pub(super) sender: Sender,
    /// Bytes to transfer. `u64::MAX` means as many as possible until the connection ends.
    pub(super) bytes: u64,
}

/// A server's report of the bytes that it has received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Receipt {
    pub(super) bytes: u64,
    pub(super) intact: bool,
}

const MAGIC: [u8; 3] = *b"TG1";

impl Request {
    pub(super) fn write(self, to: &mut impl Write) -> io::Result<()> {
        let sender = match self.sender {
            Sender::Server => 0,
            Sender::Client => 1,
        };
        let mut message = [0; 12];
        message[..3].copy_from_slice(&MAGIC);
        message[3] = sender;
        message[4..].copy_from_slice(&self.bytes.to_be_bytes());
        to.write_all(&message)
    }

    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let (mut head, mut bytes) = ([0; 4], [0; 8]);
        from.read_exact(&mut head)?;
        from.read_exact(&mut bytes)?;
        let [magic @ .., sender] = head;
        let sender = match sender {
            0 => Sender::Server,
            1 => Sender::Client,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        if magic != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { sender, bytes: u64::from_be_bytes(bytes) })
    }
}

impl Receipt {
    pub(super) fn write(self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.bytes.to_be_bytes())?;
        to.write_all(&[u8::from(self.intact)])
    }

    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let (mut bytes, mut intact) = ([0; 8], [0]);
        from.read_exact(&mut bytes)?;
        from.read_exact(&mut intact)?;
        Ok(Self { bytes: u64::from_be_bytes(bytes), intact: intact == [1] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_receipts_are_read_back_unchanged() {
        let request = Request { sender: Sender::Client, bytes: 12_345 };
        let mut wire = Vec::new();
        request.write(&mut wire).unwrap();
        assert_eq!(Request::read(&mut wire.as_slice()).unwrap(), request);
        assert!(Request::read(&mut &b"GET / HTTP/1.1\r\n"[..]).is_err());
        let receipt = Receipt { bytes: 7, intact: true };
        let mut wire = Vec::new();
        receipt.write(&mut wire).unwrap();
        assert_eq!(Receipt::read(&mut wire.as_slice()).unwrap(), receipt);
    }
}
