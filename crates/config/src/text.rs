//! Converts the bytes of a file to text. The bytes must be UTF-8.

use std::fmt;

/// The position of the first invalid byte in a text that is not UTF-8.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotUtf8 {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The byte.
    pub byte: u8,
}

impl fmt::Display for NotUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, byte } = self;
        write!(
            f,
            "line {line}, column {column}: the byte 0x{byte:02x} is not UTF-8; save the text as UTF-8"
        )
    }
}

/// Converts `bytes` to text.
///
/// # Errors
///
/// If `bytes` are not UTF-8.
pub fn text(bytes: Vec<u8>) -> Result<String, NotUtf8> {
    String::from_utf8(bytes).map_err(|error| {
        let (bytes, valid) = (error.as_bytes(), error.utf8_error().valid_up_to());
        let before = String::from_utf8_lossy(bytes.get(..valid).unwrap_or_default());
        let last = before.rsplit('\n').next().unwrap_or_default();
        NotUtf8 {
            line: 1 + before.matches('\n').count(),
            column: 1 + last.chars().count(),
            byte: bytes.get(valid).copied().unwrap_or_default(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: columns counted in bytes; lines counted from 0.
    #[test]
    fn the_first_byte_that_is_not_utf8_is_found_by_line_and_column() {
        let at = |bytes: &[u8]| text(bytes.to_vec()).map_err(|it| (it.line, it.column, it.byte));
        assert_eq!(at("na\u{ef}ve\n".as_bytes()), Ok("na\u{ef}ve\n".to_owned()));
        assert_eq!(at(b"\xff"), Err((1, 1, 0xff)));
        assert_eq!(
            at("a\nb\n\u{e9}t"
                .as_bytes()
                .iter()
                .chain(b"\xe9\xff")
                .copied()
                .collect::<Vec<_>>()
                .as_slice()),
            Err((3, 3, 0xe9))
        );
        // The text ends within a character.
        assert_eq!(at(b"\n\xc3"), Err((2, 1, 0xc3)));
    }
}
