//! Window rules: how much data a sender may have in flight.
//!
//! | Rule | Largest window | Used by |
//! |---|---|---|
//! | none | the receiver's own | a flow whose window scale is unknown; with TCR, also one whose round trip is unknown |
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
//! bytes of an ACK: a receiver that acknowledges every fourth segment may leave three for its ACK timer. These
//! bytes count up to 200 ms of the rate: Linux acknowledges within that time (`TCP_DELACK_MAX`). A window has
//! at least four segments, as a loss then leaves three duplicate ACKs. It begins with an equal share of a round
//! trip, or with 64 KiB if this is more. It grows by an eighth of the acknowledged bytes, so little data comes
//! unrequested. A window that was advertised once stays, so the first one is limited before the round trip is
//! known: to 64 KiB.

use std::time::Duration;

use super::Known;
use super::constants::{SHORTEST_RTO, UNSCALED};
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
/// present window and its growth by the ACK `tcp`. `None` if the highest sequence number is unknown.
pub(super) fn clamp(
    flow: &HeldFlow,
    member: FlowIndex,
    shares: &Shares,
    known: &Known,
    tcp: &TcpSegment,
    reserve: Duration,
) -> Option<Bytes> {
    let (least, grown) = (flow.least_window(known.mss), flow.grown(tcp, known.sent?));
    let unscaled = Bytes(u64::from(UNSCALED) - 1);
    let Some(way) = known.near.zip(known.far).map(|(near, far)| near + far) else {
        return Some(grown.max(unscaled).max(least));
    };
    let first = shares.equal(member).bytes_in(way).max(unscaled);
    let rate = shares.most(member);
    let of_ack = Bytes(flow.newly(tcp, known.sent?).into());
    let most = rate.bytes_in(way + reserve) + of_ack.min(rate.bytes_in(SHORTEST_RTO));
    let most =
        if flow.is_extended() { most.min(rate.bytes_in(way) + flow.holdable()) } else { most };
    Some(most.min(grown.max(first)).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::packet::{TcpFlags, USUAL_MSS};

    const MEMBER: FlowIndex = FlowIndex(0);
    const RESERVE: Duration = Duration::from_millis(20);

    /// Catches: the receiver's window of 16 MiB for a sender whose round trip is not known yet: the gateway can never
    /// take that window back.
    #[test]
    fn the_first_window_is_of_64_kib_until_the_round_trip_is_known() {
        let mut shares = Shares::new(Rate::from_mbps(10), Duration::ZERO);
        shares.note(Time::ZERO, MEMBER, None);
        let window = |near, far| {
            let known = Known { near, far, scale: Some(9), sent: Some(1), ..Known::default() };
            let tcp = TcpSegment { ack: 1, window: 1 << 15, ..TcpSegment::default() };
            clamp(&HeldFlow::default(), MEMBER, &shares, &known, &tcp, RESERVE).unwrap().0
        };
        let far = Some(Duration::from_millis(1));
        assert_eq!([window(None, far), window(None, None)], [65_535; 2]);
        assert_eq!(window(Some(Duration::from_secs(1)), far), 1_251_250);
    }

    /// Catches: too little room for an ACK of four segments at a low rate; room for all data of an ACK after a repaired
    /// loss.
    #[test]
    fn a_window_has_room_for_the_bytes_of_an_ack_up_to_200_ms_of_the_rate() {
        let mut shares = Shares::new(Rate::from_mbps(1), Duration::ZERO);
        shares.note(Time::ZERO, MEMBER, None);
        let window = |segments: u32| {
            let (near, far) = (Some(Duration::from_millis(49)), Some(Duration::from_millis(1)));
            let sent = segments * USUAL_MSS;
            let known = Known { near, far, scale: Some(9), sent: Some(sent), ..Known::default() };
            let flags = TcpFlags(TcpFlags::ACK);
            let first = TcpSegment { window: 1 << 15, flags, ..TcpSegment::default() };
            let mut flow = HeldFlow::default();
            flow.learn(&known);
            flow.note(&first);
            let tcp = TcpSegment { ack: sent, ..first };
            clamp(&flow, MEMBER, &shares, &known, &tcp, RESERVE).unwrap().0
        };
        // 70 ms, and 200 ms, at 1 Mbit/s.
        assert_eq!([1, 2, 4].map(window), [1, 2, 4].map(|of| 8_750 + of * u64::from(USUAL_MSS)));
        assert_eq!(window(40), 8_750 + 25_000);
    }
}
