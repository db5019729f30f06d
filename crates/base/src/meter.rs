//! Meters that enforce the mean rate and the peak rate of an aggregate (the flows of one policy).

mod profile;
mod spacing;
mod token_bucket;

pub use profile::{Profile, ProfileError};
pub use spacing::PeakSpacing;
pub use token_bucket::TokenBucket;

use crate::Bytes;
use crate::units::NANOBITS_PER_BYTE;

/// Token-bucket tokens in `bits/s * ns`, a unit without rounding errors. Negative for a debt.
pub type Nanobits = i64;

/// `bytes` as tokens. Limited to [`Profile::MAX_BURST`], which is longer than any packet.
#[inline]
pub fn nanobits(bytes: Bytes) -> Nanobits {
    (bytes.min(Profile::MAX_BURST).0 * NANOBITS_PER_BYTE).cast_signed()
}
