//! The peak rate of a profile, if it has one.

use std::time::Duration;

use tidegate_core::meter::PeakSpacing;
use tidegate_core::{Bytes, Rate, Time};

/// Spaces the packets of an aggregate at its peak rate.
///
/// Source: `aggregates`, section 2.1: the peak rate is the aggregate's, not a flow's.
pub(super) struct Peak(Option<PeakSpacing>);

impl Peak {
    /// `interval` is the interval of the shaping timer. Packets make up for lateness of up to
    /// `interval`, or [`LATENESS`] if that is longer.
    pub(super) fn new(rate: Option<Rate>, interval: Duration) -> Self {
        Self(rate.map(|rate| PeakSpacing::new(rate, interval.max(LATENESS))))
    }

    /// Changes the rate. With a peak rate before and after, the gap after the last packet stays as it is.
    pub(super) fn set(&mut self, rate: Option<Rate>, interval: Duration) {
        match (&mut self.0, rate) {
            (Some(spacing), Some(rate)) => spacing.set_rate(rate),
            _ => *self = Self::new(rate, interval),
        }
    }

    /// The earliest time at which a packet may depart.
    pub(super) fn ready_at(&self) -> Time {
        self.0.as_ref().map_or(Time::ZERO, PeakSpacing::ready_at)
    }

    /// Notes the departure of a packet of `len`, if the packet may depart.
    pub(super) fn take(&mut self, now: Time, len: Bytes) {
        if let Some(spacing) = &mut self.0 {
            spacing.try_take(now, len);
        }
    }
}

/// A driver's loop may be late by this much without reducing the rate below the peak.
const LATENESS: Duration = Duration::from_millis(2);
