//! Meters: the bytes that may be sent now, and the times of later transmissions.

mod profile;
mod spacing;
mod token_bucket;

pub use profile::{Profile, ProfileError};
pub use spacing::PeakSpacing;
pub use token_bucket::TokenBucket;

use crate::Bytes;
use crate::units::NANOBITS_PER_BYTE;

/// Tokens in `bits/s * ns`, a unit without rounding errors; negative for a debt.
pub type Nanobits = i64;

/// `bytes` as tokens, limited to [`Profile::MAX_BURST`], which no packet exceeds.
#[inline]
pub fn nanobits(bytes: Bytes) -> Nanobits {
    (bytes.min(Profile::MAX_BURST).0 * NANOBITS_PER_BYTE).cast_signed()
}
