//! Decodes keys in hexadecimal notation.

/// Decodes 64 digits to 32 bytes; `None` for any other text.
#[must_use]
pub fn hexadecimal(text: &str) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut bytes = [0; 32];
    if !rest.is_empty() || pairs.len() != bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? * 16 + low?).ok()?;
    }
    Some(bytes)
}
