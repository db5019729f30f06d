//! Window rules: how much data a sender may have in flight.
//!
//! | Rule | Largest window | Used by |
//! |---|---|---|
//! | none | the receiver's own | a flow whose window scale or round trip is unknown |
//! | [`round_trip`] | the data of a round trip at the flow's share | TCR |
//! | [`clamp`] | the data of a round trip, of the reserve and of an ACK | PostACK |
//!
//! `HeldFlow::cap_to` writes the window into departing ACKs. An advertised window is never taken back: a
//! smaller one stops the sender until ACKs have caught up with it.
//!
//! Source: `postack`, R001-3 (windows of TCR), R001-11 (d) (the right edge never moves back).
//!
//! Differs: PostACK has a window rule too. A sender without another limit would have its ACKs held up to
//! the longest hold, and then its data would wait. The reserve is half of the longest hold, which leaves
//! room for the sender's growth. The gate makes it shorter (`reserve.rs`). A window also has room for the
//! bytes of an ACK, at most 20 ms: a receiver that acknowledges every fourth segment may leave three for its
//! ACK timer. A window has at least four segments, as a loss then leaves three duplicate ACKs. It begins with
//! an equal share of a round trip, or with 64 KiB if this is more. It grows by an eighth of the acknowledged
//! bytes, so little data comes unrequested.

use std::time::Duration;

use super::Known;
use super::constants::{AHEAD, UNSCALED};
use super::hold::HeldFlow;
use super::shares::Shares;
use crate::packet::{FlowIndex, TcpSegment};
use crate::{Bytes, Rate};

/// Window of TCR: the data of a round trip at `rate` and a segment more, in full segments of `mss` bytes, and
/// at least two. The round trip takes `way`.
///
/// Source: `postack`, R001-3. Differs: it has room for `first` bytes, the rest of the first flight, which an
/// upload sends in the window of the SYN with ACK.
pub(super) fn round_trip(rate: Rate, way: Duration, mss: u32, first: u64) -> Bytes {
    let mss = u64::from(mss);
    let needed = rate.bytes_in(way).0.saturating_add(mss);
    Bytes(needed.next_multiple_of(mss).max(2 * mss).max(first))
}

/// Window of PostACK for `flow`, which is `member`: ACKs are held for `reserve`. It is limited to the
/// present window and its growth by the ACK `tcp`. `None` if a round trip, or the highest sequence number,
/// is unknown.
pub(super) fn clamp(
    flow: &HeldFlow,
    member: FlowIndex,
    shares: &Shares,
    known: &Known,
    tcp: &TcpSegment,
    reserve: Duration,
) -> Option<Bytes> {
    let way = known.near? + known.far?;
    let (least, grown) = (flow.least_window(known.mss), flow.grown(tcp, known.sent?));
    let first = shares.equal(member).bytes_in(way).max(Bytes(u64::from(UNSCALED) - 1));
    let rate = shares.most(member);
    let unacknowledged = rate.bytes_in(AHEAD).min(Bytes(flow.newly(tcp, known.sent?).into()));
    let most = rate.bytes_in(way + reserve) + unacknowledged;
    let most =
        if flow.is_extended() { most.min(rate.bytes_in(way) + flow.holdable()) } else { most };
    Some(most.min(grown.max(first)).max(least))
}
