//! Traffic profiles: the rates and bursts that traffic must keep to be in profile (RFC 2475,
//! section 2.3.2).

use std::fmt;

use crate::{Bytes, Packet, Rate};

/// Mean rate and burst, enforced by a token bucket, and peak rate, enforced by a minimum spacing.
///
/// ```
/// use tidegate_base::meter::{Profile, ProfileError};
/// use tidegate_base::{Bytes, Rate};
///
/// let mean = Rate::from_mbps(8);
/// let profile = Profile::new(mean, None, Bytes(32_768), Bytes(1_514)).unwrap();
/// assert_eq!(profile.burst(), Bytes(32_768));
/// // A packet longer than the burst would wait forever.
/// let error = Profile::new(mean, None, Bytes(1_000), Bytes(1_514)).unwrap_err();
/// assert!(matches!(error, ProfileError::BurstBelowPacket { .. }));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Profile {
    mean: Rate,
    peak: Option<Rate>,
    burst: Bytes,
    max_packet: Option<Bytes>,
}

impl Profile {
    /// A profile for packets of up to `longest` charged bytes. It has no limit on the length of IP
    /// packets, which [`with_max_packet`](Self::with_max_packet) adds.
    ///
    /// # Errors
    ///
    /// If a packet of this length could never conform, or if the peak rate is below the mean rate.
    #[inline]
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
        Ok(Self { mean, peak, burst, max_packet: None })
    }

    /// This profile with a limit: IP packets longer than `longest` never conform.
    ///
    /// Source: `aggregates`, section 3 (L_m, the longest packet); RFC 2210, section 3.1 (maximum
    /// packet size M).
    ///
    /// # Errors
    ///
    /// If the burst is shorter than a packet of this length.
    #[inline]
    pub fn with_max_packet(self, longest: Bytes) -> Result<Self, ProfileError> {
        if self.burst < longest {
            return Err(ProfileError::BurstBelowMaxPacket { burst: self.burst, longest });
        }
        Ok(Self { max_packet: Some(longest), ..self })
    }

    /// The largest burst. In the unit `bits/s * ns`, it fits into 64 bits.
    pub const MAX_BURST: Bytes = Bytes(1 << 30);

    /// Mean rate, at which the token bucket fills.
    #[must_use]
    #[inline]
    pub const fn mean(&self) -> Rate {
        self.mean
    }

    /// Highest rate of a burst. `None` if a burst departs at the rate of the port.
    #[must_use]
    #[inline]
    pub const fn peak(&self) -> Option<Rate> {
        self.peak
    }

    /// Most bytes that may be sent at once at the peak rate.
    #[must_use]
    #[inline]
    pub const fn burst(&self) -> Bytes {
        self.burst
    }

    /// Length of the longest IP packet that conforms. `None` if every packet that fits into the
    /// burst conforms.
    #[must_use]
    #[inline]
    pub const fn max_packet(&self) -> Option<Bytes> {
        self.max_packet
    }

    /// Returns `true` if `packet`, or a frame of a super-packet, is longer than `max_packet`.
    #[must_use]
    #[inline]
    pub fn is_too_long(&self, packet: &Packet) -> bool {
        self.max_packet.is_some_and(|longest| packet.longest_ip_len() > longest)
    }

    /// This profile with a burst of at most `most`.
    #[inline]
    pub fn with_burst_of(self, most: Bytes) -> Self {
        Self { burst: self.burst.min(most), ..self }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mean {}", self.mean)?;
        if let Some(peak) = self.peak {
            write!(f, ", peak {peak}")?;
        }
        write!(f, ", burst {}", self.burst)?;
        match self.max_packet {
            Some(longest) => write!(f, ", packets up to {longest}"),
            None => Ok(()),
        }
    }
}

/// The reason why a profile is invalid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The mean rate is zero, so that no packet could ever depart.
    #[error(
        "a mean rate of zero would hold every packet forever; give a rate, or drop the traffic elsewhere"
    )]
    NoRate,
    /// The burst is shorter than the longest possible packet, which could then never conform.
    #[error(
        "a burst of {burst} is smaller than a full-size packet ({longest}), which would wait forever; make it at least {longest}"
    )]
    BurstBelowPacket {
        /// The requested burst.
        burst: Bytes,
        /// The longest possible packet.
        longest: Bytes,
    },
    /// The burst is shorter than `max_packet`.
    #[error(
        "a burst of {burst} is smaller than `max_packet` ({longest}); raise the burst, or lower `max_packet`"
    )]
    BurstBelowMaxPacket {
        /// The burst of the profile.
        burst: Bytes,
        /// Length of the longest IP packet that is to conform.
        longest: Bytes,
    },
    /// The burst is above [`Profile::MAX_BURST`].
    #[error(
        "a burst of {burst} is more than a bucket holds; make it at most {}",
        Profile::MAX_BURST
    )]
    BurstTooLarge {
        /// The requested burst.
        burst: Bytes,
    },
    /// The peak rate is below the mean rate.
    #[error("the peak rate ({peak}) is below the mean rate ({mean}); raise it, or leave it out")]
    PeakBelowMean {
        /// The requested peak rate.
        peak: Rate,
        /// The requested mean rate.
        mean: Rate,
    },
}
