//! RACK: a segment is lost when a segment sent sufficiently later has been delivered.
//!
//! Source: RFC 8985, sections 6 and 7.
//! Differs: the reordering timer is set for the oldest segment that may still be lost, so each loss
//! is found at its own time. Section 6.2, step 5 sets it for the newest segment.

use std::time::Duration;

use tidegate_base::Time;

use super::delivered::Delivered;
use super::profile::Details;
use super::rto::Rto;
use super::scoreboard::{DUPLICATES, Scoreboard};

/// The most recently sent segment that was delivered, and the reordering seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rack {
    /// Send time and end of the delivered segment that was sent last.
    at: Time,
    end: u64,
    /// Round-trip time of that segment.
    rtt: Duration,
    /// Reordering was seen.
    reordered: bool,
    /// Reordering window in quarters of the least round-trip time.
    quarters: u8,
    /// Recoveries until `quarters` returns to one.
    persist: u8,
    /// End of the sent data when a D-SACK last enlarged the window.
    round: u64,
}

impl Rack {
    /// Notes delivered segments. `echoed` is `true` if timestamps show that the ACK is for the
    /// original transmission and not for a retransmission.
    ///
    /// Source: RFC 8985, section 6.2, steps 2 and 3.
    pub(super) fn deliver(&mut self, now: Time, delivered: &Delivered, rto: &Rto, echoed: bool) {
        self.reordered |= delivered.overtaken;
        let Some(latest) = delivered.latest else { return };
        let rtt = now.since(latest.at);
        if latest.repeated() && (echoed || rto.least().is_some_and(|least| rtt < least)) {
            return;
        }
        self.rtt = rtt;
        if (self.at, self.end) < (latest.at, latest.end()) {
            (self.at, self.end) = (latest.at, latest.end());
        }
    }

    /// Enlarges the reordering window, because a D-SACK reports a spurious retransmission.
    ///
    /// Source: RFC 8985, section 6.2, step 4.
    pub(super) fn duplicate(&mut self, una: u64, sent: u64) {
        if una >= self.round {
            self.quarters = self.quarters.max(1).saturating_add(1).min(MOST_QUARTERS);
            self.persist = PERSIST;
            self.round = sent;
        }
    }

    /// Notes that a recovery is over.
    pub(super) fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// The reordering window: the wait beyond a round-trip time before a segment is lost. It is
    /// zero if `may_skip` is `true` and no reordering was seen.
    fn reordering_window(&self, rto: &Rto, may_skip: bool) -> Duration {
        if !self.reordered && may_skip {
            return Duration::ZERO;
        }
        let quarter = rto.least().unwrap_or_default() / 4;
        (quarter * u32::from(self.quarters.max(1))).min(rto.smoothed().unwrap_or_default())
    }

    /// Marks lost segments. Returns the time at which the next segment may be lost. `recovering` is
    /// `true` in a fast recovery and after a timeout.
    ///
    /// Source: RFC 8985, section 6.2, step 5.
    pub(super) fn detect(
        &self,
        now: Time,
        details: &Details,
        board: &mut Scoreboard,
        rto: &Rto,
        recovering: bool,
    ) -> Option<Time> {
        if !details.rack || self.end == 0 {
            return None;
        }
        let may_skip = recovering || board.delivered_out_of_order() >= DUPLICATES;
        let wait = self.rtt + self.reordering_window(rto, may_skip);
        let (at, end) = (self.at, self.end);
        let waiting =
            board.lose_older(|sent| sent.sent_before(at, end) && sent.at + wait <= now)?;
        waiting.sent_before(at, end).then(|| waiting.at + wait)
    }
}

/// Number of recoveries after which an enlarged reordering window is reset.
///
/// Source: RFC 8985, section 6.2, step 4 (`RACK.reo_wnd_persist`).
const PERSIST: u8 = 16;

/// Upper bound of `quarters`. At this value the smoothed round-trip time limits the wait.
const MOST_QUARTERS: u8 = 200;
