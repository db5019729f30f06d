//! Iterates over the options of a TCP header.

/// The kind and the body of each option. An option with an invalid length yields `None` and ends
/// the iteration.
///
/// Source: RFC 9293, section 3.1.
#[inline]
pub(crate) fn each(options: &[u8]) -> impl Iterator<Item = Option<(u8, &[u8])>> {
    each_at(options).map(|option| option.map(|(_, kind, body)| (kind, body)))
}

/// Like [`each`], with the offset of the body as the first value.
#[inline]
pub(crate) fn each_at(mut options: &[u8]) -> impl Iterator<Item = Option<(usize, u8, &[u8])>> {
    let len = options.len();
    std::iter::from_fn(move || {
        while let [NOP, rest @ ..] = options {
            options = rest;
        }
        match options {
            [] | [END, ..] => None,
            [kind, rest @ ..] => {
                let split = body(rest);
                options = split.map_or(&[], |(_, rest)| rest);
                Some(split.map(|(body, behind)| (len - behind.len() - body.len(), *kind, body)))
            }
        }
    })
}

/// Splits `rest`, which begins with the length field of an option, into the option's body and the
/// remaining bytes.
#[inline]
fn body(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = rest.split_first()?;
    rest.split_at_checked(usize::from(*len).checked_sub(2)?)
}

pub(crate) const END: u8 = 0;
pub(crate) const NOP: u8 = 1;
pub(crate) const MSS: u8 = 2;
pub(crate) const WINDOW_SCALE: u8 = 3;
pub(crate) const SACK_PERMITTED: u8 = 4;
pub(crate) const SACK: u8 = 5;
pub(crate) const TIMESTAMPS: u8 = 8;
/// MD5 digest (RFC 2385).
pub(crate) const MD5: u8 = 19;
/// TCP authentication option (RFC 5925).
pub(crate) const AUTHENTICATION: u8 = 29;
/// Multipath TCP (RFC 8684).
pub(crate) const MPTCP: u8 = 30;
