//! Growth of the window in Reno and related algorithms.

use serde::Deserialize;

use tidegate_base::parameters::{Form, Parameter, Written};

use super::hystart::GROWTH_DIVISOR;
use super::{Ack, Window};

/// The unit that is counted for the growth of a window.
///
/// Source: RFC 5681, section 3.1; RFC 3465, section 2.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Counting {
    /// Each ACK counts as one segment. With delayed ACKs the window grows half as fast (RFC 5681,
    /// equations 2 and 3; ns-2).
    Acks,
    /// Each ACK counts the bytes it acknowledges (appropriate byte counting, RFC 3465).
    Bytes {
        /// The most segments that one ACK may add in slow start: L of RFC 3465. Linux has no limit.
        limit: u32,
        /// The most segments that one ACK may add in the slow start after a timeout. RFC 3465
        /// recommends 1.
        after_timeout: u32,
    },
}

tidegate_base::value! {
    Counting: form(), |it| Some(it.as_written()), <Self as Deserialize>::deserialize;
}

/// The forms of [`Counting`]: a name, or the name with a table.
fn form() -> Form {
    let limit = |name, about| Parameter {
        name,
        about,
        default: None,
        form: Form::Whole(0, u32::MAX.into()),
        limits: Default::default(),
    };
    let bytes = Form::Table(vec![
        limit("limit", "The most segments that one ACK may add in slow start (L of RFC 3465)."),
        limit("after_timeout", "The same in the slow start after a timeout."),
    ]);
    Form::Any(vec![
        Form::Choice(&[("acks", "Each ACK counts as one segment.")]),
        Form::Table(vec![Parameter {
            name: "bytes",
            about: "Each ACK counts the bytes it acknowledges (RFC 3465).",
            default: None,
            form: bytes,
            limits: Default::default(),
        }]),
    ])
}

impl Counting {
    fn as_written(self) -> Written {
        match self {
            Self::Acks => Written::Text("acks".to_owned()),
            Self::Bytes { limit, after_timeout } => Written::Table(vec![(
                "bytes",
                Written::Table(vec![
                    ("limit", Written::Whole(limit.into())),
                    ("after_timeout", Written::Whole(after_timeout.into())),
                ]),
            )]),
        }
    }

    /// The recommendation of RFC 3465: at most two segments per ACK, one after a timeout.
    pub const RFC: Self = Self::Bytes { limit: 2, after_timeout: 1 };

    /// As in Linux: an ACK adds all the bytes it acknowledges.
    pub const LINUX: Self = Self::Bytes { limit: u32::MAX, after_timeout: u32::MAX };
}

/// Segments per window by which the window grows, in units of 2^-20.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Pace(u64);

impl Pace {
    /// The growth of Reno.
    pub(super) const ONE: Self = Self(1 << 20);

    /// `numerator / denominator` segments per window, rounded down.
    pub(super) fn ratio(numerator: u128, denominator: u128) -> Self {
        let scaled = numerator.saturating_mul(u128::from(Self::ONE.0)) / denominator.max(1);
        Self(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

/// Slow start and congestion avoidance, with the remainders between ACKs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    counting: Counting,
    /// Remainder. With [`Counting::Bytes`]: bytes acknowledged towards the next segment. With
    /// [`Counting::Acks`]: the fraction of a byte, times the window. With a [`Pace`]: the fraction
    /// of a byte, in units of the pace.
    carried: u64,
    after_timeout: bool,
}

impl Growth {
    pub(super) fn new(counting: Counting) -> Self {
        Self { counting, carried: 0, after_timeout: false }
    }

    /// Slow start below the threshold, one segment per window above it.
    pub(super) fn advance(&mut self, window: &mut Window, ack: &Ack) {
        let rest = self.below_threshold(window, ack);
        if rest > 0 {
            self.avoid(window, rest);
        }
    }

    /// Slow start below the threshold, `pace` segments per window above it, at most one per ACK.
    pub(super) fn advance_at(&mut self, window: &mut Window, ack: &Ack, pace: Pace) {
        let rest = self.below_threshold(window, ack);
        if rest > 0 {
            self.avoid_at(window, rest, pace);
        }
    }

    /// Grows below the threshold. Returns the bytes acknowledged beyond it.
    fn below_threshold(&mut self, window: &mut Window, ack: &Ack) -> u64 {
        if window.in_slow_start() { self.slow_start(window, ack.bytes) } else { ack.bytes }
    }

    /// Number of bytes for which an ACK of `bytes` counts in congestion avoidance.
    pub(super) fn counted(&mut self, window: &Window, bytes: u64) -> u64 {
        self.after_timeout = false;
        match self.counting {
            Counting::Acks => window.segment,
            Counting::Bytes { .. } => bytes,
        }
    }

    /// Exponential growth divided by [`GROWTH_DIVISOR`] (conservative slow start). The threshold is
    /// far away then, so no bytes remain for congestion avoidance.
    pub(super) fn conservative(&mut self, window: &mut Window, bytes: u64) {
        let most = self.limit(window.segment).unwrap_or(window.segment);
        self.carried += bytes.min(most);
        window.congestion += self.carried / GROWTH_DIVISOR;
        self.carried %= GROWTH_DIVISOR;
    }

    /// Exponential growth. Returns the bytes acknowledged beyond the threshold.
    pub(super) fn slow_start(&mut self, window: &mut Window, bytes: u64) -> u64 {
        let Some(most) = self.limit(window.segment) else {
            window.congestion += bytes.min(window.segment);
            return 0;
        };
        let counted = bytes.min(most);
        let below = window.threshold.saturating_sub(window.congestion).min(counted);
        window.congestion += below;
        counted - below
    }

    /// Linear growth: one segment for each window of `bytes` acknowledged.
    pub(super) fn avoid(&mut self, window: &mut Window, bytes: u64) {
        self.after_timeout = false;
        let per_window = window.congestion.max(1);
        match self.counting {
            Counting::Acks => {
                self.carried += window.segment * window.segment;
                window.congestion += self.carried / per_window;
                self.carried %= per_window;
            }
            Counting::Bytes { .. } => {
                self.carried += bytes;
                if self.carried >= per_window {
                    self.carried -= per_window;
                    window.congestion += window.segment;
                }
            }
        }
    }

    fn avoid_at(&mut self, window: &mut Window, bytes: u64, pace: Pace) {
        let counted = self.counted(window, bytes);
        let grown = u128::from(window.segment) * u128::from(counted) * u128::from(pace.0)
            / u128::from(window.congestion.max(1));
        let most = window.segment * Pace::ONE.0;
        self.carried += u64::try_from(grown).unwrap_or(most).min(most);
        window.congestion += self.carried / Pace::ONE.0;
        self.carried %= Pace::ONE.0;
    }

    /// Clears the remainder after a reduction.
    pub(super) fn restart(&mut self, after_timeout: bool) {
        self.carried = 0;
        self.after_timeout = after_timeout;
    }

    /// The most bytes that one ACK may add in slow start, if bytes are counted.
    fn limit(&self, segment: u64) -> Option<u64> {
        match self.counting {
            Counting::Acks => None,
            Counting::Bytes { after_timeout, .. } if self.after_timeout => {
                Some(u64::from(after_timeout) * segment)
            }
            Counting::Bytes { limit, .. } => Some(u64::from(limit) * segment),
        }
    }
}
