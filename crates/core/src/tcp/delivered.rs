//! What one ACK tells of the segments it delivers.

use super::rate::Stamp;
use super::scoreboard::Sent;
use crate::Time;

/// What was delivered by one ACK, cumulatively or selectively.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    /// Bytes delivered.
    pub(super) bytes: u64,
    /// Of those acknowledged cumulatively and sent once: when the first and the last were sent.
    pub(super) first_once: Option<Time>,
    pub(super) last_once: Option<Time>,
    /// Of those acknowledged selectively and sent once: when the first was sent.
    pub(super) selective_once: Option<Time>,
    /// Some acknowledged cumulatively was sent more than once.
    pub(super) repeated: bool,
    /// Some was overtaken: sent once, and delivered after what was sent later.
    pub(super) overtaken: bool,
    /// Where the lowest ends of those that were sent once.
    original: Option<u64>,
    /// The one that was sent last.
    pub(super) latest: Option<Sent>,
    /// Its stamp, where there are any.
    pub(super) stamp: Option<Stamp>,
}

impl Delivered {
    /// Counts a segment; `highest` is the highest place delivered before it.
    pub(super) fn add(&mut self, sent: &Sent, stamp: Option<Stamp>, highest: u64) {
        self.bytes += sent.len();
        if self.latest.is_none_or(|latest| latest.sent_before(sent.at, sent.end())) {
            (self.latest, self.stamp) = (Some(*sent), stamp);
        }
        if !sent.repeated() {
            let end = sent.end();
            self.original = Some(self.original.map_or(end, |lowest| lowest.min(end)));
            self.overtaken |= end < highest;
        }
    }

    /// Whether something below `until` was delivered that was sent once.
    pub(super) fn original_below(&self, until: u64) -> bool {
        self.original.is_some_and(|end| end <= until)
    }

    /// It was acknowledged cumulatively.
    pub(super) fn cumulative(&mut self, sent: &Sent) {
        if sent.repeated() {
            self.repeated = true;
        } else {
            self.first_once.get_or_insert(sent.at);
            self.last_once = Some(sent.at);
        }
    }

    /// It was acknowledged selectively.
    pub(super) fn selective(&mut self, sent: &Sent) {
        if !sent.repeated() {
            self.selective_once.get_or_insert(sent.at);
        }
    }
}
