//! Meters: how much may be sent by now, and when the rest may.

mod profile;
mod spacing;
mod token_bucket;

pub use profile::{Profile, ProfileError};
pub use spacing::PeakSpacing;
pub use token_bucket::TokenBucket;

use crate::Bytes;
use crate::units::NANOBITS_PER_BYTE;

/// Tokens in the unit in which nothing is lost to rounding: `bits/s * ns`; negative for a debt.
pub(crate) type Nanobits = i64;

/// `bytes` as tokens. No packet is longer than [`Profile::MAX_BURST`], so more is cut to that.
pub(crate) fn nanobits(bytes: Bytes) -> Nanobits {
    (bytes.min(Profile::MAX_BURST).0 * NANOBITS_PER_BYTE).cast_signed()
}
