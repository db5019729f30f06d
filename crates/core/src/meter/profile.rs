//! Traffic profiles: how much traffic is in profile (RFC 2475, section 2.3.2).

use std::fmt;

use crate::{Bytes, Rate};

/// How much traffic is in profile: the arrival curve of its two buckets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Profile {
    mean: Rate,
    peak: Option<Rate>,
    burst: Bytes,
}

impl Profile {
    /// A profile that packets of up to `longest` charged bytes can conform to.
    ///
    /// # Errors
    ///
    /// If no packet, or not the longest, could ever conform, or the peak rate were the lower one.
    pub fn new(
        mean: Rate,
        peak: Option<Rate>,
        burst: Bytes,
        longest: Bytes,
    ) -> Result<Self, ProfileError> {
        if mean.bps() == 0 {
            return Err(ProfileError::NoRate);
        }
        if let Some(peak) = peak.filter(|peak| *peak < mean) {
            return Err(ProfileError::PeakBelowMean { peak, mean });
        }
        if burst < longest {
            return Err(ProfileError::BurstBelowPacket { burst, longest });
        }
        if burst > Self::MAX_BURST {
            return Err(ProfileError::BurstTooLarge { burst });
        }
        Ok(Self { mean, peak, burst })
    }

    /// The deepest bucket: what keeps its content in `bits/s * ns` within 64 bits.
    pub const MAX_BURST: Bytes = Bytes(1 << 30);

    /// Tokens per second, over time.
    #[must_use]
    pub const fn mean(&self) -> Rate {
        self.mean
    }

    /// The fastest a burst may be sent at; `None` for as fast as the port.
    #[must_use]
    pub const fn peak(&self) -> Option<Rate> {
        self.peak
    }

    /// Most that may be sent at the peak rate at once.
    #[must_use]
    pub const fn burst(&self) -> Bytes {
        self.burst
    }

    /// The same profile with a burst of at most `most`.
    pub(crate) fn with_burst_of(self, most: Bytes) -> Self {
        Self { burst: self.burst.min(most), ..self }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mean {}", self.mean)?;
        if let Some(peak) = self.peak {
            write!(f, ", peak {peak}")?;
        }
        write!(f, ", burst {}", self.burst)
    }
}

/// Why a profile cannot be honoured.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A rate of zero would hold every packet forever.
    #[error(
        "a mean rate of zero would hold every packet forever; give a rate, or drop the traffic elsewhere"
    )]
    NoRate,
    /// The bucket could never hold enough for a full-size packet.
    #[error(
        "a burst of {burst} is smaller than a full-size packet ({longest}), which would wait forever; make it at least {longest}"
    )]
    BurstBelowPacket {
        /// The burst asked for.
        burst: Bytes,
        /// The longest packet there can be.
        longest: Bytes,
    },
    /// More than a bucket holds.
    #[error(
        "a burst of {burst} is more than a bucket holds; make it at most {}",
        Profile::MAX_BURST
    )]
    BurstTooLarge {
        /// The burst asked for.
        burst: Bytes,
    },
    /// The peak rate is what a burst is sent at, so it cannot be the lower of the two.
    #[error("the peak rate ({peak}) is below the mean rate ({mean}); raise it, or leave it out")]
    PeakBelowMean {
        /// The peak rate asked for.
        peak: Rate,
        /// The mean rate asked for.
        mean: Rate,
    },
}
