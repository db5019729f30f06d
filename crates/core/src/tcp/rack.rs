//! Losses by time: what was sent long enough before something that was delivered is lost.
//!
//! Source: RFC 8985, sections 6 and 7. Differs: the reordering timer is set for the first segment
//! that is still waited for, not for the last (section 6.2, step 5), so each is found lost in time.

use std::time::Duration;

use super::delivered::Delivered;
use super::profile::Details;
use super::rto::Rto;
use super::scoreboard::{DUPLICATES, Scoreboard};
use crate::Time;

/// What was delivered of what was sent last, and how much reordering is seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rack {
    /// When the segment sent last of all that were delivered was sent, and where it ends.
    at: Time,
    end: u64,
    /// Its round-trip time.
    rtt: Duration,
    /// Segments were seen to overtake one another.
    reordered: bool,
    /// Quarters of the least round-trip time that a segment is waited for.
    quarters: u8,
    /// Recoveries until `quarters` falls back to one.
    persist: u8,
    /// End of what was sent when a D-SACK last lengthened the wait.
    round: u64,
}

impl Rack {
    /// Source: RFC 8985, section 6.2, steps 2 and 3. `echoed` is whether timestamps show that the
    /// original was delivered, and not its copy.
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

    /// A D-SACK shows that something was sent again without need.
    ///
    /// Source: RFC 8985, section 6.2, step 4.
    pub(super) fn duplicate(&mut self, una: u64, sent: u64) {
        if una >= self.round {
            self.quarters = self.quarters.max(1).saturating_add(1).min(MOST_QUARTERS);
            self.persist = PERSIST;
            self.round = sent;
        }
    }

    /// A recovery is over.
    pub(super) fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// How much longer than a round-trip time a segment is waited for.
    fn patience(&self, rto: &Rto, impatient: bool) -> Duration {
        if !self.reordered && impatient {
            return Duration::ZERO;
        }
        let quarter = rto.least().unwrap_or_default() / 4;
        (quarter * u32::from(self.quarters.max(1))).min(rto.smoothed().unwrap_or_default())
    }

    /// Finds what is lost by now; returns when the next may be.
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
        let impatient = recovering || board.delivered_out_of_order() >= DUPLICATES;
        let wait = self.rtt + self.patience(rto, impatient);
        let (at, end) = (self.at, self.end);
        let waiting =
            board.lose_older(|sent| sent.sent_before(at, end) && sent.at + wait <= now)?;
        waiting.sent_before(at, end).then(|| waiting.at + wait)
    }
}

/// Source: RFC 8985, section 6.2, step 4 (`RACK.reo_wnd_persist`).
const PERSIST: u8 = 16;

/// So many quarters are longer than any smoothed round-trip time, which bounds the wait.
const MOST_QUARTERS: u8 = 200;
