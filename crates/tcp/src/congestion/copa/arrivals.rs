//! Recent rate of arrivals at the receiver, by its clock or by the ACKs. A *boundary* is a packet
//! whose arrival the receiver reports.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler): the receive rate between two boundaries.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_base::Time;

/// Arrivals between two boundaries.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Arrived {
    /// Bytes that arrived, including the later boundary.
    pub bytes: u64,
    /// Time between the two boundaries.
    pub span: Duration,
}

/// Recent arrivals, oldest first.
#[derive(Default)]
pub(super) struct Arrivals {
    lately: VecDeque<(Time, Arrived)>,
    bytes: u64,
    span: Duration,
}

impl Arrivals {
    /// Adds the arrivals reported at `now`, and forgets reports older than `oldest`.
    pub(super) fn push(&mut self, now: Time, arrived: Arrived, oldest: Time) {
        self.lately.push_back((now, arrived));
        self.bytes = self.bytes.saturating_add(arrived.bytes);
        self.span = self.span.saturating_add(arrived.span);
        while let Some((_, old)) = self.lately.pop_front_if(|(at, _)| *at < oldest) {
            self.bytes = self.bytes.saturating_sub(old.bytes);
            self.span = self.span.saturating_sub(old.span);
        }
    }

    /// Bytes that arrive within `span` at the recent rate. `None` if the rate is unknown.
    pub(super) fn within(&self, span: Duration) -> Option<u64> {
        let bytes = u128::from(self.bytes) * span.as_nanos();
        u64::try_from(bytes.checked_div(self.span.as_nanos())?).ok()
    }
}
