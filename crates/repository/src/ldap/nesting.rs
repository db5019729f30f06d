//! Checks the nesting of a server's messages before the client library parses them.
//!
//! LDAP messages consist of nested BER elements (tag, length, content). The library's parser calls
//! itself for each level. A message with ten thousand levels would overflow the stack and end the
//! program. So the relay between server and library follows the lengths of all elements. It refuses
//! a message with more levels than any LDAP message has, and an element that is longer than its
//! enclosing element.
//!
//! Source: X.690, section 8.1; RFC 4511, section 5.1.
//! Differs: a tag has one byte, and the length byte `80` means zero, not "indefinite". The library
//! reads them in this way, and LDAP allows no other tags and lengths.

use crate::{Fault, FaultKind};

/// The position in a stream of messages.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    /// Number of bytes checked so far.
    position: u64,
    /// Ends of the open elements, the outermost first.
    ends: Vec<u64>,
    /// Remaining content bytes of the current primitive element.
    content: u64,
    header: BerHeader,
}

/// The part of an element's header that has arrived.
#[derive(Clone, Copy, Debug, Default)]
enum BerHeader {
    #[default]
    Tag,
    Length {
        constructed: bool,
    },
    LongLength {
        constructed: bool,
        bytes: u8,
        length: u64,
    },
}

impl Nesting {
    /// Checks `bytes`, the next part of the stream.
    ///
    /// # Errors
    ///
    /// If `bytes` cannot be a part of LDAP messages.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while let [first, rest @ ..] = bytes {
            if self.content > 0 {
                let skipped = usize::try_from(self.content).unwrap_or(usize::MAX).min(bytes.len());
                bytes = &bytes[skipped..];
                self.pass(skipped);
                self.content = self.content.saturating_sub(as_u64(skipped));
            } else {
                bytes = rest;
                self.pass(1);
                self.header(*first)?;
            }
            while self.content == 0
                && matches!(self.header, BerHeader::Tag)
                && self.ends.last().is_some_and(|end| *end <= self.position)
            {
                self.ends.pop();
            }
        }
        Ok(())
    }

    fn pass(&mut self, count: usize) {
        self.position = self.position.saturating_add(as_u64(count));
    }

    /// Processes the next byte of a header.
    fn header(&mut self, byte: u8) -> Result<(), Fault> {
        let short = u64::from(byte);
        match self.header {
            BerHeader::Tag => {
                self.header = BerHeader::Length { constructed: byte & CONSTRUCTED != 0 };
                Ok(())
            }
            BerHeader::Length { constructed } if byte <= LONG => {
                self.open(constructed, short % u64::from(LONG))
            }
            BerHeader::Length { constructed } => {
                let bytes = byte - LONG;
                if bytes > MOST_LENGTH_BYTES {
                    return Err(malformed("a length of too many bytes"));
                }
                self.header = BerHeader::LongLength { constructed, bytes, length: 0 };
                Ok(())
            }
            BerHeader::LongLength { constructed, bytes, length } => {
                let length = (length << u8::BITS) | short;
                if bytes == 1 {
                    return self.open(constructed, length);
                }
                self.header = BerHeader::LongLength { constructed, bytes: bytes - 1, length };
                Ok(())
            }
        }
    }

    /// Begins the content of an element. The content has `length` bytes.
    fn open(&mut self, constructed: bool, length: u64) -> Result<(), Fault> {
        self.header = BerHeader::Tag;
        let end =
            self.position.checked_add(length).ok_or_else(|| malformed("a length without end"))?;
        if self.ends.last().is_some_and(|around| end > *around) {
            return Err(malformed("an element that is longer than the one around it"));
        }
        if !constructed {
            self.content = length;
            return Ok(());
        }
        if self.ends.len() >= DEEPEST {
            return Err(malformed("elements that are nested too deeply"));
        }
        self.ends.push(end);
        Ok(())
    }
}

/// Checks that the library can safely parse `value`, the content of an LDAP control.
pub(super) fn check(value: &[u8]) -> Result<(), Fault> {
    let mut nesting = Nesting::default();
    nesting.follow(value)?;
    let whole = nesting.content == 0 && nesting.ends.is_empty();
    if whole && !value.is_empty() { Ok(()) } else { Err(malformed("half a value")) }
}

fn malformed(what: &str) -> Fault {
    Fault::new(FaultKind::Protocol, format!("the server sends what is not LDAP: {what}"))
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The tag bit of a constructed element, which contains other elements; X.690, section 8.1.2.5.
const CONSTRUCTED: u8 = 0x20;
/// From this value on, a length byte holds the number of following length bytes; X.690, section
/// 8.1.3.5.
const LONG: u8 = 0x80;
/// Maximum number of length bytes of an element. A longer length does not fit into 64 bits.
const MOST_LENGTH_BYTES: u8 = 8;
/// Limit for the levels of elements. The deepest response has six: message, entry, attributes,
/// attribute, values, value.
const DEEPEST: usize = 12;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `levels` elements, each inside the previous element.
    fn nested(levels: usize) -> Vec<u8> {
        (0..levels).fold(Vec::new(), |inner, _| {
            let length = u32::try_from(inner.len()).unwrap().to_be_bytes();
            [&[0x30, 0x84][..], &length, &inner].concat()
        })
    }

    /// Catches: levels of several messages added up; a level that is still counted after the end of
    /// its element.
    #[test]
    fn a_message_of_many_levels_is_refused() {
        let mut nesting = Nesting::default();
        for _ in 0..100 {
            nesting.follow(&nested(DEEPEST)).unwrap();
        }
        assert!(nesting.ends.is_empty());
        assert!(nesting.follow(&nested(DEEPEST + 1)).is_err());
    }

    #[test]
    fn an_element_longer_than_its_enclosing_element_is_refused() {
        assert!(Nesting::default().follow(b"\x30\x03\x04\x02a").is_err());
        assert!(Nesting::default().follow(b"\x30\x04\x04\x02ab").is_ok());
        assert!(Nesting::default().follow(b"\x30\x89").is_err());
        assert!(check(b"\x30\x04\x04\x02a").is_err());
        assert!(check(b"\x30\x80").is_ok());
    }

    fn element() -> impl Strategy<Value = Vec<u8>> {
        let leaf =
            prop::collection::vec(any::<u8>(), 0..200).prop_map(|content| with(0x04, &content));
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop::collection::vec(inner, 0..5).prop_map(|list| with(0x30, &list.concat()))
        })
    }

    fn with(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        let header = match u8::try_from(content.len()) {
            Ok(short) if short < LONG => vec![tag, short],
            _ => vec![tag, 0x82, length[0], length[1]],
        };
        [header, content.to_vec()].concat()
    }

    proptest! {
        /// Catches: a header that is misread because it arrives in two parts; content that is
        /// parsed as a header.
        #[test]
        fn messages_pass_in_pieces_of_any_size(messages in prop::collection::vec(element(), 1..5), cut in 1_usize..9) {
            let mut nesting = Nesting::default();
            for piece in messages.concat().chunks(cut) {
                nesting.follow(piece).unwrap();
            }
            prop_assert!(nesting.ends.is_empty() && nesting.content == 0);
        }
    }
}
