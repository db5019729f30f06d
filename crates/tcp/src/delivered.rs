//! The segments that one ACK delivers.

use tidegate_base::Time;

use super::rate::Stamp;
use super::scoreboard::Sent;

/// Summary of the segments that one ACK delivered, cumulatively or selectively.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    /// Bytes delivered.
    pub(super) bytes: u64,
    /// Send times of the first and the last of the segments that were acknowledged cumulatively and
    /// sent only once.
    pub(super) first_once: Option<Time>,
    pub(super) last_once: Option<Time>,
    /// Send time of the first of the segments that were acknowledged selectively and sent only
    /// once.
    pub(super) selective_once: Option<Time>,
    /// A segment acknowledged cumulatively was sent more than once.
    pub(super) repeated: bool,
    /// A segment that was sent once arrived after segments with higher offsets (reordering).
    pub(super) overtaken: bool,
    /// Lowest end offset of the segments that were sent only once.
    original: Option<u64>,
    /// The segment that was sent last.
    pub(super) latest: Option<Sent>,
    /// Delivery-rate stamp of `latest`, if stamps are kept.
    pub(super) stamp: Option<Stamp>,
}

impl Delivered {
    /// Counts a segment; `highest` is the highest offset delivered before it.
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

    /// True if a segment below `until` that was sent once has been delivered.
    pub(super) fn original_below(&self, until: u64) -> bool {
        self.original.is_some_and(|end| end <= until)
    }

    /// Counts a segment that was acknowledged cumulatively.
    pub(super) fn cumulative(&mut self, sent: &Sent) {
        if sent.repeated() {
            self.repeated = true;
        } else {
            self.first_once.get_or_insert(sent.at);
            self.last_once = Some(sent.at);
        }
    }

    /// Counts a segment that was acknowledged selectively.
    pub(super) fn selective(&mut self, sent: &Sent) {
        if !sent.repeated() {
            self.selective_once.get_or_insert(sent.at);
        }
    }
}
